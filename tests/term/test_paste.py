"""What is pasted never acts as keys, wherever the terminal cuts it into pieces."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events

from kvtop.term import paste
from kvtop.term.paste import KeyParser

START, END = "\x1b[200~", "\x1b[201~"


def told(*reads: str) -> list[object]:
    """Keys by name and pastes by text, as they come out of so many reads."""
    parser = KeyParser()
    tokens = [token for read in reads for token in parser.feed(read)]
    assert all(isinstance(token, events.Key | events.Paste) for token in tokens)
    return [token.key if isinstance(token, events.Key) else (token.text,) for token in tokens]  # type: ignore[union-attr]


def in_pieces(text: str, cuts: list[int]) -> list[str]:
    places = [0, *sorted({cut % (len(text) + 1) for cut in cuts}), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(places) if b > a]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "chat-1",
        "two\nlines\r",
        "\x1bq",
        "\x1b[Aq",
        "\x1b[M !!q",
        "\x1b[<0;5;5Mq",
        "\x1bOPq\x1b\x1b\x1b",
        "\x1b]0;title\x07q" + "x" * 60,
        "\x1b[20",
        "\x1b[201",
        "\x1b[200~q",
        "\x03\x04\x1a",
    ],
)
def test_what_is_pasted_is_one_paste_and_no_key(text: str) -> None:
    assert told(f"j{START}{text}{END}k") == ["j", (text,), "k"]


# Characters that make sequences, more than by chance.
PASTED = st.text(st.sampled_from("\x1b[20~1;qMA<Ox\n\x03é")).filter(lambda text: END not in text + END[:-1])
TYPED = st.text(st.sampled_from("jkqx"), max_size=3)


@given(TYPED, PASTED, TYPED, PASTED, st.lists(st.integers(0, 200), max_size=6))
def test_wherever_it_is_cut(before: str, first: str, between: str, second: str, cuts: list[int]) -> None:
    text = f"{before}{START}{first}{END}{between}{START}{second}{END}"
    assert told(*in_pieces(text, cuts)) == [*before, (first,), *between, (second,)]


@given(
    st.lists(st.sampled_from(["q", "\x1b[A", "\x1bOP", "\x1b[1;5C", "\r"]), max_size=8), st.lists(st.integers(0, 60))
)
def test_keys_are_what_they_were(keys: list[str], cuts: list[int]) -> None:
    named = {"q": "q", "\x1b[A": "up", "\x1bOP": "f1", "\x1b[1;5C": "ctrl+right", "\r": "enter"}
    assert told(*in_pieces("".join(keys), cuts)) == [named[key] for key in keys]


def test_the_escape_key_alone_begins_no_paste(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = KeyParser()
    assert list(parser.feed("\x1b")) == []
    monkeypatch.setattr("textual._parser.get_time", lambda: 1e12)
    (escape,) = parser.tick()
    assert isinstance(escape, events.Key)
    assert escape.key == "escape"
    keys = [token.key for token in parser.feed(START[1:] + "q") if isinstance(token, events.Key)]
    assert keys[-1] == "q"


def test_an_endless_paste_is_kept_in_part_and_still_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paste, "LONGEST_PASTE", 10)
    assert told(START + "abcdefgh", "ijkl" * 100, "\x1bq", END + "k") == [("abcdefghij",), "k"]
