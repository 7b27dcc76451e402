"""What the glyphs of the block map mean, in the mode it is in, and how many blocks have which."""

from collections.abc import Sequence
from typing import NamedTuple

from kvtop.protocol import Geometry
from kvtop.views.block_map import BlockMap
from kvtop.views.block_states import ALL, STATES, role_of
from kvtop.views.cells import (
    AGE_STEPS,
    FILL_STEPS,
    FIRST,
    LAST,
    MOST_REFS,
    SHARE_STEPS,
    fill_role,
    group_glyph,
    owner_role,
    tier_letter,
)
from kvtop.views.families import LETTERS
from kvtop.views.fit import Span, line
from kvtop.views.format import count
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import HEAT_STEPS, Role, Row, clean

SEPARATOR = "  "


class Entry(NamedTuple):
    """``sample``: glyphs as on the map; what they mean, long and short; ``number``: of blocks."""

    sample: tuple[Span, ...]
    name: str
    short: str
    number: str

    def spans(self, length: int) -> list[Span]:
        """With its name (0), with the short one (1), or with none (2); always with its number."""
        name = (self.name, self.short, "")[length]
        glyph = self.sample[-1][0][-1]
        # A letter or digit with a number right behind it would read as one.
        gap = f" {name} " if name else ": " if glyph.isalnum() else " "
        return [*self.sample, (gap, Role.DIM), (self.number, Role.TEXT)]


def legend_entries(blockmap: BlockMap, glyphs: Glyphs = UNICODE) -> list[Entry]:
    """All of the legend, in its order; empty where there is no block."""
    if not blockmap.total:
        return []
    made = {
        "state": _states,
        "owner": _owners,
        "recency": _recency,
        "sharing": _sharing,
        "fill": _fill,
        "tier": _tiers,
        "group": _groups,
        "prefix": _families,
    }
    return made[blockmap.mode](blockmap, glyphs)


def legend_line(entries: Sequence[Entry], width: int, glyphs: Glyphs = UNICODE) -> Row | None:
    """All of it with names, long or short, in a row of ``width`` cells or less; None where that has no room for it."""
    for length in (0, 1):
        rows = _wrapped(entries, width, length)
        if len(rows) == 1:
            return glyphs.rows([line(rows[0], _width(rows[0]))])[0]
    return None


def legend_rows(entries: Sequence[Entry], width: int, glyphs: Glyphs = UNICODE) -> list[Row]:
    """All of it in as few rows as need be, of ``width`` cells: names are shortened before there are two rows, and left out
    before there are three. A number is never cut."""
    if not entries or width < 1:
        return []
    for rows, length in ((1, 0), (1, 1), (2, 0), (2, 1), (2, 2)):
        wrapped = _wrapped(entries, width, length)
        if len(wrapped) <= rows:
            break
    return glyphs.rows([line(spans, width) for spans in wrapped])


def _wrapped(entries: Sequence[Entry], width: int, length: int) -> list[list[Span]]:
    rows: list[list[Span]] = [[]]
    for entry in entries:
        spans = entry.spans(length)
        if rows[-1] and _width(rows[-1]) + len(SEPARATOR) + _width(spans) > width:
            rows.append([])
        rows[-1] += [(SEPARATOR, Role.TEXT), *spans] if rows[-1] else spans
    return rows


def _width(spans: Sequence[Span]) -> int:
    return sum(len(text) for text, _ in spans)


# -- the modes --------------------------------------------------------------------------------------------------------


def _entry(glyph: str, role: int, name: str, short: str, number: int) -> Entry:
    return Entry(((glyph, role),), name, short, count(number))


def _of_state(name: str, glyphs: Glyphs, number: int) -> Entry:
    short = next((state.short for state in STATES if state.name == name), "") or name[:4]
    name = clean(name, 24)
    return _entry(glyphs.state(name), role_of(name), name, clean(short, 4), number)


def _states(blockmap: BlockMap, glyphs: Glyphs) -> list[Entry]:
    counts = blockmap.counts()
    # No block table reaches into lower tiers: what is used there is told only while there is some.
    always = [s.name for s in STATES if s.usual and not (blockmap.first and s.counts_as == "used")]
    rare = [name for name in counts if name not in always and counts[name]]
    return [_of_state(name, glyphs, counts.get(name, 0)) for name in [*always, *rare]]


def _other_states(blockmap: BlockMap, glyphs: Glyphs, always: tuple[str, ...], **names: str) -> list[Entry]:
    """Of blocks that the mode has no code of its own for; ``names``: what their states mean there."""
    entries = []
    for place, state in enumerate(ALL):
        number = int(blockmap.tally[place])
        if number or state.name in always:
            entry = _of_state(state.name, glyphs, number)
            name = names.get(state.name)
            entries.append(entry._replace(name=name, short=name.split()[-1]) if name else entry)
    return entries


