"""Which loads a script may take for measured."""

import pytest

from kvtop.load.driver import Limits, Tally
from kvtop.load.health import unhealthy
from kvtop.load.sample import Failure, Sample
from kvtop.load.summary import summarise
from tests.load.test_compare import result


def why(kinds: str) -> str | None:
    """Of a run whose requests were answered (.), failed (x), or were cut off by its end (-)."""
    failures = {".": None, "x": Failure.CONNECT, "-": Failure.UNFINISHED}
    samples = [
        Sample(index, "", index, 0, 0.0, 1, 1, sent=0.0, done=0.1, failure=failures[kind])
        for index, kind in enumerate(kinds)
    ]
    tally = Tally(0.0, Limits(1.0), samples)
    return unhealthy(result(1.0, 1).model_copy(update=summarise(tally, {})))


@pytest.mark.parametrize("kinds", [".", "." * 9 + "x", ("." * 10 + "x") * 20, "." * 100 + "x" * 9, "." + "-" * 50])
def test_a_load_whose_requests_were_answered_is_one_to_go_by(kinds: str) -> None:
    assert why(kinds) is None


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ("", "no request was answered"),
        ("-" * 5, "no request was answered"),
        ("x" * 5, "no request was answered"),
        ("." * 8 + "x" + "-" * 50, "1 of 9 requests failed"),
        ("." * 100 + "x" * 1000, "1000 of 1100 requests failed"),
        ("." * 1000 + "x" * 10 + "---", "the last 10 requests failed"),
    ],
)
def test_one_of_which_much_failed_or_whose_server_had_gone_is_not(kinds: str, words: str) -> None:
    assert why(kinds) == words
