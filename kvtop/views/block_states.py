"""The states of a block: this one table is all that a new one is entered in.

Maps, bars, legends, the help, glyph sets and palettes take from here what a state means, how it looks at each colour
depth, and what it counts as. An engine's hello names its own states (`kvtop.protocol.BLOCK_STATES` is ours); one that is
not in the table is shown under the name the engine gives it, and looks and counts as `unknown` does.
"""

from dataclasses import dataclass
from typing import Literal

from kvtop.views.rows import Role

Sum = Literal["used", "held", "cached", "free", "promised"]
"""What blocks of a state count as. *used*: block tables name them, which is what engines call used. *held*: nobody else can
have them now either, though it is no table that keeps them. *cached*: valid content, but to be had.
*promised*: not yet taken; an engine counts them among its free and cached ones, and as a state of its own in a lower
tier only."""


@dataclass(frozen=True, slots=True)
class BlockState:
    """One state.

    Attributes:
        name: What engines call it on the wire, and the screen everywhere.
        meaning: For the help.
        glyph: One cell; every state has another shape, so that colour is never the only signal.
        ascii: The same for terminals with nothing but ASCII.
        colour: Of 256, on dark paper.
        colour_light: The same on light paper.
        basic: SGR parameters where there are sixteen, on dark paper.
        basic_light: The same on light paper.
        attrs: SGR parameters where there are none.
        counts_as: See `Sum`.
        bar: Place in a bar, from the left; what is to be had stands last.
        priority: How long its number stays where room is short; 20 is what is used in all.
        weight: Votes of one block in a map cell of several: what is rare and telling must not be drowned.
        usual: Always in the map's legend; the others while there are any.
        short: Name where room is small; empty: the name.
        below: Meaning in lower tiers, for their legend; empty: none worth a place there.
    """

    name: str
    meaning: str
    glyph: str
    ascii: str
    colour: int
    colour_light: int
    basic: str
    basic_light: str
    attrs: tuple[str, ...]
    counts_as: Sum
    bar: int
    priority: int = 11
    weight: int = 1
    usual: bool = False
    short: str = ""
    below: str = ""


STATES: tuple[BlockState, ...] = (
    BlockState(
        name="free",
        meaning="no owner, no content",
        glyph="·",
        ascii=".",
        colour=245,
        colour_light=242,
        basic="37",
        basic_light="30",
        attrs=(),
        counts_as="free",
        bar=99,
        priority=16,
        usual=True,
    ),
    BlockState(
        name="cached",
        meaning="no owner, content still valid: a prefix may hit it, a need may evict it",
        glyph="░",
        ascii="c",
        colour=68,
        colour_light=61,
        basic="36",
        basic_light="94",
        attrs=(),
        counts_as="cached",
        bar=98,
        priority=14,
        usual=True,
        below="cached",
    ),
    BlockState(
        name="active",
        meaning="in exactly one block table",
        glyph="█",
        ascii="#",
        colour=71,
        colour_light=22,
        basic="32",
        basic_light="34",
        attrs=(),
        counts_as="used",
        bar=1,
        usual=True,
    ),
    BlockState(
        name="shared",
        meaning="in more than one block table",
        glyph="▓",
        ascii="S",
        colour=176,
        colour_light=127,
        basic="95",
        basic_light="35",
        attrs=("1",),
        counts_as="used",
        bar=2,
        priority=12,
        weight=3,
        usual=True,
    ),
    BlockState(
        name="copying",
        meaning="being copied within its tier",
        glyph="»",
        ascii=">",
        colour=214,
        colour_light=94,
        basic="97",
        basic_light="3;31",
        attrs=("1",),
        counts_as="held",
        bar=4,
        weight=8,
        short="copy",
    ),
    BlockState(
        name="transfer",
        meaning="being copied to or from another tier: not readable yet, or not free yet",
        glyph="⇄",
        ascii="%",
        colour=39,
        colour_light=25,
        basic="96",
        basic_light="3;34",
        attrs=("1",),
        counts_as="held",
        bar=5,
        weight=8,
        short="xfer",
        below="being copied",
    ),
    BlockState(
        name="pinned",
        meaning="kept by command: may not be evicted",
        glyph="◆",
        ascii="P",
        colour=203,
        colour_light=160,
        basic="91",
        basic_light="31",
        attrs=("4",),
        counts_as="held",
        bar=3,
        weight=3,
    ),
    BlockState(
        name="reserved",
        meaning="promised to a request, not yet taken; in lower tiers: held for a swapped request",
        glyph="◇",
        ascii="~",
        colour=143,
        colour_light=58,
        basic="93",
        basic_light="3;35",
        attrs=(),
        counts_as="promised",
        bar=6,
        priority=15,
        weight=3,
        short="resv",
        below="held for a swapped request",
    ),
)
"""In the order of the help; of two that weigh the same in a map cell, the later one shows."""

UNKNOWN = BlockState(
    name="unknown",
    meaning="a state this version does not know: shown by its own name, not counted as used",
    glyph="?",
    ascii="?",
    colour=246,
    colour_light=242,
    basic="37",
    basic_light="30",
    attrs=(),
    counts_as="held",
    bar=6,
)

ALL: tuple[BlockState, ...] = (*STATES, UNKNOWN)
"""The table and what stands for every other state. An index into it is the code of a map cell, and with `Role.STATE0` a
role."""

_CODES = {state.name: code for code, state in enumerate(STATES)}


def code_of(name: str) -> int:
    """Index into `ALL` of a state by its name."""
    return _CODES.get(name, len(STATES))


def state_of(name: str) -> BlockState:
    """The entry of a state by its name; `UNKNOWN` for one not known here."""
    return ALL[code_of(name)]


def role_of(name: str) -> int:
    """The role in which a state is drawn, and whatever else means the same."""
    return Role.STATE0 + code_of(name)


UNKNOWN_ROLE = role_of(UNKNOWN.name)


def used(counts: dict[str, int]) -> int:
    """Of blocks counted by state, how many are used."""
    return _counted(counts, "used")


def taken(counts: dict[str, int]) -> int:
    """Of blocks counted by state, how many nobody else can have now."""
    return _counted(counts, "used") + _counted(counts, "held")


def _counted(counts: dict[str, int], kind: Sum) -> int:
    return sum(number for name, number in counts.items() if state_of(name).counts_as == kind)


def in_bar(names: "list[str] | dict[str, int]") -> list[str]:
    """``names`` of states in the order of a bar, from the left; unknown ones in their own order."""
    return sorted(names, key=lambda name: state_of(name).bar)
