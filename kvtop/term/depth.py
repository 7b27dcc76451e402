"""How many colours the terminal shows."""

from collections.abc import Mapping
from enum import Enum


class ColourDepth(Enum):
    """The values are what the setting ``colors`` may be, besides ``auto``."""

    TRUECOLOR = "truecolor"
    INDEXED = "256"
    ANSI16 = "16"
    NONE = "none"


_WITHOUT_COLOUR = frozenset({"", "dumb", "unknown"})
# Terminals that show 256 colours and whose TERM does not end in "-256color". ssh does not forward COLORTERM, so the
# name is all there is to go by.
_WITH_256 = ("alacritty", "contour", "foot", "ghostty", "iterm", "kitty", "konsole", "rio", "wezterm")


def detect(env: Mapping[str, str], isatty: bool) -> ColourDepth:
    """The colour depth of the terminal that ``env`` describes.

    A non-empty ``NO_COLOR`` (https://no-color.org) goes first; then an output that is no terminal, ``TERM`` and
    ``COLORTERM``.
    """
    term = env.get("TERM", "").lower()
    if env.get("NO_COLOR") or not isatty or term in _WITHOUT_COLOUR or term.startswith(("vt1", "vt2", "vt52")):
        return ColourDepth.NONE
    if env.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return ColourDepth.TRUECOLOR
    if "256" in term or any(name in term for name in _WITH_256):
        return ColourDepth.INDEXED
    return ColourDepth.ANSI16
