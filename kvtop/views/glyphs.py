"""Glyph sets. States differ by shape, so that colour is never the only signal."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kvtop.views.block_states import ALL, STATES, UNKNOWN, code_of
from kvtop.views.rows import Row


@dataclass(frozen=True)
class Glyphs:
    """``states`` follow `kvtop.views.block_states.STATES`; ``heat`` goes from oldest to newest, ``ramp`` from nothing to the
    most, ``fill`` from nothing to all in eight steps; ``braille``: whether there are its dots. ``plain`` replaces what the set
    lacks, and marks it as one for terminals with nothing but ASCII.

    Every glyph is one cell wide. Owners are letters and reference counts digits in every set.
    """

    name: str
    states: str
    unknown: str
    heat: str
    cursor: str
    ramp: str = "._-:=+*#@"
    fill: str = "012345678"
    braille: bool = False
    solid: str = ""
    chosen: str = ""
    plain: dict[int, int] = field(default_factory=dict)

    def state(self, name: str) -> str:
        """The glyph of a state by its name; of one not known here, `unknown`."""
        return (self.states + self.unknown)[code_of(name)]

    def text(self, text: str) -> str:
        """``text`` in characters this set has; as long as before."""
        return text.translate(self.plain).encode("ascii", "replace").decode() if self.plain else text

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        if not self.plain:
            return list(rows)
        return [Row(self.text(row.text), row.roles) for row in rows]


UNICODE = Glyphs(
    name="unicode",
    states="".join(state.glyph for state in STATES),
    unknown=UNKNOWN.glyph,
    heat="▁▂▃▄▅▆▇█",
    ramp="_▁▂▃▄▅▆▇█",
    fill="_▁▂▃▄▅▆▇█",
    braille=True,
    cursor="▸",
    solid="█",
    chosen="■",
)

ASCII = Glyphs(
    name="ascii",
    states="".join(state.ascii for state in STATES),
    unknown=UNKNOWN.ascii,
    heat="_.:-=+*@",
    cursor=">",
    # The dot stands between the parts of a line here; it means a free block on the map only.
    plain=str.maketrans(
        "".join(state.glyph for state in ALL) + "·–—−→…×≥≤▸▲▼─│┌┐└┘●○←↑↓↵▁▄",
        "".join(state.ascii for state in ALL) + "|--->~x><>^v-|++++*o<^v/_=",
    ),
)
