"""What the user has chosen, as the screen takes it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kvtop.commands.service_level import level_of
from kvtop.commands.tty import current_folder
from kvtop.settings.resolve import Chosen
from kvtop.term.charset import first_environment, speaks_utf8
from kvtop.term.depth import ColourDepth
from kvtop.term.environment import prepare_environment
from kvtop.term.theme import THEMES

if TYPE_CHECKING:
    from kvtop.app.preferences import Preferences


def preferences(chosen: Chosen) -> "Preferences":
    """Raises `UserError` (exit code 2) for keys of actions, columns and service levels that cannot be. Imports the screen."""
    prepare_environment()  # before Textual reads it
    from kvtop.app.keymap import KeymapError, keymap
    from kvtop.app.preferences import Preferences
    from kvtop.commands.alarms import alarm_settings

    settings = chosen.settings
    try:
        keys = keymap(settings.keys)
    except KeymapError as error:
        raise chosen.wrong_key(error.action, error.what) from None
    return Preferences(
        ascii_only=not speaks_utf8(first_environment()) if settings.ascii is None else settings.ascii,
        depth=None if settings.colors == "auto" else ColourDepth(settings.colors),
        theme=THEMES[settings.theme],
        mouse=settings.mouse,
        snapshot_folder=_folder(settings.snapshot_folder),
        keymap=keys,
        columns=_columns(chosen),
        alarms=alarm_settings(chosen),
        bell=settings.bell,
        on_alarm=settings.on_alarm,
        level=level_of(chosen),
    )


def _columns(chosen: Chosen) -> tuple[str, ...]:
    """An option and a variable have them in one text, a file may have a list."""
    from kvtop.views.columns import NAMES, choose

    if chosen.settings.columns is None:
        return NAMES
    try:
        return choose([name for text in chosen.settings.columns for name in text.split(",")])
    except ValueError as error:
        raise chosen.wrong("columns", str(error)) from None


def _folder(named: str | None) -> Path:
    return current_folder() if named is None else Path(os.path.expanduser(named))
