"""What the screen should show, what the terminal shows, and the shortest bytes from one to the other."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvtop.term.look_table import BLOCK_LOOK, UNKNOWN, LookTable
from kvtop.term.palette import LOOK_SHIFT
from kvtop.term.sgr import PLAIN, Look, switch
from kvtop.term.strip import BLANK, Cells
from kvtop.views.clusters import CONTINUATION, FIRST_UNSTEADY, OVERFLOW, spell_out

GROUPED_MOST: Final = 2000
"""Above this many runs most of the screen is new: neighbours follow each other, and encoding twice is not worth it."""

CLEARLY_WORTH: Final = 0.1
"""Switches of look that grouping spares, a run, from which on it is the shorter way: one takes some ten bytes, and to move
to a run from another row instead of from its neighbour three or four more.
"""

GAP_MOST: Final = 8
"""Unchanged cells worth looking at for writing them again instead of moving over them."""

_CODE = (1 << LOOK_SHIFT) - 1
_CONTINUATION = ord(CONTINUATION)


class Run(NamedTuple):
    """Neighbouring changed cells of one look; look None is blanks, which go with any look that paints only ink."""

    y: int
    x: int
    look: int | None
    text: str


class CellBuffer:
    """Two screens of cells: ``put`` writes to the wanted one, ``flush`` encodes how it differs from the shown one.

    The shown screen is what the terminal holds if it has drawn all that `flush` returned. Both start unknown; cells
    that nobody has put are left alone.
    """

    def __init__(self, width: int, height: int, table: LookTable) -> None:
        self.width = width
        self.height = height
        self.table = table
        self._wanted = np.full((height, width), UNKNOWN, dtype=np.uint32)
        self._shown = np.full((height, width), UNKNOWN, dtype=np.uint32)
        self._dirty: set[int] = set()

    @property
    def dirty(self) -> bool:
        """Whether rows wait for a `flush`; it may still find that they are as shown."""
        return bool(self._dirty)

    def put(self, y: int, x: int, cells: Cells, end: int | None = None) -> None:
        """Sets the wanted cells of row ``y`` from column ``x``; what lies outside the screen, or from ``end`` on, is cut off.

        Of what is wide and cut in two, the half that is left is a blank.
        """
        if 0 <= y < self.height and 0 <= x < self.width:
            row, end = self._wanted[y], min(x + len(cells), self.width if end is None else end, self.width)
            if x and self._is_second(row[x]):
                row[x - 1] = self._blank_like(row[x - 1])
            if end < self.width and self._is_second(row[end]):
                row[end] = self._blank_like(row[end])
            row[x:end] = cells[: end - x]
            if x + len(cells) > end and self._is_second(cells[end - x]):
                row[end - 1] = self._blank_like(row[end - 1])
            self._dirty.add(y)

    @staticmethod
    def _is_second(cell: np.uint32) -> bool:
        return int(cell) & _CODE == _CONTINUATION

    def _blank_like(self, cell: np.uint32) -> int:
        number = int(cell) >> LOOK_SHIFT
        return BLANK if self.table.looks[number].leaves_blanks_alone else number << LOOK_SHIFT | BLANK

    def distrust(self, y: int | None = None, x: int = 0, width: int | None = None) -> None:
        """Takes what the terminal shows (of the whole screen, or of part of a row) as unknown: it is sent again."""
        if y is None:
            self._shown.fill(UNKNOWN)
            self._dirty.update(range(self.height))
        else:
            self._shown[y, x : None if width is None else x + width] = UNKNOWN
            self._dirty.add(y)

    def forget(self) -> None:
        """Takes the wanted screen as unknown too, for when somebody else has painted."""
        self._wanted.fill(UNKNOWN)
        self._shown.fill(UNKNOWN)
        self._dirty.clear()

    def flush(self) -> str:
        """What to send so that the terminal shows the wanted screen; empty when it does.

        It starts and ends in the plain look and may leave the cursor anywhere.
        """
        # All dirty rows at once: a frame changes a few cells in each of many, and numpy costs most by the call.
        lines = sorted(self._dirty)
        self._dirty.clear()
        blocks: list[str] = []
        wanted, shown, differs = self._compare(lines)
        if differs.any() and int(wanted[differs].max()) >> LOOK_SHIFT >= BLOCK_LOOK:
            for y, line in zip(lines, differs, strict=True):
                blocks.extend(self._blocks(y, self._wanted[y], self._shown[y], np.flatnonzero(line)))
            wanted, shown, differs = self._compare(lines)
        if not differs.any():
            return "".join(blocks)
        unsteady = self._whole(wanted, differs)
        changed = np.flatnonzero(differs)
        self._shown[lines] = np.where(differs, wanted, shown)
        runs = _runs(lines, self.width, changed, wanted.ravel()[changed])
        # By place, by look, or the shorter of both where it cannot be told beforehand which that is. What may have been
        # drawn over is drawn after it.
        worth = _switches_spared(runs) if 4 < len(runs) <= GROUPED_MOST and not unsteady else 0.0
        texts = [self._encode(runs)] if worth < CLEARLY_WORTH else []
        if worth > 0:
            texts.append(self._encode(_by_look(runs, self.table.looks)))
        return "".join(blocks) + spell_out(min(texts, key=_bytes))

    def _compare(self, lines: list[int]) -> tuple[Cells, Cells, npt.NDArray[np.bool_]]:
        """Of these rows what is wanted, what is shown, and where they differ."""
        wanted, shown = self._wanted[lines], self._shown[lines]
        return wanted, shown, (wanted != shown) & (wanted != UNKNOWN)

    @staticmethod
    def _whole(wanted: Cells, differs: npt.NDArray[np.bool_]) -> bool:
        """Adds to the cells that differ what has to be sent with them (see `_with_neighbours`). Whether some is unsteady."""
        seconds = (wanted & _CODE) == _CONTINUATION
        unsteady = False
        for y in np.flatnonzero(seconds.any(axis=1) & differs.any(axis=1)).tolist():
            sent, overdraws = _with_neighbours(
                wanted[y], np.flatnonzero(differs[y]), np.flatnonzero(seconds[y]).tolist()
            )
            unsteady = unsteady or overdraws
            differs[y] = False
            differs[y, sent] = True
        return unsteady

    def _blocks(self, y: int, wanted: Cells, shown: Cells, changed: np.ndarray) -> Iterable[str]:
        """Paints the blocks among the changed cells, and notes what that has put on the terminal's row."""
        cells = np.unique(wanted[changed]).tolist()
        for cell in cells:
            if cell >> LOOK_SHIFT == BLOCK_LOOK:
                x, width, text = self.table.blocks[cell & _CODE]
                shown[x : x + width] = cell
                yield f"\x1b[{y + 1};{x + 1}H{text}"

    def _encode(self, runs: Sequence[Run]) -> str:
        out: list[str] = []
        rows: dict[int, list[int]] = {}
        look, bare = PLAIN, PLAIN.leaves_blanks_alone
        at_y = at_x = -1
        for y, x, number, text in runs:
            if at_y != y or at_x != x:
                step = _move(at_y, at_x, y, x)
                if y == at_y and 0 < x - at_x <= GAP_MOST:
                    row = rows.get(y)
                    if row is None:
                        row = rows[y] = self._wanted[y].tolist()
                    step = self._bridge(row[at_x:x], look, bare, step)
                out.append(step)
            if number is None:
                if not bare:
                    out.append("\x1b[m")
                    look, bare = PLAIN, True
            else:
                new = self.table.looks[number]
                if new is not look and new != look:
                    out.append(switch(look, new))
                    look, bare = new, new.leaves_blanks_alone
            out.append(text)
            at_y, at_x = y, x + len(text)
            if at_x >= self.width:
                # Behind the last column terminals differ in where the cursor is.
                at_y = at_x = -1
        out.append(switch(look, PLAIN))
        return "".join(out)

    def _bridge(self, gap: list[int], look: Look, bare: bool, step: str) -> str:
        """Unchanged cells as text where that is shorter than the cursor movement ``step`` over them. ``bare``: blanks in
        this look are as plain ones."""
        looks = self.table.looks
        for cell in gap:
            number = cell >> LOOK_SHIFT
            if cell == BLANK:
                if not bare:
                    return step
            elif number >= BLOCK_LOOK or (looks[number] is not look and looks[number] != look):
                return step
        text = "".join([chr(cell & _CODE) for cell in gap])
        return text if _bytes(text) <= len(step) else step


