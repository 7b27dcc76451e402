"""A recording as a table: one row a second, unknown is empty (RFC 4180 with newlines)."""

import csv
import io
from collections.abc import Iterator, Sequence

from kvtop.export.columns import COLUMNS, Cell, cells
from kvtop.export.stretch import Stretch, seconds


def csv_rows(stretch: Stretch) -> Iterator[str]:
    """The header, then the rows, each with its newline."""
    yield _line([column.name for column in COLUMNS])
    for run, second in seconds(stretch.steps()):
        yield _line(["" if cell is None else cell for cell in cells(run, second)])


def _line(values: Sequence[Cell]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()
