"""Writes docs/performance.md from the results in docs/performance: ``python -m kvtop.bench.document [--check]``."""

import sys
from collections.abc import Sequence

from kvtop.bench.form import STUDY_FIGURES
from kvtop.bench.report import figures, ratios, totals
from kvtop.bench.result import BenchResult, read_bench
from kvtop.errors import UserError
from kvtop.generated import DOCS, Files, cell, main_of
from kvtop.load.report import Table, doubts

PAGE = DOCS / "performance.md"
RESULTS = DOCS / "performance"

_HEAD = f"""# Performance

Generated from the results in [docs/performance](performance) by `python -m kvtop.bench.document`; do not edit.

`kvtop bench serving` measures in the form of the published study of small models on a CPU: SmolLM2-135M-Instruct over HTTP with
server-sent events, eight configurations of threads, streams and prompt length, six requests of 24 tokens each (48 requests,
1,152 output tokens), greedy, end of sequence ignored. The study reports {STUDY_FIGURES[0]:.2f} to {STUDY_FIGURES[1]:.2f} output tokens/s on a
machine of its own. `kvtop bench compare` loads several servers in turn, forth in one round and back in the next, with the same
requests in each round, and divides round by round. What is measured, from when to when: [load.md](load.md). Times are the median request's;
a figure of a cell is the median of its rounds. Memory is the most that the server's processes were seen to hold.
"""


def page(results: Sequence[tuple[str, BenchResult]]) -> str:
    """The whole page; ``results`` with the names of their files."""
    parts = [_HEAD]
    if not results:
        parts.append("Nothing has been measured yet.\n")
    for name, result in results:
        parts.append("\n".join([f"## {name}", "", *_about(name, result), "", _markdown(figures(result))]))
        if len(result.servers) > 1:
            parts.append(
                f"Over {result.servers[0]}, median of the rounds and their spread:\n\n{_markdown(ratios(result))}"
            )
    return "\n".join(parts)


def _about(name: str, result: BenchResult) -> list[str]:
    client = result.runs[0].load.client
    memory = "" if client.memory_bytes is None else f", {client.memory_bytes / 2**30:.0f} GiB"
    lines = [
        f"- {totals(result)}, begun {result.began}; [every request](performance/{name}.json)",
        f"- {client.cpu or 'processor unknown'}, {client.cores} cores{memory}; {client.platform}; Python {client.python}, kvtop "
        f"{client.kvtop}, httpx {client.httpx}",
        f"- `{' '.join(result.command)}`",
    ]
    for server in result.servers:
        facts = next(run.load.server for run in result.runs if run.server == server)
        said = ", ".join(filter(None, (facts.root, facts.owner, facts.version, facts.software)))
        lines.append(f"- {server}: {facts.model} ({said or 'says nothing of itself'})")
    lines += [f"- {key}: {value}" for key, value in result.notes.items()]
    lines += [f"- {doubt}" for doubt in dict.fromkeys(doubt for run in result.runs for doubt in doubts(run.load))]
    return lines


def _markdown(table: Table) -> str:
    headings, rows = table
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell(text) for text in line) + " |" for line in lines) + "\n"


def files() -> Files:
    """Raises `UserError` for a result that cannot be read."""
    return {PAGE: page([(path.stem, read_bench(path)) for path in sorted(RESULTS.glob("*.json"))])}


def main(arguments: Sequence[str]) -> int:
    try:
        return main_of("kvtop.bench.document", files, arguments)
    except UserError as error:
        print(error.message, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
