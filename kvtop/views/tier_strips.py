"""Below the map of one tier a strip of each lower one, over its blocks, and what is being copied between them."""

from collections import Counter

import numpy as np

from kvtop.state import Changes, EngineState
from kvtop.views.block_map import BlockMap
from kvtop.views.block_states import STATES, role_of, state_of
from kvtop.views.cells import owner_role
from kvtop.views.fit import Form, Part, Span, fit, part
from kvtop.views.format import called, count
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, RowBuilder, clean

NAMED = 3
"""Requests named of those whose blocks are being copied."""

_NAME, _LEAST = 8, 12
_SHOWN = (*(state.name for state in sorted((s for s in STATES if s.below), key=lambda s: -s.bar)), "free")


class TierStrips:
    """A row of cells for each lower tier, kept up to date as the map is, and a row about copies."""

    def __init__(self, state: EngineState, glyphs: Glyphs = UNICODE) -> None:
        self.state = state
        self.glyphs = glyphs
        self._strips: list[BlockMap] = []
        self._width = 0

    @staticmethod
    def height(state: EngineState) -> int:
        """Rows there are; 0 where there is no lower tier, or its blocks are not exposed."""
        spans = state.tier_spans()
        blocks = state.blocks
        lower = [span for _, span in spans[1:] if blocks is not None and span.stop <= blocks.total]
        return len(lower) + 1 if lower else 0

    def update(self, state: EngineState, changes: Changes, width: int, now: float) -> None:
        """Takes over what changed; ``width``: of the rows."""
        self.state = state
        number, strip = max(0, self.height(state) - 1), max(1, (width - _NAME) // 2)
        if len(self._strips) != number or strip != self._width or (number and self._strips[0].state is not state):
            self._strips, self._width = [], strip
            for tier in range(1, number + 1):
                shown = BlockMap(state, self.glyphs)
                shown.tier = tier
                shown.layout(len(shown.shown), strip, 1)
                self._strips.append(shown)
            changes = Changes(full=True)
        for shown in self._strips:
            shown.update(changes, now)

    def rows(self, width: int) -> list[Row]:
        """All of them; none where there are none."""
        if not self._strips:
            return []
        rows = []
        for shown in self._strips:
            builder = RowBuilder().add(clean(shown.tier_name or "", _NAME - 1), Role.STRONG).to(_NAME)
            strip = shown.row(0)
            used = min(len(strip.text), -(-shown.total // shown.per_cell))
            counts = shown.counts()
            tail = fit([_number(name, counts.get(name, 0), self.glyphs) for name in _SHOWN], width - _NAME - used - 2,
                       separator="  ")  # fmt: skip
            row = builder.row(_NAME)
            text = row.text + strip.text[:used] + "  " + tail.text
            roles = row.roles + strip.roles[:used] + bytes((Role.TEXT,)) * 2 + tail.roles
            rows.append(Row(text, roles))
        return [*self.glyphs.rows(rows), *self.glyphs.rows([fit(self._in_flight(), width)])]

    def _in_flight(self) -> list[Part]:
        """Blocks being copied now. Of the device's, a block table names those that content comes into; the others are on
        their way out, or come ahead of need, which nothing tells apart. A lower tier tells for whom alone."""
        state, blocks = self.state, self.state.blocks
        names = state.state_names()
        if blocks is None or "transfer" not in names:
            return [part(9, "in flight: not told", role=Role.DIM)]
        code = names.index("transfer")
        parts = [part(99, (("⇄", role_of("transfer")), (" in flight", Role.DIM)))]
        for place, (tier, span) in enumerate(state.tier_spans()):
            moving = np.flatnonzero(blocks.state[span.start : span.stop] == code) + span.start
            if not len(moving):
                continue
            if place:
                parts.append(self._of("in", tier, moving, "held for"))
                continue
            coming = blocks.refs[moving] > 0
            if coming.any():
                parts.append(self._of("into", tier, moving[coming], "for"))
            if not coming.all():
                out = count(int((~coming).sum()))
                name = clean(tier, 12)
                parts.append(part(60, f"{out} out of {name}, or into it ahead of need", f"{out} of {name}"))
        return parts if len(parts) > 1 else [*parts, part(50, "none", role=Role.DIM)]

    def _of(self, where: str, tier: str, moving: "np.ndarray[tuple[int], np.dtype[np.int64]]", why: str) -> Part:
        """``6 into device for S-0243 4, S-0244 2``."""
        assert self.state.blocks is not None
        owners = Counter(int(num) for num in self.state.blocks.owner[moving].tolist() if num >= 0)
        rows = [(row, n) for num, n in owners.most_common() if (row := self.state.request(num)) is not None]
        short = f"{count(len(moving))} {where} {clean(tier, 12)}"
        forms: list[Form | str] = []
        for named in range(min(len(rows), NAMED), 0, -1):
            spans: list[Span] = [(f"{short} {why} ", Role.TEXT)]
            for number, (row, blocks) in enumerate(rows[:named]):
                spans += [(", " if number else "", Role.DIM), (called(row.name, 16), owner_role(row.num))]
                spans.append((f" {count(blocks)}", Role.TEXT))
            spans += [(f" and {count(len(rows) - named)} more", Role.DIM)] if named < len(rows) else []
            forms.append(spans)
        return part(70, *forms, short)


def _number(name: str, number: int, glyphs: Glyphs) -> Part:
    """How many blocks of a state; those of which there are none go first where there is no room."""
    glyph, word = (glyphs.state(name), role_of(name)), {"reserved": "held"}.get(name) or state_of(name).name
    long = (glyph, (f" {word} ", Role.DIM), (count(number), Role.TEXT))
    short = (glyph, (f" {count(number)}", Role.TEXT))
    return part(20, long, short) if number else part(5, long, short, "")
