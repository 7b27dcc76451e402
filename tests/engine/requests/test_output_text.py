"""The text of a growing output against the definition: cut the whole text at the stop string that is complete first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.requests.output_text import OutputText, StopString

PIECES = [
    b"a",
    b"b",
    b"ab",
    b"ba",
    b"aab",
    "é".encode(),
    "é".encode()[:1],
    "é".encode()[1:],
    "🌧".encode()[:3],
    b"\x8f",
    b"",
]


def output(*stops: str, min_tokens: int = 0) -> OutputText:
    return OutputText(PIECES.__getitem__, [StopString(stop) for stop in stops], min_tokens)


def by_definition(data: bytes, stops: list[str], spared: int) -> tuple[str, str | None]:
    """What of ``data`` is text, and which of ``stops`` cut it: all prefixes are looked at, shortest first, without what lies
    in the first ``spared`` bytes."""
    for end in range(spared, len(data) + 1):
        found = [stop for stop in stops if data[spared:end].endswith(stop.encode())]
        if found:
            longest = max(found, key=lambda stop: len(stop.encode()))
            return data[: end - len(longest.encode())].decode(errors="replace"), longest
    return data.decode(errors="replace"), None


@given(
    st.lists(st.integers(0, len(PIECES) - 1), max_size=24),
    st.lists(st.text("abé", min_size=1, max_size=4), max_size=3, unique=True),
    st.integers(0, 4),
)
def test_whatever_the_tokens_are_it_is_what_the_whole_text_says(
    tokens: list[int], stops: list[str], min_tokens: int
) -> None:
    text, said, data = output(*stops, min_tokens=min_tokens), "", b""
    for token in tokens:
        if text.matched is None:
            would = text.would_stop(token)
            text = text.copy()
            text.add(token)
            data += PIECES[token]
            assert would == (text.matched is not None)
            assert text.text.startswith(said), "what was said was taken back"
            said = text.text
    text.finish()
    spared = len(b"".join(PIECES[token] for token in tokens[:min_tokens]))
    assert (text.text, text.matched) == by_definition(data, stops, spared)
    again = output(*stops, min_tokens=min_tokens).of(tokens)
    assert (again.text, again.matched) == (text.text, text.matched)


def test_what_may_be_a_stop_string_is_held_back_and_said_as_soon_as_it_is_none() -> None:
    text = output("abab")
    said = []
    for token in (0, 1, 0, 0, 1):  # a b a a b
        text.add(token)
        said.append(text.text)
    assert said == ["", "", "", "aba", "aba"]
    text.finish()
    assert text.text == "abaab"
    assert text.matched is None


def test_a_stop_string_is_found_across_tokens_and_inside_one() -> None:
    text = output("ba")
    text.add(4)  # aab
    assert text.text == "aa"
    text.add(2)  # ab: the b before and this a are the stop string, its own b comes after
    assert (text.text, text.matched) == ("aa", "ba")
    text.add(0)
    assert text.text == "aa", "nothing comes after a stop string"


def test_a_character_in_pieces_is_said_when_it_is_complete() -> None:
    text = output()
    said = []
    for token in (6, 7, 8, 9):
        text.add(token)
        said.append(text.text)
    assert said == ["", "é", "é", "é" + b"\xf0\x9f\x8c\x8f".decode()]


def test_an_incomplete_character_at_the_end_is_shown_as_one_that_cannot_be_read() -> None:
    text = output()
    text.add(8)
    text.finish()
    assert text.text == "�"


@pytest.mark.parametrize("stops", [(), ("bb", "é")])
def test_a_copy_goes_on_by_itself(stops: tuple[str, ...]) -> None:
    text = output(*stops)
    for token in (0, 1, 6):
        text.add(token)
    other = text.copy()
    other.add(7)
    text.add(0)
    text.finish()
    assert text.text == "ab\N{REPLACEMENT CHARACTER}a"
    assert (other.text, other.matched) == (("abé", None) if not stops else ("ab", "é"))
    assert text.fresh().of([0, 1]).text == "ab"
