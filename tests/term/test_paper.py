"""Dark or light paper: what the environment tells, what the terminal answers."""

import pytest
from textual import events

from kvtop.term.paper import Paper, answered, told
from kvtop.term.paste import PIECE_TICKS, KeyParser, PaperTold


@pytest.mark.parametrize(
    ("value", "paper"),
    [
        ("0;15", Paper.LIGHT),
        ("0;default;15", Paper.LIGHT),
        ("0;7", Paper.LIGHT),
        ("12;11", Paper.LIGHT),
        ("15;0", Paper.DARK),
        ("7;8", Paper.DARK),
        ("0;default", Paper.DARK),
        ("15", Paper.LIGHT),
        ("", Paper.DARK),
        ("nonsense;99", Paper.DARK),
    ],
)
def test_the_environment_tells_the_paper(value: str, paper: Paper) -> None:
    assert told({"COLORFGBG": value}) is paper


@pytest.mark.parametrize(
    ("text", "paper"),
    [
        ("rgb:ffff/ffff/ffff", Paper.LIGHT),
        ("rgb:fd/f6/e3", Paper.LIGHT),
        ("rgba:ffff/ffff/dddd", Paper.LIGHT),
        ("rgb:0/0/0", Paper.DARK),
        ("rgb:1e1e/1e1e/1e1e", Paper.DARK),
        ("rgb:0000/2b2b/3636", Paper.DARK),
        ("white", None),
        ("rgb:fffff/0/0", None),
        ("", None),
    ],
)
def test_an_answer_is_read(text: str, paper: Paper | None) -> None:
    assert answered(text) is paper


def what_comes(*reads: str, asked: bool = True, ticks: int = 0) -> list[object]:
    """Keys by name and papers, as they come out of so many reads, with looks in between."""
    parser = KeyParser(asked=asked)
    tokens: list[object] = []
    for read in reads:
        tokens += parser.feed(read)
        for _ in range(ticks):
            tokens += parser.tick()
    return [token.key if isinstance(token, events.Key) else getattr(token, "paper", token) for token in tokens]


@pytest.mark.parametrize("end", ["\x07", "\x1b\\"])
def test_an_answer_is_no_keys_wherever_it_is_cut(end: str) -> None:
    answer = f"\x1b]11;rgb:ffff/ffff/ffff{end}"
    for cut in range(len(answer) + 1):
        assert what_comes("j" + answer[:cut], answer[cut:] + "k") == ["j", Paper.LIGHT, "k"], cut
    for cut in range(3, len(answer)):
        # Over a slow line the rest comes some looks later.
        assert what_comes(answer[:cut], answer[cut:], ticks=PIECE_TICKS - 2) == [Paper.LIGHT], cut


def test_an_answer_that_cannot_be_read_is_no_keys_either() -> None:
    assert what_comes("\x1b]11;q\x07j") == ["j"]


def test_escape_is_not_kept_waiting_for_it() -> None:
    """One look longer than Textual takes anyway, which waits for the rest of a sequence by the clock."""
    parser = KeyParser(asked=True)
    assert not list(parser.feed("\x1b"))
    assert not list(parser.tick())
    # What comes now is a key of its own, or ends the sequence that Textual has begun.
    assert [token.key for token in parser.feed("[A") if isinstance(token, events.Key)] == ["up"]


def test_who_has_not_asked_takes_no_answer() -> None:
    assert not any(isinstance(token, PaperTold) for token in KeyParser().feed("\x1b]11;rgb:ff/ff/ff\x07"))
