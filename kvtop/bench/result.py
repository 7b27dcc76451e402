"""What a benchmark measured: one load after the other, each with all its variables."""

import json
from pathlib import Path
from typing import Literal

from pydantic import Field

from kvtop.load.result import LoadResult, Part, read_document

SCHEMA = "kvtop.bench/1"


class Cell(Part):
    """What is varied within a benchmark. ``threads``: null where the server was found running, as it was."""

    threads: int | None = None
    streams: int
    prompt_tokens: int
    output_tokens: int


class Run(Part):
    """One load of one server."""

    server: str = Field(description="what it is called in tables")
    round: int = Field(description="from 0; the servers of a round follow upon each other")
    cell: Cell
    load: LoadResult


class BenchResult(Part):
    schema_: Literal["kvtop.bench/1"] = Field(default="kvtop.bench/1", alias="schema")
    kind: Literal["serving", "compare"]
    began: str = Field(description="UTC")
    command: list[str]
    notes: dict[str, str] = Field(default_factory=dict)
    runs: list[Run] = Field(description="in the order in which they were made")

    @property
    def servers(self) -> list[str]:
        """In the order in which they were named."""
        return list(dict.fromkeys(run.server for run in self.runs if run.round == 0))

    @property
    def cells(self) -> list[Cell]:
        return list(dict.fromkeys(run.cell for run in self.runs))

    def of(self, server: str, cell: Cell) -> list[Run]:
        return [run for run in self.runs if (run.server, run.cell) == (server, cell)]

    def dumps(self) -> str:
        return json.dumps(self.model_dump(by_alias=True), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def read_bench(path: Path) -> BenchResult:
    """Raises `UserError` that names the file and the field."""
    return read_document(path, BenchResult, SCHEMA, "kvtop bench")
