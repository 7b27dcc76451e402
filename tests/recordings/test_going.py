"""From one recorded moment to another, and moments in words: a way there and back leads to where it began."""

from datetime import datetime

import pytest

from kvtop.protocol import IterationFrame, Keyframe
from kvtop.record import Place, Recording
from kvtop.record.going import GOALS, mono_at, next_fact, previous_fact, shift, step
from kvtop.record.when import WhenError, place_of, span
from tests.recordings.kit import recording, told


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Two lives of an engine, one after the other."""
    said = (*told(60), *told(60, seed=6, run="run-2"))
    return Recording(recording(tmp_path_factory.mktemp("going") / "a.kvtop", said))


def places(tape: Recording) -> list[Place]:
    found = []
    for chunk in tape.chunks:
        for frame in tape.frames_of(chunk):
            if isinstance(frame, IterationFrame | Keyframe):
                found.append(Place(chunk.first.run, frame.seq))
    return sorted(set(found))


def test_every_frame_is_met_once_on_the_way_there_and_back(tape: Recording) -> None:
    assert tape.start is not None
    assert tape.end is not None
    met, place = [tape.start], tape.start
    while (following := step(tape, place, 1)) != place:
        met.append(following)
        place = following
    assert met == places(tape)
    assert place == tape.end
    back = [place]
    while (before := step(tape, place, -1)) != place:
        back.append(before)
        place = before
    assert back == met[::-1]


@pytest.mark.parametrize("seconds", [0.01, 0.2, 1.0, 1e6])
def test_seconds_are_the_engines_own_and_stay_in_its_run(tape: Recording, seconds: float) -> None:
    second = [place for place in places(tape) if place.run == 1]
    for place in second[5::9]:
        on, back = shift(tape, place, seconds), shift(tape, place, -seconds)
        here, there, before = (mono_at(tape, p) for p in (place, on, back))
        assert here is not None
        assert there is not None
        if on.run == place.run:
            assert on > place or place == second[-1]
            assert there - here <= max(seconds, 0.0501)
        assert back < place or place == second[0]
        if back.run == place.run and before is not None and back > second[0]:
            assert here - before >= seconds - 1e-6


def test_facts_are_gone_through_in_order_and_only_those_that_are_meant(tape: Recording) -> None:
    facts = [fact for fact in tape.notable() if tape.start is not None and fact.place > tape.start]
    assert facts
    for goal in GOALS:
        meant = [fact.place for fact in facts if goal.meant(fact.fact)]
        met, place = [], tape.start
        while place is not None and (fact := next_fact(tape, place, goal)) is not None:
            met.append(fact.place)
            place = fact.place
        assert met == sorted(set(meant)), goal.name
        assert tape.end is not None
        back, place = [], Place(tape.end.run, tape.end.seq + 1)
        while (fact := previous_fact(tape, place, goal)) is not None:
            back.append(fact.place)
            place = fact.place
        assert back == sorted(set(meant), reverse=True), goal.name


def test_words_for_moments(tape: Recording) -> None:
    spans = tape.spans()
    first, last = spans[0].wall_first, spans[-1].wall_last
    assert place_of("start", tape) == tape.start
    assert place_of("now", tape) == place_of("-0s", tape) == tape.end
    assert place_of("+1s", tape) == tape.at_wall(first + 1)
    assert place_of("-0.02m", tape) == tape.at_wall(last - 1.2)
    assert place_of(datetime.fromtimestamp(last).isoformat(), tape) == tape.at_wall(last)
    assert place_of("-1m", tape, now=last + 59.0) == tape.at_wall(last - 1.0)


@pytest.mark.parametrize(
    "text", ["", "soon", "-", "+1y", "it:", "it:-1", "-1e999", "25:00", "-" + "9" * 400, "it:" + "1" * 30, "[b]"]
)
def test_what_is_no_moment_says_what_would_be(tape: Recording, text: str) -> None:
    with pytest.raises(WhenError, match="is no moment: as in "):
        place_of(text, tape)


def test_spans_of_time() -> None:
    assert [span(text) for text in ("90", "1.5m", "2h", "1d")] == [90.0, 90.0, 7200.0, 86400.0]
    assert [span(text) for text in ("", "m", "-5", "1 m", "٣")] == [None] * 5
