"""The forms of the benchmarks, and what becomes of their results."""

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.bench import document, report
from kvtop.bench.form import Form, interleaved
from kvtop.bench.memory import resident_bytes, server_pid
from kvtop.bench.result import BenchResult, Cell, Run, read_bench
from kvtop.errors import UserError
from kvtop.load.result import LoadResult
from tests.load.test_compare import result as load_result


def test_the_study_has_eight_configurations_48_requests_and_1152_tokens() -> None:
    form = Form()
    cells = form.cells(vary_threads=True)
    assert len(set(cells)) == 8
    assert len(cells) * form.requests == 48
    assert sum(cell.output_tokens for cell in cells) * form.requests == 1152


@given(st.lists(st.text(min_size=1), min_size=2, max_size=5, unique=True), st.integers(1, 6))
def test_servers_take_turns_and_in_two_rounds_each_is_as_early_as_late(servers: list[str], rounds: int) -> None:
    order = interleaved(servers, rounds)
    for number in range(rounds):
        assert sorted(server for each, server in order if each == number) == sorted(servers)
    if rounds % 2 == 0:
        places = {server: sum(place for place, (_, each) in enumerate(order) if each == server) for server in servers}
        assert len(set(places.values())) == 1


CELL = Cell(streams=2, prompt_tokens=64, output_tokens=5)


def bench(**factors: float) -> BenchResult:
    """Two rounds of servers that take so many times as long; the machine is twice as slow in the second round."""
    runs = [
        Run(server=name, round=number, cell=CELL, load=load_result(factor * (1 + number), 7))
        for number, (name, factor) in itertools.product(range(2), factors.items())
    ]
    return BenchResult(kind="compare", began="2026", command=["kvtop", "bench"], notes={"box": "quiet|not"}, runs=runs)


def test_ratios_are_taken_round_by_round() -> None:
    """What slows the machine down for a round is in no ratio."""
    result = bench(a=1.0, b=1.5)
    headings, rows = report.ratios(result)
    shown = {row["OVER a"]: row for row in (dict(zip(headings, row, strict=True)) for row in rows)}
    assert len(shown) == len(rows) == len(report.FIGURES)
    first, memory = shown["first token"], shown["memory"]
    assert (first["SERVER"], first["MEDIAN"], first["LEAST"], first["MOST"], first["ROUNDS"]) == (
        "b",
        "1.50",
        "1.50",
        "1.50",
        "2",
    )
    assert (memory["MEDIAN"], memory["ROUNDS"]) == ("–", "0")


def test_figures_are_the_median_of_the_rounds() -> None:
    headings, rows = report.figures(bench(a=1.0, b=2.0))
    shown = [dict(zip(headings, row, strict=True)) for row in rows]
    assert [row["SERVER"] for row in shown] == ["a", "b"]
    assert [row["DONE"] for row in shown] == ["160 of 160"] * 2
    assert "THREADS" not in headings
    assert "SERVER" not in report.figures(bench(a=1.0))[0]


def test_what_is_not_known_of_one_round_is_left_out_of_its_ratio() -> None:
    result = bench(a=1.0, b=2.0)
    last = result.runs[-1]
    unknown: LoadResult = last.load.model_copy(update={"ttft": last.load.ttft.model_copy(update={"p50": None})})
    figure = report.FIGURES[0]
    runs = [*result.runs[:-1], last.model_copy(update={"load": unknown})]
    a, b = ([run for run in runs if run.server == name] for name in ("a", "b"))
    assert len(report.by_round(figure, a, b)) == 1


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(bench(a=1.0).dumps())
    assert read_bench(path) == bench(a=1.0)
    for broken, words in (("{", "JSON"), ("{}", "no result of kvtop bench"), ('{"schema": "kvtop.bench/1"}', "kind")):
        path.write_text(broken)
        with pytest.raises(UserError, match=words):
            read_bench(path)


def test_the_page_shows_every_result_and_its_ratios() -> None:
    text = document.page([("two", bench(a=1.0, b=2.0)), ("one", bench(c=1.0))])
    for word in ("## two", "## one", "| OVER a |", "| 2.00 | 2.00 | 2.00 | 2 |", "kvtop bench", "quiet|not"):
        assert word in text
    assert text.count("OVER") == 1


def _proc(root: Path, pid: int, parent: int, name: str, pages: int, inode: int | None = None) -> None:
    folder = root / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} ({name}) S {parent} 1 1")
    (folder / "statm").write_text(f"999 {pages} 1")
    if inode is not None:
        (folder / "fd" / "3").symlink_to(f"socket:[{inode}]")


def test_a_server_is_found_by_its_port_and_its_memory_is_that_of_its_family(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    heading = "sl local_address rem_address st tx rx tr tm retr uid timeout inode\n"
    row = "0: 0100007F:{port:04X} 00000000:0000 {state} 0 0 0 0 0 {inode}\n"
    listens = heading + row.format(port=8000, state="01", inode=5) + row.format(port=8000, state="0A", inode=6)
    (tmp_path / "net" / "tcp").write_text(listens)
    _proc(tmp_path, 10, 1, "client", 1000, inode=5)
    _proc(tmp_path, 20, 1, "a server) (x", 100, inode=6)
    _proc(tmp_path, 21, 20, "core", 10)
    _proc(tmp_path, 22, 21, "worker", 1)
    assert server_pid("http://127.0.0.1:8000", tmp_path) == 20
    assert server_pid("http://127.0.0.1:8001", tmp_path) is None
    assert server_pid("http://10.0.0.1:8000", tmp_path) is None
    assert resident_bytes(20, tmp_path) == 111 * os.sysconf("SC_PAGE_SIZE")
    assert resident_bytes(99, tmp_path) is None
