"""How many colours the terminal shows."""

from collections.abc import Mapping
from enum import Enum


class ColourDepth(Enum):
    """The values are what ``KVTOP_COLOR`` accepts."""

    TRUECOLOR = "truecolor"
    INDEXED = "256"
    ANSI16 = "16"
    NONE = "none"


_ALIASES = {"24bit": ColourDepth.TRUECOLOR, "indexed": ColourDepth.INDEXED, "ansi": ColourDepth.ANSI16}
_WITHOUT_COLOUR = frozenset({"", "dumb", "unknown"})
# Terminals that show 256 colours and whose TERM does not end in "-256color". ssh does not forward COLORTERM, so the
# name is all there is to go by.
_WITH_256 = ("alacritty", "contour", "foot", "ghostty", "iterm", "kitty", "konsole", "rio", "wezterm")


def detect(env: Mapping[str, str], isatty: bool) -> ColourDepth:
    """The colour depth of the terminal that ``env`` describes.

    ``KVTOP_COLOR`` (truecolor, 256, 16, none, auto) wins; then a non-empty ``NO_COLOR`` (https://no-color.org), an
    output that is no terminal, ``TERM`` and ``COLORTERM``.

    Raises:
        ValueError: ``KVTOP_COLOR`` is none of these; the message is one sentence.
    """
    asked = env.get("KVTOP_COLOR", "").strip().lower()
    if asked not in ("", "auto"):
        return parse_depth(asked)
    term = env.get("TERM", "").lower()
    if env.get("NO_COLOR") or not isatty or term in _WITHOUT_COLOUR or term.startswith(("vt1", "vt2", "vt52")):
        return ColourDepth.NONE
    if env.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return ColourDepth.TRUECOLOR
    if "256" in term or any(name in term for name in _WITH_256):
        return ColourDepth.INDEXED
    return ColourDepth.ANSI16


def parse_depth(text: str) -> ColourDepth:
    """The depth a user named.

    Raises:
        ValueError: No depth has that name; the message is one sentence.
    """
    if text in _ALIASES:
        return _ALIASES[text]
    try:
        return ColourDepth(text)
    except ValueError:
        shown = text if len(text) <= 20 and text.isprintable() else "what is given"
        raise ValueError(f"KVTOP_COLOR must be auto, truecolor, 256, 16 or none, not {shown}.") from None
