"""Which requests changed since when: what lets an order of ten thousand be put right instead of made anew."""

from collections import OrderedDict

KEPT = 4096
"""Changed requests remembered at least, however few there are."""


class Journal:
    """Names each request once, under the version of its latest change. What fell out of it is told by `since`."""

    def __init__(self) -> None:
        self._latest: OrderedDict[int, int] = OrderedDict()
        self._floor = 0

    def note(self, num: int, version: int, kept: int) -> None:
        """Request ``num`` changed with ``version``, the highest so far. The latest ``kept`` (or `KEPT`) are remembered."""
        self._latest[num] = version
        self._latest.move_to_end(num)
        while len(self._latest) > max(kept, KEPT):
            self._floor = self._latest.popitem(last=False)[1]

    def since(self, version: int) -> list[int] | None:
        """Requests that changed after ``version``; None where that is no longer known."""
        if version < self._floor:
            return None
        found = []
        for num, changed in reversed(self._latest.items()):
            if changed <= version:
                break
            found.append(num)
        return found
