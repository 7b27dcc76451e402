"""A request's times go on between frames, and its table follows the changes."""

import pytest

from kvtop.protocol import RequestChange
from kvtop.state import RequestRow


def row(**facts: object) -> RequestRow:
    request = RequestRow(1)
    request.apply(RequestChange.model_validate({"num": 1} | facts), 100, pytest.fail)
    return request


def test_only_the_running_phase_goes_on() -> None:
    request = row(state="decode", phase_since=10.0, queue_s=1.0, prefill_s=2.0, decode_s=0.5)
    assert (request.queue_time(14.0), request.prefill_time(14.0), request.decode_time(14.0)) == (1.0, 2.0, 4.5)


@pytest.mark.parametrize("state", ["waiting", "preempted"])
def test_a_preempted_request_waits_again(state: str) -> None:
    request = row(state=state, phase_since=10.0, queue_s=1.0, decode_s=3.0)
    assert (request.queue_time(12.0), request.decode_time(12.0)) == (3.0, 3.0)


def test_what_is_not_exposed_is_unknown() -> None:
    request = row(state="waiting")
    assert request.queue_time(5.0) is None
    assert request.block_count is None
    assert request.name == "#1"
    assert row(state="waiting", phase_since=1.0).queue_time(None) is None


def test_time_never_runs_backwards() -> None:
    assert row(state="prefill", phase_since=10.0).prefill_time(9.0) == 0.0


def test_a_new_state_without_its_beginning_has_no_beginning() -> None:
    request = row(state="waiting", phase_since=1.0, queue_s=0.5)
    request.apply(RequestChange(num=1, state="decode"), 100, pytest.fail)
    assert request.phase_since is None
    assert request.decode_time(9.0) is None


def test_a_table_is_cut_then_appended_to() -> None:
    request = row(table_at=0, table=[5, 6, 7])
    request.apply(RequestChange(num=1, table_at=2, table=[9, 10]), 100, pytest.fail)
    assert request.table == [5, 6, 9, 10]
    request.apply(RequestChange(num=1, table_at=1), 100, pytest.fail)
    assert request.table == [5]
    request.apply(RequestChange(num=1, output_tokens=3), 100, pytest.fail)
    assert request.table == [5]
    assert request.block_count == 1