def _letters(blockmap: BlockMap, one: tuple[str, str], several: tuple[str, str]) -> list[Entry]:
    entries = []
    for letters, first, (name, short) in (("abc", FIRST, one), ("ABC", FIRST + LETTERS, several)):
        sample = tuple((letter, owner_role(place)) for place, letter in enumerate(letters))
        number = count(int(blockmap.tally[first : first + LETTERS].sum()))
        entries.append(Entry((*sample, ("…", Role.DIM)), name, short, number))
    return entries


def _owners(blockmap: BlockMap, glyphs: Glyphs) -> list[Entry]:
    own = _letters(blockmap, ("one owner", "own"), ("its shared blocks", "shared"))
    return own + _other_states(blockmap, glyphs, ("cached", "free"))


def _families(blockmap: BlockMap, glyphs: Glyphs) -> list[Entry]:
    members = blockmap.families.members
    several = sum(number > 1 for number in members.values())
    own = _letters(
        blockmap, ("alone with its prefix", "alone"), (f"{count(several)} families that share one", "families")
    )
    return own + _other_states(
        blockmap, glyphs, ("cached", "free"), cached="cached, family unknown", unknown="family unknown"
    )


def _recency(blockmap: BlockMap, glyphs: Glyphs) -> list[Entry]:
    tally = blockmap.tally
    entries = []
    for step in reversed(range(HEAT_STEPS)):
        limit = AGE_STEPS[max(0, step - 1)]
        name = f"over {limit:g}s" if step == 0 else f"under {limit:g}s"
        short = f"{'>' if step == 0 else '<'}{limit:g}s"
        entries.append(_entry(glyphs.heat[step], Role.HEAT0 + step, name, short, int(tally[step + 1])))
    if tally[0]:
        entries.append(_of_state("unknown", glyphs, int(tally[0])))
    return entries


def _sharing(blockmap: BlockMap, glyphs: Glyphs) -> list[Entry]:
    entries = []
    for refs in range(1, MOST_REFS + 1):
        number = int(blockmap.tally[FIRST + refs - 1])
        if number or refs <= 2:
            more, glyph = refs == MOST_REFS, str(refs) if refs < MOST_REFS else "+"
            name = "more references" if more else "reference" if refs == 1 else "references"
            role = Role.SHARE0 + sum(refs >= edge for edge in SHARE_STEPS)
            entries.append(_entry(glyph, role, name, "more" if more else "ref", number))
    return entries + _other_states(blockmap, glyphs, ("cached", "free"))


def _fill(blockmap: BlockMap, glyphs: Glyphs) -> list[Entry]:
    tally = blockmap.tally
    full, part = FIRST + FILL_STEPS, int(tally[FIRST + 1 : FIRST + FILL_STEPS].sum())
    ramp = tuple((glyphs.fill[step], fill_role(step)) for step in range(1, FILL_STEPS))
    return [
        _entry(glyphs.fill[FILL_STEPS], fill_role(FILL_STEPS), "full", "full", int(tally[full])),
        Entry(ramp, "in part", "part", count(part)),
        _entry(glyphs.fill[0], fill_role(0), "nothing written", "none", int(tally[FIRST])),
        *_other_states(blockmap, glyphs, ("free",), unknown="fill unknown"),
    ]


def _tiers(blockmap: BlockMap, glyphs: Glyphs) -> list[Entry]:
    tally = blockmap.tally
    names = [name for name, _ in blockmap.state.tier_spans()] or ["device"]
    entries = []
    for tier, name in enumerate(names[:LETTERS]):
        filled, free = int(tally[FIRST + tier]), int(tally[FIRST + LETTERS + tier])
        word, number = clean(name, 16), f"{count(filled)} of {count(filled + free)}"
        entries.append(Entry(((tier_letter(name, tier, names), owner_role(tier)),), word, word[:4], number))
    free = int(tally[FIRST + LETTERS : LAST].sum())
    return [*entries, _entry(glyphs.state("free"), Role.DIM, "free", "free", free)]


def _groups(blockmap: BlockMap, glyphs: Glyphs) -> list[Entry]:
    state = blockmap.state
    known = (state.hello.geometry if state.hello else Geometry()).groups
    entries = []
    for group in range(LAST - FIRST):
        number = int(blockmap.tally[FIRST + group])
        if not number and group >= max(1, len(known)):
            continue
        if group < len(known):
            window = known[group].window
            name = "sees all tokens" if window is None else f"window of {count(window)} tokens"
            short = "all" if window is None else f"w{count(window)}"
        else:
            name, short = ("the only KV group", "all") if not known and not group else (f"group {group}", f"g{group}")
        entries.append(_entry(group_glyph(group), owner_role(group), name, short, number))
    return entries + _other_states(blockmap, glyphs, ("free",))
