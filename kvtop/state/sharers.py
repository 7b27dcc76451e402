"""Whose block tables name certain blocks: looked for once, then followed from change to change."""

from collections.abc import Collection

from kvtop.state.journal import Journal
from kvtop.state.ranking import Rows
from kvtop.state.request_row import RequestRow


class Sharers:
    """Remembers the blocks it was asked for last, and which requests hold them."""

    def __init__(self) -> None:
        self._wanted: frozenset[int] = frozenset()
        self._held: dict[int, frozenset[int]] = {}
        self._journal: Journal | None = None
        self._seen = 0

    def of(self, blocks: Collection[int], rows: Rows) -> dict[int, list[int]]:
        """Nums of the requests that hold each of ``blocks``, ascending; blocks that nobody holds are left out.

        All tables are read when other blocks are asked for than before, else only those of requests that changed.
        """
        wanted = frozenset(blocks)
        changed = None
        if self._journal is rows.journal and wanted <= self._wanted:
            changed = rows.journal.since(min(self._seen, rows.version))
        if changed is None:
            self._wanted = wanted
            self._held = self._among(rows)
        else:
            for num in changed:
                row = rows.get(num)
                held = frozenset() if row is None else self._of(row)
                if held:
                    self._held[num] = held
                else:
                    self._held.pop(num, None)
        self._journal, self._seen = rows.journal, rows.version
        found: dict[int, list[int]] = {}
        for num in sorted(self._held):
            for block in self._held[num] & wanted:
                found.setdefault(block, []).append(num)
        return found

    def _among(self, rows: Rows) -> dict[int, frozenset[int]]:
        wanted = self._wanted
        if len(wanted) == 1:
            # Looking for one number is three times as fast as looking up all of them; and of many requests most wait and
            # hold nothing, which must not cost a call each.
            (block,) = wanted
            return {num: wanted for num, row in rows.items() if (table := row.table) and block in table}
        return {num: held for num, row in rows.items() if row.table and (held := wanted.intersection(row.table))}

    def _of(self, row: RequestRow) -> frozenset[int]:
        return self._wanted.intersection(row.table)
