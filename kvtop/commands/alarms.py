"""Thresholds of alarms as the settings have them, and alarms as lines for a person."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvtop.errors import one_line
from kvtop.settings.resolve import Chosen

if TYPE_CHECKING:
    from kvtop.alarms import Settings


def alarm_settings(chosen: Chosen) -> "Settings":
    """The thresholds that were asked for. Raises `UserError` (exit code 2) for names that there are not, with those there are."""
    from kvtop.alarms import Settings

    values: dict[str, object] = {}
    for word in chosen.settings.alarm or ():
        name, equals, value = word.partition("=")
        if not equals:
            raise chosen.wrong("alarm", f"{one_line(word, 80)!r} is not NAME.THRESHOLD=VALUE, nor NAME=off")
        values[name.strip().replace("-", "_")] = value.strip()
    try:
        return Settings.of(values)
    except ValueError as error:
        raise chosen.wrong("alarm", str(error)) from None


def alarm_lines(alarms: Sequence[dict[str, Any]]) -> list[str]:
    """What fires in a snapshot, a line each: ``alarm: head can never fit: B-0042 needs …``."""
    return [
        one_line(f"alarm: {alarm['title']}: {alarm['evidence']}; try: {alarm['advice']}", 600)
        for alarm in alarms
        if alarm["state"] in ("firing", "ending")
    ]
