"""Text in rows as wide as there is room."""

import textwrap

from kvtop.views.rows import Role, Row, RowBuilder, clean


def wrapped(text: str, width: int, role: int = Role.TEXT, mark: str = "") -> list[Row]:
    """``text`` in rows of at most ``width`` cells; ``mark`` stands before the first one, the others are indented."""
    lines = textwrap.wrap(clean(text, 2000), max(8, width - len(mark))) or [""]
    indent = " " * len(mark)
    return [
        RowBuilder().add(indent if i else mark, role).add(line, role).row(width, Role.TEXT)
        for i, line in enumerate(lines)
    ]
