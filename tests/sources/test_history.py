"""What a viewer keeps to look back on: all of it, up to the latest frame, across an outage, and nothing more on its screen."""

from kvtop.protocol import Gap, IterationFrame, Keyframe, encode
from kvtop.record import Place
from kvtop.record.ring import in_memory
from kvtop.sources.history import ENTRY_S, LARGE, History
from kvtop.state.moment import moment
from tests.recordings.kit import HandClock, told


def history(clock: HandClock) -> History:
    return History(keep=in_memory, clock=clock)


def test_the_latest_frame_can_be_looked_at_at_once() -> None:
    clock = HandClock()
    kept = history(clock)
    for line, frame in told(40):
        clock.now += 0.05
        kept.take(line, frame)
        if isinstance(frame, IterationFrame):
            tape = kept.tape()
            tape.refresh()
            assert tape.end == Place(0, frame.seq)
            there = moment(tape, tape.end)
            assert there is not None
            assert there.state.seq == frame.seq


def test_a_keyframe_is_wanted_now_and_then_and_a_large_one_more_seldom() -> None:
    clock = HandClock()
    kept = history(clock)
    said = told(40)
    for line, frame in said[:3]:
        kept.take(line, frame)
    assert not kept.wants_keyframe()
    clock.now += ENTRY_S
    assert kept.wants_keyframe()
    assert not kept.wants_keyframe()
    line, frame = next(pair for pair in said[3:] if isinstance(pair[1], Keyframe))
    kept.take(b" " * (3 * LARGE) + line, frame)
    clock.now += 2 * ENTRY_S
    assert not kept.wants_keyframe()
    clock.now += 2 * ENTRY_S
    assert kept.wants_keyframe()


def test_what_was_missed_in_an_outage_is_a_gap_and_both_sides_can_be_looked_at() -> None:
    clock = HandClock()
    kept = history(clock)
    said = told(100)
    for line, frame in [*said[:30], said[0], *said[60:]]:
        clock.now += 0.05
        kept.take(line, frame)
    tape = kept.tape()
    tape.refresh()
    spans = tape.spans()
    assert len(spans) == 2
    assert "missing" in spans[1].hole
    for span in spans:
        there = moment(tape, span.last)
        assert there is not None
        assert there.state.seq == span.last.seq
    gaps = [frame for chunk in tape.chunks for frame in tape.frames_of(chunk) if isinstance(frame, Gap)]
    assert sum(gap.last - gap.first + 1 for gap in gaps) == spans[1].first.seq - spans[0].last.seq
    assert encode(gaps[0])
