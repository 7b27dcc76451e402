"""Lines made of parts that give way: each part has shorter forms, and the least important one shrinks first.

So a line fits any width without a number ever being cut in half.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvtop.views.rows import Role, Row, RowBuilder

Span = tuple[str, int]
"""Text and its role."""

Form = Sequence[Span]

_NEXT_STEP = 8
"""What each step a part has already shrunk adds to the cost of its next."""


@dataclass(frozen=True)
class Part:
    """``forms`` from longest to shortest; an empty last form means it may vanish.

    What costs least is done first: ``weight``, twice that to vanish, and more with each step the part has taken, so that
    parts of like weight take turns and all are shortened before any goes.
    """

    weight: int
    forms: tuple[Form, ...]


def part(weight: int, *forms: str | Form, role: int = Role.TEXT) -> Part:
    """A `Part` from plain texts (all of ``role``) or from spans."""
    return Part(weight, tuple(((form, role),) if isinstance(form, str) else form for form in forms))


def _length(form: Form) -> int:
    length = 0
    for text, _ in form:
        length += len(text)
    return length


def cut(row: Row, width: int) -> Row:
    """``row`` in exactly ``width`` cells; ``…`` in the last one where it was longer."""
    if len(row.text) > width:
        return Row(row.text[: width - 1] + "…" if width else "", row.roles[:width])
    return Row(row.text.ljust(width), row.roles.ljust(width, bytes((Role.TEXT,))))


def line(spans: Iterable[Span], width: int) -> Row:
    """Spans one after the other, cut or padded to ``width``."""
    builder = RowBuilder()
    for text, role in spans:
        builder.add(text, role)
    return cut(builder.row(), width)


def fit(parts: Iterable[Part], width: int, right: Part | None = None, separator: str = " · ") -> Row:
    """One row of ``width`` cells: ``parts`` from the left, ``right`` at the right edge."""
    shown = [*parts, right] if right else [*parts]
    level = [0] * len(shown)
    lengths = [_length(p.forms[0]) for p in shown]

    def needed() -> int:
        return sum(lengths) + len(separator) * max(0, len(lengths) - lengths.count(0) - 1)

    while needed() > width:
        costs = [
            (p.weight * (1 if _length(p.forms[level[i] + 1]) else 2) + _NEXT_STEP * level[i], -i)
            for i, p in enumerate(shown)
            if level[i] + 1 < len(p.forms)
        ]
        if not costs:
            break
        place = -min(costs)[1]
        level[place] += 1
        lengths[place] = _length(shown[place].forms[level[place]])
    forms = [p.forms[i] for p, i in zip(shown, level, strict=True)]
    last = forms.pop() if right else ()
    spans: list[Span] = []
    for form, length in zip(forms, lengths, strict=False):
        if length:
            spans += [(separator, Role.DIM), *form] if spans else form
    if last and lengths[-1]:
        used = _length(spans)
        gap = width - used - lengths[-1]
        spans += [(" " * gap if gap >= 0 or not used else separator, Role.TEXT), *last]
    return line(spans, width)


def wrap(spans: Iterable[Span], width: int, lines: int) -> list[Row]:
    """Words over at most ``lines`` rows, ``…`` where there was more; fewer rows where fewer are needed."""
    if width < 1 or lines < 1:
        return []
    rows: list[list[Span]] = [[]]
    for text, role in spans:
        for word in text.split(" "):
            if not word:
                continue
            used = _length(rows[-1])
            if used and used + 1 + len(word) > width and len(rows) < lines:
                rows.append([])
                used = 0
            rows[-1] += [(" ", role)] if used else []
            rows[-1].append((word, role))
    return [line(row, width) for row in rows if row]


def blank(width: int) -> Row:
    return RowBuilder().row(width)


def exactly(rows: list[Row], width: int, height: int) -> list[Row]:
    """``rows`` cut or padded to ``height``."""
    return rows[:height] + [blank(width)] * (height - len(rows))
