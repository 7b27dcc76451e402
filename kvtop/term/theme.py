"""The themes: what paper the colours are for, and how far they stand out from it."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kvtop.term.paper import Paper


class Theme(NamedTuple):
    """``paper``: None is the terminal's own, which is asked for it. ``strong``: of high contrast."""

    paper: Paper | None = None
    strong: bool = False


AUTO: Final = Theme()

THEMES: Final[Mapping[str, Theme]] = {
    "auto": AUTO,
    "dark": Theme(Paper.DARK),
    "light": Theme(Paper.LIGHT),
    "high-contrast": Theme(strong=True),
    "high-contrast-dark": Theme(Paper.DARK, strong=True),
    "high-contrast-light": Theme(Paper.LIGHT, strong=True),
}
"""By the values of the setting ``theme``."""
