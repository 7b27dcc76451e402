"""What the glyphs of the block map mean, in the mode it is in."""

from kvtop.views.block_map import BlockMap
from kvtop.views.block_states import STATES, role_of
from kvtop.views.cells import AGE_STEPS, SHARE_STEPS, owner_role
from kvtop.views.fit import Part, Span, fit, part
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import HEAT_STEPS, Role, Row, clean


def legend_rows(blockmap: BlockMap, width: int, glyphs: Glyphs = UNICODE) -> list[Row]:
    """One row: glyphs with their meaning, and how many blocks a cell stands for."""
    if not blockmap.total:
        return glyphs.rows([fit([], width)])
    mode = blockmap.mode
    if mode == "state":
        parts = _states(blockmap, glyphs)
    elif mode == "owner":
        parts = [_owners(), _of_state("cached", glyphs, 4), _of_state("free", glyphs, 4)]
    elif mode == "recency":
        parts = [_recency(glyphs)]
    else:
        parts = [_sharing(), _of_state("cached", glyphs, 4), _of_state("free", glyphs, 4)]
    scale = part(9, blockmap.scale, f"{blockmap.per_cell}/cell" if blockmap.per_cell > 1 else "", "", role=Role.DIM)
    return glyphs.rows([fit(parts, width, scale, separator="  ")])


def _of_state(name: str, glyphs: Glyphs, weight: int) -> Part:
    glyph = (glyphs.state(name), role_of(name))
    name = clean(name, 24)
    return part(weight, (glyph, (f" {name}", Role.DIM)), (glyph, (f" {name[:4]}", Role.DIM)), "")


def _states(blockmap: BlockMap, glyphs: Glyphs) -> list[Part]:
    counts = blockmap.counts()
    # No block table reaches into lower tiers: what is used there is told only while there is some.
    always = [s.name for s in STATES if s.usual and not (blockmap.first and s.counts_as == "used")]
    rare = [name for name in counts if name not in always and counts[name]]
    return [_of_state(name, glyphs, weight) for weight, name in zip(range(20, 0, -1), [*always, *rare], strict=False)]


def _owners() -> Part:
    letters: tuple[Span, ...] = tuple((letter, owner_role(place)) for place, letter in enumerate("abc"))
    return part(
        8,
        (*letters, ("… owner, ", Role.DIM), ("ABC", Role.STRONG), ("… its shared blocks", Role.DIM)),
        (*letters, ("… owner, ", Role.DIM), ("ABC", Role.STRONG), ("… shared", Role.DIM)),
        (*letters, ("… owner", Role.DIM)),
    )


def _recency(glyphs: Glyphs) -> Part:
    ramp: tuple[Span, ...] = tuple((glyphs.heat[step], Role.HEAT0 + step) for step in range(HEAT_STEPS))
    oldest, newest = f"{AGE_STEPS[0]:g}s", f"{AGE_STEPS[-1]:g}s"
    return part(
        8,
        (("touched over ", Role.DIM), (f"{oldest} ago ", Role.DIM), *ramp, (f" under {newest}", Role.DIM)),
        ((f">{oldest} ", Role.DIM), *ramp, (f" <{newest}", Role.DIM)),
        ramp,
    )


def _sharing() -> Part:
    digits = [*[str(refs) for refs in range(1, 10)], "+"]
    steps = [Role.SHARE0 + sum(refs >= edge for edge in SHARE_STEPS) for refs in range(1, 11)]
    ramp: tuple[Span, ...] = tuple(zip(digits, steps, strict=True))
    return part(8, (("references ", Role.DIM), *ramp), ramp)
