"""How bright colours are, and how well one is read on another, after WCAG 2."""

from functools import lru_cache
from typing import Final

SIXTEEN: Final = (
    # As VGA and as xterm mix them; other terminals lie between, mostly.
    (
        *(0x000000, 0xAA0000, 0x00AA00, 0xAA5500, 0x0000AA, 0xAA00AA, 0x00AAAA, 0xAAAAAA),
        *(0x555555, 0xFF5555, 0x55FF55, 0xFFFF55, 0x5555FF, 0xFF55FF, 0x55FFFF, 0xFFFFFF),
    ),
    (
        *(0x000000, 0xCD0000, 0x00CD00, 0xCDCD00, 0x0000EE, 0xCD00CD, 0x00CDCD, 0xE5E5E5),
        *(0x7F7F7F, 0xFF0000, 0x00FF00, 0xFFFF00, 0x5C5CFF, 0xFF00FF, 0x00FFFF, 0xFFFFFF),
    ),
)
"""The sixteen colours as 24-bit numbers, one set a kind of terminal."""

_CUBE = (0, 95, 135, 175, 215, 255)


def luminance(colour: int) -> float:
    """Relative luminance of a 24-bit sRGB colour, 0 (black) to 1 (white)."""
    return sum(
        weight * _linear((colour >> shift & 0xFF) / 255) for weight, shift in ((0.2126, 16), (0.7152, 8), (0.0722, 0))
    )


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.03928 else ((channel + 0.055) / 1.055) ** 2.4


def contrast(one: int, other: int) -> float:
    """Of two 24-bit colours, 1 (the same) to 21 (black and white)."""
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


def _indexed(number: int) -> int:
    """One of xterm's 240 colours above the sixteen."""
    if number >= 232:
        return (8 + 10 * (number - 232)) * 0x010101
    cube = number - 16
    return _CUBE[cube // 36] << 16 | _CUBE[cube // 6 % 6] << 8 | _CUBE[cube % 6]


def colours_of(params: str) -> tuple[int, ...]:
    """The 24-bit colours that SGR ``params`` of one colour may mean: one where the number says it, else one a set of
    `SIXTEEN`, in their order."""
    if ";" in params:
        return (_indexed(int(params.rpartition(";")[2])),) * len(SIXTEEN)
    code = int(params)
    bright = code >= 90
    return tuple(colours[code % 10 + 8 * bright] for colours in SIXTEEN)


@lru_cache(maxsize=1024)
def worst_contrast(ink: str, ground: str) -> float:
    """Of two colours as SGR params, on the terminal where they differ least."""
    return min(contrast(one, other) for one, other in zip(colours_of(ink), colours_of(ground), strict=True))
