"""How a block becomes a cell code in each mode of the map, and a code a glyph and a role.

Codes are bytes. In modes that *vote* (state, owner, tier, group, prefix) a cell of several blocks shows the code with the
most weight: each block counts once, those in rare and telling states (shared, copying, in transfer, pinned, reserved)
several times, so that they are not drowned by free neighbours; of equals the higher code wins. In modes that take the
*maximum* (recency, sharing) it shows its newest, or its most referenced block; fill is the *mean* of the blocks that are
not free.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtop.state import BlockArrays
from kvtop.views.block_states import ALL, UNKNOWN_ROLE, code_of, state_of
from kvtop.views.families import LETTERS, UNTOLD
from kvtop.views.glyphs import Glyphs
from kvtop.views.rows import HEAT_STEPS, OWNERS, Role

MODES = ("state", "owner", "recency", "sharing", "fill", "tier", "group", "prefix")
VOTING = frozenset({"state", "owner", "tier", "group", "prefix"})

Codes = npt.NDArray[np.uint8]
Index = npt.NDArray[np.int64] | slice

AGE_STEPS = (60.0, 30.0, 10.0, 5.0, 2.0, 1.0, 0.5)
"""Seconds: a block untouched for longer than the first is in step 0, for less than the last in step 7."""

SHARE_STEPS = (2, 3, 4, 5, 6, 8, 16)
"""References from which the next step of the sharing colours begins."""

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_LETTERS = LETTERS
FIRST = 16
"""Codes below this are states of blocks (but in the recency mode), those from here on are the mode's own:
of owners and families 26 of one and 26 of several, of tiers 26 with content and 26 free, of groups 52, of references 10."""
LAST = FIRST + 2 * _LETTERS
_HEAT = 1  # codes 1…8; 0 is unknown
MOST_REFS = 10
FILL_STEPS = 8
"""Of a fill: 0 is nothing, 8 is all; those between are sevenths."""
_FREE = code_of("free")

CODES = 256
VOTES = 72
"""Codes of voting modes are below this."""

BLANK = VOTES - 1
"""Code of a cell without a block."""


class Look(NamedTuple):
    """Glyphs and roles by code (256 each), and the weights of codes where they vote."""

    glyphs: str
    roles: bytes
    weights: npt.NDArray[np.int64]


def state_codes(names: Sequence[str]) -> Codes:
    """An engine's state code -> place in `kvtop.views.block_states.ALL`."""
    table = np.full(CODES, len(ALL) - 1, dtype=np.uint8)
    for code, name in enumerate(names[:CODES]):
        table[code] = code_of(name)
    return table


def look(mode: str, glyphs: Glyphs, tiers: Sequence[str] = ()) -> Look:
    """How the codes of ``mode`` are drawn; ``tiers``: their names."""
    shapes = [" "] * CODES
    roles = [int(Role.TEXT)] * CODES
    weights = np.zeros(CODES, dtype=np.int64)
    for place, state in enumerate(ALL):
        shapes[place], roles[place], weights[place] = glyphs.state(state.name), Role.STATE0 + place, state.weight
    if mode in ("owner", "prefix"):
        for letter in range(_LETTERS):
            for several in (0, 1):
                code = FIRST + letter + several * _LETTERS
                shapes[code] = _ALPHABET[letter].upper() if several else _ALPHABET[letter]
                roles[code] = owner_role(letter)
                weights[code] = state_of("shared").weight if several and mode == "owner" else 1
    elif mode == "tier":
        for tier in range(_LETTERS):
            name = tiers[tier] if tier < len(tiers) else ""
            for free in (0, 1):
                code = FIRST + tier + free * _LETTERS
                shapes[code] = glyphs.state("free") if free else tier_letter(name, tier, tiers)
                roles[code], weights[code] = owner_role(tier), 1
    elif mode == "group":
        for group in range(LAST - FIRST):
            shapes[FIRST + group] = group_glyph(group)
            roles[FIRST + group], weights[FIRST + group] = owner_role(group), 1
    elif mode == "fill":
        for step in range(FILL_STEPS + 1):
            shapes[FIRST + step], roles[FIRST + step] = glyphs.fill[step], fill_role(step)
    elif mode == "recency":
        shapes[0], roles[0] = glyphs.unknown, UNKNOWN_ROLE
        for step in range(HEAT_STEPS):
            shapes[_HEAT + step], roles[_HEAT + step] = glyphs.heat[step], Role.HEAT0 + step
    elif mode == "sharing":
        for refs in range(1, MOST_REFS + 1):
            shapes[FIRST + refs - 1] = str(refs) if refs < MOST_REFS else "+"
            roles[FIRST + refs - 1] = Role.SHARE0 + int(np.searchsorted(SHARE_STEPS, refs, side="right"))
    return Look("".join(shapes), bytes(roles), weights)


