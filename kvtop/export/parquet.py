"""A recording as a Parquet file: the columns of the CSV with their types. Needs pyarrow, which is not there by default."""

from collections.abc import Iterator
from itertools import islice
from typing import IO, Any

from kvtop.errors import UserError
from kvtop.export.columns import COLUMNS, cells
from kvtop.export.stretch import Stretch, seconds

ROWS_AT_ONCE = 3600
"""Rows of a row group, and held at once: an hour."""


def require_pyarrow() -> Any:
    """The module. Raises `UserError` where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(
            "--to parquet needs pyarrow, which is not installed", "pip install 'kvtop-live[parquet]', or --to csv"
        ) from None
    return pyarrow


def write_parquet(stretch: Stretch, file: IO[bytes]) -> None:
    """Raises `UserError` without pyarrow, OSError."""
    arrow = require_pyarrow()
    types = {"int": arrow.int64(), "float": arrow.float64(), "text": arrow.string()}
    schema = arrow.schema([(column.name, types[column.kind]) for column in COLUMNS])
    rows: Iterator[list[Any]] = (cells(run, second) for run, second in seconds(stretch.steps()))
    with arrow.parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(rows, ROWS_AT_ONCE)):
            columns = [
                arrow.array(values, type=field.type)
                for values, field in zip(zip(*group, strict=True), schema, strict=True)
            ]
            writer.write_table(arrow.Table.from_arrays(columns, schema=schema))
