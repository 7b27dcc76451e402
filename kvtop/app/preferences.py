"""How a user wants the screen to be."""

from dataclasses import dataclass
from pathlib import Path

from kvtop.app.keymap import DEFAULT, Keymap
from kvtop.term.depth import ColourDepth
from kvtop.term.theme import AUTO, Theme
from kvtop.views.columns import NAMES


@dataclass(frozen=True)
class Preferences:
    """``ascii_only``: no characters beyond ASCII; ``depth``: None asks the environment; ``mouse``: whether clicks come
    here; ``snapshot_folder``: None is the current one; ``columns``: of the requests table, in their order."""

    ascii_only: bool = False
    depth: ColourDepth | None = None
    theme: Theme = AUTO
    mouse: bool = True
    snapshot_folder: Path | None = None
    keymap: Keymap = DEFAULT
    columns: tuple[str, ...] = NAMES
