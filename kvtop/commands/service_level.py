"""The service level that the user has chosen, as the screen counts against it."""

from kvtop.settings.resolve import Chosen


def level_of(chosen: Chosen) -> dict[str, float]:
    """Seconds by name. Raises `UserError` (exit code 2) for what is none."""
    from kvtop.state.service_level import service_level

    try:
        return service_level(chosen.settings.slo or "")
    except ValueError as error:
        raise chosen.wrong("slo", str(error)) from None
