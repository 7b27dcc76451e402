"""Which life of an engine a command is for."""

import pytest

from kvtop.protocol import Abort, PolicyAxis, PolicyValue, RequestKeyframe


def test_a_command_is_for_its_run_or_for_any() -> None:
    assert Abort(id="1", request=3).missed_run("b") is None
    assert Abort(id="1", run="b", request=3).missed_run("b") is None
    assert RequestKeyframe(run="a").missed_run("b") is not None


@pytest.mark.parametrize(
    ("meant", "now", "says"),
    [
        (
            "0123456789abcdef",
            "fedcba9876543210",
            "run 01234567 of the engine, which is over; what goes on now is run fedcba98",
        ),
        (
            "2026-11-30/1",
            "2026-11-30/2",
            "run 2026-11-30/1 of the engine, which is over; what goes on now is run 2026-11-30/2",
        ),
    ],
)
def test_both_runs_are_named_so_that_they_differ(meant: str, now: str, says: str) -> None:
    missed = Abort(id="1", run=meant, request=3).missed_run(now)
    assert missed is not None
    assert says in missed


@pytest.mark.parametrize(
    ("axis", "old", "new", "asks"),
    [
        (PolicyAxis(name="a", kind="bool"), True, False, True),
        (PolicyAxis(name="a", kind="bool", transition=False), True, False, False),
        (PolicyAxis(name="a", kind="choice", transition=True), "x", "y", True),
        (PolicyAxis(name="a", kind="choice", transition=True, transition_values=["y"]), "x", "y", True),
        (PolicyAxis(name="a", kind="choice", transition=True, transition_values=["y"]), "y", "x", False),
        (PolicyAxis(name="a", kind="int", transition=True), 12, 4, True),
        (PolicyAxis(name="a", kind="int", transition=True), 4, 12, False),
        (PolicyAxis(name="a", kind="float", transition=True), None, 0.5, True),
    ],
)
def test_the_axis_says_whether_its_transition_matters(
    axis: PolicyAxis, old: PolicyValue | None, new: PolicyValue, asks: bool
) -> None:
    assert axis.asks_transition(old, new) is asks
