"""What a reader is told besides the figures."""

from typing import Any

import pytest

from kvtop.load import report
from kvtop.load.result import Failed, LoadResult, distribution
from tests.load.test_compare import result


def told(**changes: Any) -> list[str]:
    one: LoadResult = result(1.0, 1)
    return report.doubts(one.model_copy(update=changes))


def test_a_run_without_faults_raises_no_doubts() -> None:
    assert told() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lateness": distribution([0.0, 0.5])}, "500 ms after they were due"),
        ({"client_cpu_s": 7.9}, "99% of a core"),
        ({"tokens_counted_by": "chunks"}, "each piece of text is taken as one"),
        ({"failures": [Failed(kind="http_4xx", count=1, example="HTTP 400: ignore_eos?")]}, "--plain"),
        ({"counts": {"overdue": 12}}, "12 that fell due were not sent"),
        ({"finish_reasons": {"length": 5, "stop": 3}}, "3 answers ended before the length"),
        ({"asked": result(1.0, 1, prompts_exact=False).asked}, "not exactly"),
        ({"asked": result(1.0, 1, left_out=7).asked}, "7 requests of the trace"),
    ],
)
def test_what_makes_figures_doubtful_is_said(changes: dict[str, Any], words: str) -> None:
    (doubt,) = told(**changes)
    assert words in doubt


def test_a_server_that_does_not_have_the_model_is_not_said_to_refuse_fields() -> None:
    assert told(failures=[Failed(kind="http_4xx", count=1, example="HTTP 404: no such model")]) == []


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(0.0, 3, "0/s"), (0.1234, 3, "0.123/s"), (257.96, 3, "258/s"), (999.7, 3, "1000/s"), (3004.2, 3, "3004/s"),
     (9999.6, 4, "10000/s"), (14459.5, 4, "14460/s"), (1234.56, 4, "1235/s")],
)  # fmt: skip
def test_rates_have_all_their_digits_before_the_point(value: float, digits: int, shown: str) -> None:
    assert report.per_second(value, digits) == shown


def test_what_is_unknown_is_shown_as_unknown() -> None:
    nothing = result(1.0, 1, count=0)
    headings, rows = report.times(nothing)
    assert {cell for row in rows for cell in row[2:]} == {"–"}
    assert dict(report.rates(nothing)[1])["prompt tokens"] == "–"
    assert len(headings) == len(rows[0])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "0.00 ms"),
        (0.000_12, "0.12 ms"),
        (0.0456, "45.6 ms"),
        (1.234, "1.23 s"),
        (99.96, "100 s"),
        (1234.5, "1234 s"),
    ],
)
def test_times_have_the_unit_that_fits(value: float | None, shown: str) -> None:
    assert report.seconds(value) == shown
