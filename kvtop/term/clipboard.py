"""The terminal's clipboard, which a program can fill by an escape sequence (OSC 52), and never learns whether it did."""

import base64
from collections.abc import Mapping, Sequence
from typing import Final

from kvtop.views.clusters import spell
from kvtop.views.rows import clean

LONGEST_BYTES: Final = 32 << 10
"""Of a text, in UTF-8: in base64 a third more. Some terminals take no longer sequence than 64 KiB."""


def why_not(env: Mapping[str, str]) -> str | None:
    """Why the terminal that ``env`` describes cannot be given a text, in a sentence; None where it may be that it can."""
    term = env.get("TERM", "")
    if term.startswith(("linux", "vt")):
        return f"a terminal of the kind {clean(term, 16)} has no clipboard"
    if env.get("STY") and not env.get("TMUX"):
        return "GNU screen keeps what is copied from the terminal's clipboard"
    return None


def condition(env: Mapping[str, str]) -> str:
    """On what it depends whether a text arrives; empty where nothing is known."""
    return "if set-clipboard of tmux is on" if env.get("TMUX") else ""


def spelled(lines: Sequence[str]) -> list[str]:
    """Lines in cells, or from outside, as text that does nothing where it is pasted: without controls, and blanks at ends."""
    return [spell(clean(line, LONGEST_BYTES)).rstrip() for line in lines]


def fitting(lines: Sequence[str]) -> list[str]:
    """As many whole lines as a terminal takes."""
    kept: list[str] = []
    room = LONGEST_BYTES
    for line in lines:
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            break
        kept.append(line)
    return kept


def sequence(text: str) -> str:
    """What a terminal is sent; the text itself cannot end it, nor begin another."""
    return f"\x1b]52;c;{base64.b64encode(text.encode('utf-8', 'replace')).decode('ascii')}\x07"
