"""Times to hold: what must last before an alarm fires, and before it is over. Nothing flaps."""

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from kvtop.alarms import Finding
from kvtop.alarms.course import Course
from kvtop.alarms.outcome import Fine, Outcome, Unchecked
from kvtop.alarms.rules.never_fits import NeverFits, NeverFitsLimits

WRONG = Finding("critical", "brief", "evidence", None, "try")
outcomes = st.lists(st.sampled_from((WRONG, Fine("looked at"), Unchecked("not exposed"))), max_size=60)
times = st.integers(0, 6)


def run(signal: list[Outcome], for_s: int, hold_s: int) -> list[tuple[int, str]]:
    """What was told at which second, of a signal with a value each second."""
    course = Course(NeverFits(NeverFitsLimits(for_s=for_s, hold_s=hold_s)))
    told = []
    for second, outcome in enumerate(signal):
        if change := course.step(float(second), None, 1.0, outcome):
            told.append((second, change))
        assert course.fires == (bool(told) and told[-1][1] == "began")
        assert (course.finding is not None) == (course.status in ("pending", "firing", "ending"))
    return told


@given(signal=outcomes, for_s=times, hold_s=times)
def test_it_fires_after_so_long_and_is_over_after_so_long(signal: list[Outcome], for_s: int, hold_s: int) -> None:
    told = run(signal, for_s, hold_s)
    assert [change for _, change in told] == ["began", "over"] * (len(told) // 2) + ["began"] * (len(told) % 2)
    for second, change in told:
        lasting = for_s + 1 if change == "began" else hold_s + 1
        before = signal[second - lasting + 1 : second + 1]
        assert len(before) == lasting
        assert all((outcome is WRONG) == (change == "began") for outcome in before)


@given(toggles=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=20), for_s=times)
def test_what_toggles_faster_than_the_time_to_hold_is_one_alarm(toggles: list[tuple[int, int]], for_s: int) -> None:
    signal: list[Outcome] = [WRONG] * (for_s + 1)
    for off, on in toggles:
        signal += [Fine("")] * off + [WRONG] * on
    assert [change for _, change in run(signal, for_s, 4)] == ["began"]


@given(signal=outcomes, for_s=times, hold_s=times)
def test_a_time_in_which_nothing_was_observed_counts_neither_way(
    signal: list[Outcome], for_s: int, hold_s: int
) -> None:
    """Looks that follow at once, or after a silence, are worth no second of observation."""
    course = Course(NeverFits(NeverFitsLimits(for_s=for_s, hold_s=hold_s)))
    told = [course.step(100.0 * at, None, 0.0, outcome) for at, outcome in enumerate(signal)]
    if for_s:
        assert "began" not in told
    elif hold_s:
        assert told.count("began") <= 1
        assert "over" not in told


def test_evidence_stays_while_it_ends_and_when_it_was_is_remembered() -> None:
    course = Course(NeverFits(NeverFitsLimits(for_s=0, hold_s=2)))
    course.step(10.0, 1000.0, 1.0, WRONG)
    course.step(11.0, 1001.0, 1.0, Fine("fine"))
    assert (course.status, course.text) == ("ending", "evidence")
    course.step(12.0, 1002.0, 1.0, Fine("fine"))
    course.step(13.0, 1003.0, 1.0, Fine("fine"))
    assert (course.status, course.text, course.before) == ("fine", "fine", (1000.0, 3.0))


def test_groups_of_a_signal_are_told_once_each() -> None:
    signal: list[Outcome] = ([WRONG] * 3 + [Fine("")] * 5) * 3
    told = run(signal, 1, 3)
    assert [change for _, change in told] == ["began", "over"] * len([k for k, _ in groupby(signal) if k is WRONG])
