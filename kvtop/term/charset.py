"""Which characters the terminal can show, and the nearest ones where it cannot show more than ASCII."""

import codecs
import os
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Final

NEAREST: Final = "kvtop.nearest"
"""Name of an error handler for encoders: what the encoding lacks is written as ASCII of the same width."""

_STAND_INS: Final = {
    "–": "-",
    "—": "-",
    "·": ".",
    "•": "*",
    "→": ">",
    "←": "<",
    "↑": "^",
    "↓": "v",
    "▲": "^",
    "▼": "v",
    "▸": ">",
    "●": "*",
    "○": "o",
    "×": "x",
    "≥": ">",
    "≤": "<",
    "…": "~",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "\u00a0": " ",
}
_HORIZONTAL: Final = frozenset("─━═╌╍┄┅┈┉╴╶╸╺▁▔")
_VERTICAL: Final = frozenset("│┃║╎╏┆┇┊┋╵╷╹╻▏▕")

_UTF8: Final = re.compile(r"utf-?8", re.IGNORECASE)


def first_environment(path: Path = Path("/proc/self/environ")) -> Mapping[str, str]:
    """The environment as the process was given it, where the system tells; else as it is now.

    In the locale C, Python sets ``LC_CTYPE`` to one with UTF-8 for itself and its children (PEP 538), which says nothing
    of the terminal.
    """
    try:
        pairs = (pair.partition(b"=") for pair in path.read_bytes().split(b"\0"))
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if name} or os.environ
    except OSError:
        return os.environ


def speaks_utf8(env: Mapping[str, str]) -> bool:
    """Whether ``env`` says that the terminal shows UTF-8.

    What the user told Python (``PYTHONIOENCODING``, ``PYTHONUTF8=1``) goes first, then the locale: ``LC_ALL``, else
    ``LC_CTYPE``, else ``LANG``. With none of them the locale is C, which has ASCII alone.
    """
    if told := env.get("PYTHONIOENCODING", "").partition(":")[0]:
        return _UTF8.search(told) is not None
    if env.get("PYTHONUTF8") == "1":
        return True
    locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "C"
    return _UTF8.search(locale) is not None


def stand_in(char: str) -> str:
    """ASCII for ``char``, as many cells wide."""
    if char in _STAND_INS:
        return _STAND_INS[char]
    if char in _HORIZONTAL:
        return "-"
    if char in _VERTICAL:
        return "|"
    if "\u2500" <= char <= "\u257f":  # the corners and crossings of boxes
        return "+"
    if "\u2580" <= char <= "\u259f":  # blocks and halves of blocks
        return "#"
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return ""
    plain = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
    width = 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
    return plain if len(plain) == width else "?" * width


def _nearest(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(stand_in, error.object[error.start : error.end])), error.end


codecs.register_error(NEAREST, _nearest)
