"""The choice of columns without its terminal: which of them are shown, in which order."""

from collections.abc import Iterable

from kvtop.views.columns import ALWAYS, COLUMNS, NAMES
from kvtop.views.numbers import HEADER, REQUESTS


class ColumnsForm:
    """``names``: all columns in the order of the list, the ``chosen`` ones first; ``shown``: which of them are."""

    def __init__(self, chosen: Iterable[str]) -> None:
        self.names: list[str] = []
        self.shown: set[str] = set()
        self.note = ""
        self._begin(tuple(chosen))

    def _begin(self, chosen: tuple[str, ...]) -> None:
        self.names = [*chosen, *(name for name in NAMES if name not in chosen)]
        self.shown = set(chosen)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The columns that are shown, in their order."""
        return tuple(name for name in self.names if name in self.shown)

    def toggle(self, name: str) -> None:
        """Shows the column or leaves it out, but for the id, which says whose a row is."""
        self.note = ""
        if name == ALWAYS:
            self.note = f"the {ALWAYS} is always shown: it says whose a row is"
        else:
            self.shown ^= {name}

    def move(self, name: str, by: int) -> None:
        """So many places towards the end of the list, or its beginning."""
        self.note = ""
        place = self.names.index(name)
        to = max(0, min(place + by, len(self.names) - 1))
        self.names.insert(to, self.names.pop(place))

    def reset(self) -> None:
        self.note = "all columns, as at first"
        self._begin(NAMES)


TITLES = {column.name: column.title for column in COLUMNS}


def meaning(name: str) -> str:
    """What that column shows; empty where the names says it."""
    title = TITLES.get(name)
    entries = (*REQUESTS.entries, *HEADER.entries)
    return next((entry.text for entry in entries if title in entry.name.split(", ")), "")
