"""What is sent to a terminal's clipboard: a text that does nothing, and no more than terminals take."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.term.clipboard import LONGEST_BYTES, condition, fitting, sequence, spelled, why_not


@given(st.lists(st.text(), max_size=5))
def test_nothing_that_is_pasted_is_a_key_or_a_sequence(lines: list[str]) -> None:
    kept = fitting(spelled(lines))
    assert len(kept) == len(lines)
    for line in kept:
        assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in line)
    sent = sequence("\n".join(kept))
    assert sent.startswith("\x1b]52;c;")
    assert sent.endswith("\x07")
    assert base64.b64decode(sent[7:-1], validate=True).decode() == "\n".join(kept)


def test_a_name_is_copied_as_it_is_written() -> None:
    assert spelled(["req-1", "日本語 🧑‍🚀", "a\x1b]52;c;eA==\x07b\nc  "]) == [
        "req-1",
        "日本語 🧑‍🚀",
        "a?]52;c;eA==?b?c",
    ]


def test_what_is_too_long_is_cut_at_a_line() -> None:
    lines = ["é" * 1000] * 100
    kept = fitting(lines)
    assert kept == lines[: len(kept)]
    assert LONGEST_BYTES - 2001 < sum(len(line.encode()) + 1 for line in kept) <= LONGEST_BYTES
    assert fitting(["x" * LONGEST_BYTES]) == []


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"TERM": "linux"}, "has no clipboard"),
        ({"TERM": "vt220"}, "has no clipboard"),
        ({"TERM": "screen", "STY": "1.pts"}, "GNU screen"),
        ({"TERM": "screen", "STY": "1.pts", "TMUX": "/tmp/x"}, None),
        ({"TERM": "xterm-256color"}, None),
        ({}, None),
    ],
)
def test_a_terminal_that_cannot_is_told(env: dict[str, str], says: str | None) -> None:
    reason = why_not(env)
    assert (reason is None) if says is None else says in (reason or "")


def test_tmux_has_a_condition() -> None:
    assert "set-clipboard" in condition({"TMUX": "/tmp/x"})
    assert condition({"TERM": "xterm"}) == ""
