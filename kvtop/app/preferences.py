"""How a user wants the screen to be."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kvtop.alarms import Settings
from kvtop.app.keymap import DEFAULT, Keymap
from kvtop.term.depth import ColourDepth
from kvtop.term.theme import AUTO, Theme
from kvtop.views.columns import NAMES


@dataclass(frozen=True)
class Preferences:
    """``ascii_only``: no characters beyond ASCII; ``depth``: None asks the environment; ``mouse``: whether clicks come
    here; ``snapshot_folder``: None is the current one; ``columns``: of the requests table, in their order; ``alarms``: their
    thresholds; ``bell``: rings when a critical one begins; ``on_alarm``: what is run then (`kvtop.app.alerts.Alerts`);
    ``level``: seconds by name that goodput is counted against."""

    ascii_only: bool = False
    depth: ColourDepth | None = None
    theme: Theme = AUTO
    mouse: bool = True
    snapshot_folder: Path | None = None
    keymap: Keymap = DEFAULT
    columns: tuple[str, ...] = NAMES
    alarms: Settings = field(default_factory=Settings)
    bell: bool = False
    on_alarm: str | None = None
    level: Mapping[str, float] = field(default_factory=dict)
