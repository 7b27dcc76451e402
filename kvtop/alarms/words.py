"""Numbers and names within the sentences of alarms."""

from kvtop.state import EngineState

LONGEST_NAME = 41
"""Characters that a sentence gives a name: as many as ids of chat completions have."""


def counted(number: float, word: str) -> str:
    """``1 block``, ``1,234 blocks``."""
    return f"{number:,.0f} {word}{'' if number == 1 else 's'}"


def share(part: float) -> str:
    """``12%``; what is not zero is never shown as ``0%``."""
    return "<1%" if 0 < part < 0.005 else f"{100 * part:.0f}%"


def span(seconds: float) -> str:
    """``4 s``, ``0.4 s``, ``60 s``, ``5 min``."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 2 and not rest:
        return f"{minutes} min"
    return f"{seconds:.0f} s" if seconds >= 9.95 or seconds == int(seconds) else f"{seconds:.1f} s"


def called(name: str) -> str:
    """A name from outside, its middle left out where it is long: names that somebody numbered differ at their end."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME // 3]}…{name[LONGEST_NAME // 3 + 1 - LONGEST_NAME :]}"


def request_name(state: EngineState, num: int | None, id: str | None = None) -> str:
    """Its id by the message, else by the table, else ``#num``."""
    if id:
        return called(id)
    row = None if num is None else state.request(num)
    return called(row.name) if row is not None else "?" if num is None else f"#{num}"
