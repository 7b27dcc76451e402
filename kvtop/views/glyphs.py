"""Glyph sets. States differ by shape, so that colour is never the only signal."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kvtop.views.rows import Row

STATE_ORDER = ("free", "cached", "active", "shared", "copying", "transfer", "pinned", "reserved")


@dataclass(frozen=True)
class Glyphs:
    """``states`` follow `STATE_ORDER`; ``heat`` goes from oldest to newest. ``plain`` replaces what the set
    lacks, and marks it as one for terminals with nothing but ASCII.

    Every glyph is one cell wide. Owners are letters and reference counts digits in every set.
    """

    name: str
    states: str
    unknown: str
    heat: str
    cursor: str
    solid: str = ""
    chosen: str = ""
    plain: dict[int, int] = field(default_factory=dict)

    def state(self, name: str) -> str:
        """The glyph of a state by its name; of one not known here, `unknown`."""
        return self.states[STATE_ORDER.index(name)] if name in STATE_ORDER else self.unknown

    def text(self, text: str) -> str:
        """``text`` in characters this set has; as long as before."""
        return text.translate(self.plain).encode("ascii", "replace").decode() if self.plain else text

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        if not self.plain:
            return list(rows)
        return [Row(self.text(row.text), row.roles) for row in rows]


UNICODE = Glyphs(name="unicode", states="·░█▓»⇄◆◇", unknown="?", heat="▁▂▃▄▅▆▇█", cursor="▸", solid="█", chosen="■")

ASCII = Glyphs(
    name="ascii",
    states=".c#S>%P~",
    unknown="?",
    heat="_.:-=+*@",
    cursor=">",
    plain=str.maketrans("·–—−→…×≥≤▸▲▼░█▓»⇄◆◇─│┌┐└┘●○←↑↓", "|--->~x><>^vc#S>%P~-|++++*o<^v"),
)
