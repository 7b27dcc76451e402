"""How a block becomes a cell code in each mode of the map, and a code a glyph and a role.

Codes are bytes. In modes that *vote* (state, owner) a cell of several blocks shows the code with the most weight: each
block counts once, those in rare and telling states (shared, copying, in transfer, pinned, reserved) several times, so that
they are not drowned by free neighbours; of equals the higher code wins. In modes that take the *maximum* (recency,
sharing) it shows its newest, or its most referenced block.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtop.state import BlockArrays
from kvtop.views.block_states import ALL, UNKNOWN_ROLE, code_of, state_of
from kvtop.views.glyphs import Glyphs
from kvtop.views.rows import HEAT_STEPS, OWNERS, Role

MODES = ("state", "owner", "recency", "sharing")
VOTING = frozenset({"state", "owner"})

Codes = npt.NDArray[np.uint8]
Index = npt.NDArray[np.int64] | slice

AGE_STEPS = (60.0, 30.0, 10.0, 5.0, 2.0, 1.0, 0.5)
"""Seconds: a block untouched for longer than the first is in step 0, for less than the last in step 7."""

SHARE_STEPS = (2, 3, 4, 5, 6, 8, 16)
"""References from which the next step of the sharing colours begins."""

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_OWNED = 16  # codes 16…41: owned by one; 42…67: shared, led by one
_LETTERS = len(_ALPHABET)
_HEAT = 1  # codes 1…8; 0 is unknown
_SHARE = 16  # codes 16…25: references 1…9 and more

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


def look(mode: str, glyphs: Glyphs) -> Look:
    """How the codes of ``mode`` are drawn."""
    shapes = [" "] * CODES
    roles = [int(Role.TEXT)] * CODES
    weights = np.zeros(CODES, dtype=np.int64)
    for place, state in enumerate(ALL):
        shapes[place], roles[place], weights[place] = glyphs.state(state.name), Role.STATE0 + place, state.weight
    if mode == "owner":
        for letter in range(_LETTERS):
            for shared in (0, 1):
                code = _OWNED + letter + shared * _LETTERS
                shapes[code] = _ALPHABET[letter].upper() if shared else _ALPHABET[letter]
                roles[code] = owner_role(letter)
                weights[code] = state_of("shared").weight if shared else 1
    elif mode == "recency":
        shapes[0], roles[0] = glyphs.unknown, UNKNOWN_ROLE
        for step in range(HEAT_STEPS):
            shapes[_HEAT + step], roles[_HEAT + step] = glyphs.heat[step], Role.HEAT0 + step
    elif mode == "sharing":
        for refs in range(1, 11):
            shapes[_SHARE + refs - 1] = str(refs) if refs < 10 else "+"
            roles[_SHARE + refs - 1] = Role.SHARE0 + int(np.searchsorted(SHARE_STEPS, refs, side="right"))
    return Look("".join(shapes), bytes(roles), weights)


def owner_letter(num: int) -> str:
    """The letter that stands for a request on the map in owner mode."""
    return _ALPHABET[num % _LETTERS]


def owner_role(num: int) -> int:
    """The role (colour) of a request on the map in owner mode and wherever it is named."""
    return Role.OWNER0 + num % _LETTERS % OWNERS


def block_codes(mode: str, blocks: BlockArrays, index: Index, states: Codes, mono_now: float | None) -> Codes:
    """Codes of the blocks at ``index``, in its shape. ``states`` as from `state_codes`."""
    if mode == "recency":
        return _heat(blocks.touched[index], mono_now)
    codes: Codes = states[blocks.state[index]]
    if mode == "state":
        return codes
    refs = blocks.refs[index]
    if mode == "sharing":
        return np.where(refs > 0, np.minimum(refs, 10) + (_SHARE - 1), codes).astype(np.uint8)
    owner = blocks.owner[index]
    letters = _OWNED + owner % _LETTERS + np.where(refs > 1, _LETTERS, 0)
    return np.where(owner >= 0, letters, codes).astype(np.uint8)


def _heat(touched: npt.NDArray[np.float64], mono_now: float | None) -> Codes:
    if mono_now is None:
        return np.zeros(touched.shape, dtype=np.uint8)
    # Ascending moments: what was touched after the last of them is newest.
    moments = mono_now - np.array(AGE_STEPS)
    steps = np.searchsorted(moments, touched, side="left") + _HEAT
    return np.where(np.isnan(touched), 0, steps).astype(np.uint8)