def owner_letter(num: int) -> str:
    """The letter that stands for a request on the map in owner mode."""
    return _ALPHABET[num % _LETTERS]


def owner_role(num: int) -> int:
    """The role (colour) of a request on the map in owner mode and wherever it is named."""
    return Role.OWNER0 + num % _LETTERS % OWNERS


def tier_letter(name: str, place: int, tiers: Sequence[str]) -> str:
    """A capital of the tier's name that no tier before it has; its number where there is none."""
    taken: list[str] = []
    for number, other in enumerate([*tiers[:place], name]):
        free = [c for c in other.upper() if c.isascii() and c.isalpha() and c not in taken]
        taken.append(free[0] if free else str(number % 10))
    return taken[-1]


def group_glyph(group: int) -> str:
    """The digit or letter of a KV group."""
    return ("0123456789" + _ALPHABET + _ALPHABET.upper())[min(group, LAST - FIRST - 1)]


def fill_role(step: int) -> int:
    """The role of a step of fill."""
    return Role.SHARE0 + max(0, step - 1)


def fill_steps(fill: npt.NDArray[np.int32], size: int) -> Codes:
    """0 where nothing is written of ``size`` tokens, 8 where all are, else 1…7."""
    partly = np.minimum(1 + np.minimum(fill, size).astype(np.int64) * 7 // max(1, size), 7)
    return np.where(fill <= 0, 0, np.where(fill >= size, FILL_STEPS, partly)).astype(np.uint8)


def block_codes(
    mode: str,
    blocks: BlockArrays,
    index: Index,
    states: Codes,
    mono_now: float | None,
    *,
    size: int | None = None,
    family: Callable[[npt.NDArray[np.int32]], Codes] | None = None,
) -> Codes:
    """Codes of the blocks at ``index``, in its shape. ``states`` as from `state_codes`; ``size``: tokens of a block;
    ``family``: owners to codes of `kvtop.views.families`."""
    if mode == "recency":
        return _heat(blocks.touched[index], mono_now)
    codes: Codes = states[blocks.state[index]]
    if mode == "state":
        return codes
    if mode == "fill":
        told = FIRST + fill_steps(blocks.fill[index], size) if size else np.uint8(len(ALL) - 1)
        return np.where(codes == _FREE, codes, told).astype(np.uint8)
    if mode == "tier":
        tiers = FIRST + np.minimum(blocks.tier[index], _LETTERS - 1)
        return (tiers + np.where(codes == _FREE, _LETTERS, 0)).astype(np.uint8)
    if mode == "group":
        groups = FIRST + np.minimum(blocks.group[index], LAST - FIRST - 1)
        return np.where(codes == _FREE, codes, groups).astype(np.uint8)
    refs = blocks.refs[index]
    if mode == "sharing":
        return np.where(refs > 0, np.minimum(refs, MOST_REFS) + (FIRST - 1), codes).astype(np.uint8)
    owner = blocks.owner[index]
    if mode == "prefix":
        letters = np.full(owner.shape, UNTOLD, dtype=np.uint8) if family is None else family(owner)
        known = np.where(letters == UNTOLD, len(ALL) - 1, FIRST + letters.astype(np.int64))
        return np.where(owner >= 0, known, codes).astype(np.uint8)
    leading = FIRST + owner % _LETTERS + np.where(refs > 1, _LETTERS, 0)
    return np.where(owner >= 0, leading, codes).astype(np.uint8)


def _heat(touched: npt.NDArray[np.float64], mono_now: float | None) -> Codes:
    if mono_now is None:
        return np.zeros(touched.shape, dtype=np.uint8)
    # Ascending moments: what was touched after the last of them is newest.
    moments = mono_now - np.array(AGE_STEPS)
    steps = np.searchsorted(moments, touched, side="left") + _HEAT
    return np.where(np.isnan(touched), 0, steps).astype(np.uint8)
