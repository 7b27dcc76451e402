"""Tables of the shell: whole for a program, within its edge on a terminal."""

import fcntl
import os
import pty
import struct
import termios

from hypothesis import given
from hypothesis import strategies as st

from kvtop.commands.table import columns, table

DEAD = "down: nobody is listening at a socket that an engine has left behind when it was killed"
HEADINGS = ["NAME", "STATE", "KIND", "PID"]
ROWS = [["demo", "alive", "kvtop", "4321"], ["gone", DEAD, "–", "–"]]


def test_without_a_terminal_all_is_told() -> None:
    assert DEAD in table(HEADINGS, ROWS)


def test_on_a_terminal_the_columns_that_may_be_are_cut_and_the_others_stay() -> None:
    _, alive, dead = table(HEADINGS, ROWS, width=60, cut=("STATE",)).splitlines()
    assert len(alive) == 60
    assert alive.split() == ["demo", "alive", "kvtop", "4321"]
    assert dead.startswith("gone  down: nobody is listening at a ")
    assert "…" in dead
    assert dead.split()[-1] == "–"


LATIN = st.text(st.characters(max_codepoint=0x2FF), max_size=60)


@given(st.lists(st.lists(LATIN, min_size=4, max_size=4), max_size=4), st.integers(1, 200))
def test_no_line_is_wider_than_the_terminal(rows: list[list[str]], width: int) -> None:
    lines = table(HEADINGS, rows, width=width, cut=("STATE", "KIND", "NONE")).split("\n")
    assert len(lines) == 1 + len(rows)
    assert max(map(len, lines)) <= width


def test_the_width_is_that_of_the_terminal_if_there_is_one() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 77, 0, 0))
    with os.fdopen(theirs, "w") as terminal:
        assert columns(terminal) == 77
    os.close(ours)
    with open(os.devnull, "w") as nowhere:
        assert columns(nowhere) is None