def _with_neighbours(wanted: Cells, changed: np.ndarray, second: list[int]) -> tuple[np.ndarray, bool]:
    """Both cells of what is wide where one has changed, and those that an unsteady cluster may be drawn on.

    Args:
        wanted: The row.
        changed: Columns that differ.
        second: Columns of continuations.

    Returns:
        The columns to send, and whether there is an unsteady cluster among them.
    """
    sent = np.zeros(len(wanted), dtype=bool)
    sent[changed] = True
    unsteady = False
    for x in second:
        if x and (sent[x] or sent[x - 1]):
            sent[x - 1 : x + 1] = True
            if int(wanted[x - 1]) & _CODE >= FIRST_UNSTEADY:
                sent[x + 1 : x + 1 + OVERFLOW] = unsteady = True
    # Blocks are painted as they are, and not by cells.
    return np.flatnonzero(sent & (wanted >> LOOK_SHIFT < BLOCK_LOOK)), unsteady


def _runs(lines: Sequence[int], width: int, changed: npt.NDArray[np.int64], cells: Cells) -> list[Run]:
    """The changed ``cells`` as runs. ``changed``: where they are in ``lines``, laid end to end; ``width``: of a line."""
    looks = (cells >> LOOK_SHIFT).astype(np.int64)
    looks[cells == BLANK] = -1
    at_y, at_x = np.divmod(changed, width)
    joined = (changed[1:] - changed[:-1] == 1) & (looks[1:] == looks[:-1]) & (at_y[1:] == at_y[:-1])
    breaks = np.flatnonzero(~joined) + 1
    starts = [0, *breaks.tolist()]
    text = (cells & _CODE).tobytes().decode("utf-32-le")
    return [
        Run(lines[y], x, None if number < 0 else number, text[start:end])
        for y, x, number, start, end in zip(
            at_y[starts].tolist(),
            at_x[starts].tolist(),
            looks[starts].tolist(),
            starts,
            [*starts[1:], len(text)],
            strict=True,
        )
    ]


