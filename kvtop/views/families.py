"""Families of requests: those whose block tables begin with the same block, so that all of them share a prefix.

The root of a request is the first block of its table, in a KV group whose layers see all tokens where there is one; two
blocks with the same hash are the same root. A table that has given its first block up, and a block that no table names,
tell of no root: a hash stands for a whole chain, but nobody can read from it where that begins. Those are unknown.
"""

from collections import Counter

import numpy as np
import numpy.typing as npt

from kvtop.protocol import Geometry
from kvtop.state import EngineState, RequestRow

LETTERS = 26
UNTOLD = 255
"""Code of requests whose root is unknown."""

_DENSE = 1 << 22
"""Largest span of request numbers that is looked up by index."""

_Codes = npt.NDArray[np.uint8]


class Families:
    """What was last read by `read`.

    Attributes:
        members: Requests of each family, by its root block.
    """

    def __init__(self) -> None:
        self.members: Counter[int] = Counter()
        self._code: dict[int, int] = {}
        self._by_hash: dict[str, int] = {}
        self._first = 0
        self._table: _Codes = np.empty(0, dtype=np.uint8)

    def read(self, state: EngineState) -> bool:
        """Takes over all block tables; whether any request is of another family now."""
        roots: dict[int, int] = {}
        by_hash: dict[str, int] = {}
        for num, row in (state.requests or {}).items():
            if row.table and (root := _root(state, row, by_hash)) is not None:
                roots[num] = root
        self.members, self._by_hash = Counter(roots.values()), by_hash
        code = {num: _code(root, self.members[root]) for num, root in roots.items()}
        if code == self._code:
            return False
        self._code = code
        self._tabulate()
        return True

    def codes(self, state: EngineState, owners: npt.NDArray[np.int32]) -> _Codes:
        """0…25: the letter of a family of one; 26…51: of several requests; `UNTOLD`. ``owners``: nums of requests, any shape.

        Requests that came since `read` are looked up.
        """
        found = self._look_up(owners)
        if owners.size <= LETTERS * LETTERS and (found == UNTOLD).any():
            new = [num for num in set(owners[found == UNTOLD].tolist()) if num not in self._code]
            added = [self._add(state, num) for num in new]
            if any(added):
                self._tabulate()
                found = self._look_up(owners)
        return found

    def root(self, state: EngineState, num: int) -> int | None:
        """The root block of a request; None where it is unknown."""
        row = state.request(num)
        return None if row is None else _root(state, row, self._by_hash)

    def _add(self, state: EngineState, num: int) -> bool:
        root = self.root(state, num) if num >= 0 else None
        if root is None:
            return False
        self.members[root] += 1
        self._code[num] = _code(root, self.members[root])
        return True

    def _tabulate(self) -> None:
        nums = np.array(list(self._code), dtype=np.int64)
        codes = np.array(list(self._code.values()), dtype=np.uint8)
        self._first = int(nums.min()) if len(nums) else 0
        span = int(nums.max()) - self._first + 1 if len(nums) else 0
        if span <= _DENSE:
            # One more at either end: what lies beyond is unknown.
            self._table = np.full(span + 2, UNTOLD, dtype=np.uint8)
            self._table[nums - self._first + 1] = codes
        else:
            self._table = np.empty(0, dtype=np.uint8)

    def _look_up(self, owners: npt.NDArray[np.int32]) -> _Codes:
        if len(self._table):
            found: _Codes = self._table[np.clip(owners.astype(np.int64) - self._first + 1, 0, len(self._table) - 1)]
            return found
        nums, places = np.unique(owners, return_inverse=True)
        codes = np.array([self._code.get(num, UNTOLD) for num in nums.tolist()], dtype=np.uint8)
        return codes[places].reshape(owners.shape)


def _code(root: int, members: int) -> int:
    return root % LETTERS + (LETTERS if members > 1 else 0)


def _root(state: EngineState, row: RequestRow, by_hash: dict[str, int]) -> int | None:
    geometry = state.hello.geometry if state.hello else Geometry()
    place = next((g for g, group in enumerate(geometry.groups) if group.window is None), 0)
    block = row.table[place] if place < len(row.table) else -1
    blocks = state.blocks
    if block < 0 or blocks is None or block >= blocks.total:
        return None
    hashed = blocks.hash_of(block)
    return block if hashed is None else by_hash.setdefault(hashed, block)
