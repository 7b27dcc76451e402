"""The help as rows: every key, every number's definition, what the glyphs mean, what the policies are."""

from collections.abc import Sequence

from kvtop.protocol import Hello
from kvtop.term.keys import Section
from kvtop.views import format
from kvtop.views.block_states import ALL, role_of
from kvtop.views.cells import FILL_STEPS, fill_role
from kvtop.views.definition import sent_meaning
from kvtop.views.glyphs import Glyphs
from kvtop.views.memory import shares
from kvtop.views.numbers import SECTIONS
from kvtop.views.rows import HEAT_STEPS, OWNERS, Role, Row, RowBuilder, clean
from panels.dialogs.wrapping import wrapped

KEY_COLUMN = 16
TERM_COLUMN = 20


def _heading(text: str, width: int) -> list[Row]:
    return [Row("", b""), RowBuilder().add(text, Role.TITLE).row(width)]


def _entry(name: str, meaning: str, width: int, column: int, role: int = Role.KEY) -> list[Row]:
    rows = wrapped(meaning, width - column)
    first = RowBuilder().add(name[: column - 1], role).to(column).row()
    indent = RowBuilder().to(column).row()
    return [
        Row((indent if i else first).text + row.text, (indent if i else first).roles + row.roles)
        for i, row in enumerate(rows)
    ]


def _key_rows(width: int, keys: Sequence[Section]) -> list[Row]:
    rows: list[Row] = []
    for section in keys:
        rows += _heading(f"Keys, {section.name}", width)
        for action in section.actions:
            rows += _entry(action.shown, action.help, width, KEY_COLUMN)
    return rows


def _glyph_rows(width: int, glyphs: Glyphs) -> list[Row]:
    rows = _heading("Glyphs of the block map", width)
    for state in ALL:
        glyph = glyphs.state(state.name)
        rows += _entry(f"{glyph} {state.name}", state.meaning, width, TERM_COLUMN, role_of(state.name))
    rows += _entry("A … Z", f"by owner: a letter for each request, {OWNERS} colours", width, TERM_COLUMN, Role.OWNER0)
    rows += _entry("1 … 9 +", "by sharing: how many block tables hold the block", width, TERM_COLUMN, Role.SHARE0 + 3)
    steps = f"{glyphs.fill[0]} … {glyphs.fill[-1]}"
    rows += _entry(steps, "by fill: nothing written … all of the block", width, TERM_COLUMN, fill_role(FILL_STEPS))
    rows += _entry("D H …", "by tier, all of them at once: a letter of its name", width, TERM_COLUMN, Role.OWNER0)
    rows += _entry("0 1 …", "by group: which KV group the block belongs to", width, TERM_COLUMN, Role.OWNER0 + 1)
    meaning = "by prefix: a letter for each family of requests, a capital where it has several"
    rows += _entry("a … Z", meaning, width, TERM_COLUMN, Role.OWNER0 + 2)
    return rows + _entry(
        f"{glyphs.heat[0]} … {glyphs.heat[-1]}",
        "by recency: long ago … just now",
        width,
        TERM_COLUMN,
        Role.HEAT0 + HEAT_STEPS - 1,
    )


def _policy_rows(width: int, hello: Hello | None) -> list[Row]:
    rows = _heading("Policies of this engine", width)
    if hello is None or not hello.axes:
        return rows + wrapped("not exposed" if hello else "waiting for the engine", width, Role.DIM)
    for axis in hello.axes:
        unit = f" ({axis.unit})" if axis.unit else ""
        rows += _entry(clean(axis.name), axis.help + unit, width, TERM_COLUMN)
        for choice, meaning in axis.choices.items():
            rows += wrapped(f"{format.value(choice)}: {meaning}", width, Role.DIM, " " * TERM_COLUMN)
    return rows


def _memory_rows(width: int, hello: Hello | None) -> list[Row]:
    rows = _heading("Memory of this engine, when it started", width)
    if hello is None or hello.memory is None:
        return rows + wrapped("not exposed" if hello else "waiting for the engine", width, Role.DIM)
    for share in shares(hello.memory):
        meaning = f"{format.size(share.bytes)}: {sent_meaning(f'memory.{share.field}')}"
        rows += _entry(share.name, meaning, width, TERM_COLUMN, Role.STRONG)
    what = clean(hello.memory.what, 128) or "all there is"
    return rows + _entry(
        "together", f"{format.size(hello.memory.total_bytes)}: {what}", width, TERM_COLUMN, Role.STRONG
    )


def help_rows(width: int, hello: Hello | None, glyphs: Glyphs, keys: Sequence[Section]) -> list[Row]:
    """Everything, from top to bottom, in rows of ``width`` cells."""
    rows = _key_rows(width, keys)[1:]
    for heading, entries in SECTIONS:
        rows += _heading(heading, width)
        for entry in entries:
            rows += _entry(entry.name, entry.text, width, TERM_COLUMN, Role.STRONG)
    return glyphs.rows([*rows, *_glyph_rows(width, glyphs), *_memory_rows(width, hello), *_policy_rows(width, hello)])