def _switches_spared(runs: Sequence[Run]) -> float:
    """How many switches of look less it takes to go by look than by place, a run."""
    looks = [run.look for run in runs if run.look is not None]
    switches = 1 + sum(a != b for a, b in pairwise(looks))
    return (switches - len(set(looks))) / len(runs)


def _by_look(runs: Iterable[Run], looks: Sequence[Look]) -> list[Run]:
    """The runs ordered by look, then by place: one switch of look a group, more cursor movements."""
    groups: dict[Look | None, list[Run]] = {}
    for run in runs:
        groups.setdefault(None if run.look is None else looks[run.look], []).append(run)
    blanks = groups.pop(None, [])
    hosts = [key for key in groups if key is not None and key.leaves_blanks_alone]
    if blanks:
        host = max(hosts, key=lambda key: len(groups[key]), default=PLAIN)
        groups[host] = sorted([*groups.get(host, []), *blanks])
    order = sorted((key for key in groups if key is not None), key=lambda key: (key.attrs, key.bg, key.fg))
    return [run for key in order for run in groups[key]]


def _move(at_y: int, at_x: int, y: int, x: int) -> str:
    """The shortest cursor movement from one place (-1 if unknown) to another."""
    if at_y == y:
        return _along(at_x, x)
    if y == 0 and x == 0:
        return "\x1b[H"
    best = f"\x1b[{y + 1}H" if x == 0 else f"\x1b[{y + 1};{x + 1}H"
    if at_y < 0:
        return best
    column = _along(at_x, x)
    down = y - at_y
    row = f"\x1b[{abs(down) if abs(down) > 1 else ''}{'B' if down > 0 else 'A'}"
    return row + column if len(row) + len(column) < len(best) else best


@lru_cache(4096)
def _along(at_x: int, x: int) -> str:
    """Remembered: a frame takes a hundred such steps, and mostly the same ones."""
    distance = x - at_x
    if distance == 0:
        return ""
    if distance > 0:
        forward = f"\x1b[{distance if distance > 1 else ''}C"
        absolute = f"\x1b[{x + 1}G"
        return forward if len(forward) <= len(absolute) else absolute
    if distance >= -3:
        return "\b" * -distance
    back = f"\x1b[{-distance}D"
    absolute = f"\x1b[{x + 1}G" if x else "\r"
    return back if len(back) < len(absolute) else absolute


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
