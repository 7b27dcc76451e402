from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.protocol import AnyFrame, Gap, IterationFrame, Keyframe, decode_frame
from kvtop.publish.cursor import MAX_LINES, Cursor
from kvtop.publish.merged_lines import MergedLines
from kvtop.publish.ring import Ring
from tests.publish.fold import Fold
from tests.publish.kit import event, frame, keyframe
from tests.publish.stories import Story


class Viewed:
    """A ring with one cursor on it."""

    def __init__(self, size: int = 8) -> None:
        self.ring = Ring(size)
        self.wanted = 0
        self.cursor = Cursor(self.ring, MergedLines(), self._want)
        self.now = 100.0

    def _want(self) -> None:
        self.wanted += 1

    def take(self) -> list[AnyFrame]:
        self.now += 1.0
        return [
            message
            for line in self.cursor.take(self.now, self.ring.last_seq)
            if (message := decode_frame(line)) is not None
        ]


def _shape(messages: list[AnyFrame]) -> list[tuple[str, int, int]]:
    return [
        (m.type, m.seq, m.merged if isinstance(m, IterationFrame) else 0)
        for m in messages
        if isinstance(m, (IterationFrame, Keyframe))
    ]


def test_joins_with_the_held_keyframe_and_the_frames_since() -> None:
    v = Viewed()
    v.ring.append(frame(1))
    v.ring.hold(keyframe(1))
    v.ring.append(frame(2))
    v.ring.append(frame(3))
    assert _shape(v.take()) == [("keyframe", 1, 0)]
    assert _shape(v.take()) == [("iteration", 2, 1), ("iteration", 3, 1)]
    assert not v.cursor.has_news()
    assert v.take() == []
    assert v.wanted == 0


def test_without_a_usable_keyframe_one_is_asked_for_and_nothing_else_sent() -> None:
    v = Viewed(size=2)
    assert v.take() == []
    v.ring.hold(keyframe(0))
    for seq in range(1, 5):
        v.ring.append(frame(seq))  # the keyframe's followers fall out
    assert not v.cursor.has_news()
    assert v.take() == []
    assert v.wanted == 2
    v.ring.hold(keyframe(4))
    assert v.cursor.has_news()
    assert _shape(v.take()) == [("keyframe", 4, 0)]


def test_a_viewer_with_a_rate_gets_merged_frames() -> None:
    v = Viewed()
    v.ring.hold(keyframe(0))
    v.take()
    v.cursor.fps = 2.0
    for seq in range(1, 6):
        v.ring.append(frame(seq))
    assert _shape(v.take()) == [("iteration", 5, 5)]


def test_a_viewer_that_did_not_keep_up_is_merged_once_and_then_gets_every_frame_again() -> None:
    v = Viewed()
    v.ring.hold(keyframe(0))
    v.take()
    v.cursor.lagging = True
    for seq in (1, 2, 3):
        v.ring.append(frame(seq))
    assert _shape(v.take()) == [("iteration", 3, 3)]
    v.ring.append(frame(4))
    v.ring.append(frame(5))
    assert _shape(v.take()) == [("iteration", 4, 1), ("iteration", 5, 1)]


def test_one_turn_hands_out_a_bounded_number_of_lines() -> None:
    v = Viewed(size=1000)
    v.ring.hold(keyframe(0))
    v.take()
    for seq in range(1, MAX_LINES + 11):
        v.ring.append(frame(seq))
    assert len(v.take()) == MAX_LINES
    assert len(v.take()) == 10


def test_falling_out_of_the_ring_is_a_gap_with_its_events_and_a_keyframe() -> None:
    v = Viewed(size=2)
    v.ring.hold(keyframe(0))
    v.take()
    for seq in range(1, 7):
        v.ring.append(frame(seq, event(seq)))
    assert v.take() == []
    assert v.wanted == 1
    v.ring.hold(keyframe(6))
    gap, key = v.take()
    assert isinstance(gap, Gap)
    assert (gap.first, gap.last, gap.events_lost) == (1, 6, 0)
    assert [e.id for e in gap.events] == [1, 2, 3, 4, 5, 6]
    assert isinstance(key, Keyframe)


def test_a_keyframe_on_request_is_a_fresh_one_and_skips_no_frame() -> None:
    v = Viewed()
    v.ring.hold(keyframe(0))
    v.take()
    v.cursor.ask_keyframe()
    v.ring.append(frame(1, event(1)))
    assert _shape(v.take()) == [("iteration", 1, 1)], "frames go on while the engine makes it"
    v.ring.append(frame(2, event(2)))
    v.ring.hold(keyframe(2))
    v.ring.append(frame(3))
    assert _shape(v.take()) == [("iteration", 2, 1), ("keyframe", 2, 0)]
    assert _shape(v.take()) == [("iteration", 3, 1)]


def test_frames_that_come_during_a_turn_wait_for_the_next() -> None:
    v = Viewed()
    v.ring.hold(keyframe(0))
    v.take()
    for seq in (1, 2, 3):
        v.ring.append(frame(seq))
    assert len(v.cursor.take(v.now + 1.0, 2)) == 2
    assert _shape(v.take()) == [("iteration", 3, 1)]


def test_turns_of_viewers_with_one_rate_fall_together_whenever_they_came() -> None:
    ring, lines = Ring(8), MergedLines()
    ring.hold(keyframe(0))
    dues = []
    for came in (10.01, 10.09, 10.19):
        cursor = Cursor(ring, lines, lambda: None)
        cursor.fps = 5.0
        cursor.take(came, None)
        dues.append(cursor.due_at())
    assert dues == [10.2, 10.2, 10.2]


def test_a_slow_rate_on_a_fast_engine_is_served_before_the_ring_runs_over() -> None:
    v = Viewed(size=100)
    v.ring.hold(keyframe(0))
    v.take()
    v.cursor.fps = 0.1
    seq = 0
    for _ in range(20):
        while v.now < v.cursor.due_at():  # 50 frames a second
            v.now += 0.02
            seq += 1
            v.ring.append(frame(seq))
        messages = [decode_frame(line) for line in v.cursor.take(v.now, None)]
        gaps = [m for m in messages if isinstance(m, Gap)]
        if seq > 1000:
            assert not gaps
        if not messages:
            v.ring.hold(keyframe(seq))


@settings(max_examples=50)
@given(st.data())
def test_whatever_happens_the_viewer_ends_with_the_truth_and_every_event(data: Any) -> None:
    v = Viewed(size=data.draw(st.integers(1, 6)))
    story, seen = Story(data.draw), Fold()
    v.ring.hold(story.truth.keyframe())
    for message in v.take():
        seen.apply(message)
    last = 0
    for _ in range(data.draw(st.integers(1, 12))):
        what = data.draw(st.sampled_from(["step", "step", "step", "keyframe", "take", "stall", "rate", "ask"]))
        if what == "step":
            v.ring.append(story.next())
        elif what == "keyframe":
            v.ring.hold(story.truth.keyframe())
        elif what == "stall":
            v.cursor.lagging = True
        elif what == "rate":
            v.cursor.fps = data.draw(st.sampled_from([None, 10.0]))
        elif what == "ask":
            v.cursor.ask_keyframe()
        else:
            last = _receive(v, seen, last)
    v.ring.hold(story.truth.keyframe())
    while v.cursor.has_news():
        last = _receive(v, seen, last)
    assert seen.facts() == story.truth.facts()
    assert seen.events == list(range(1, story.events + 1))
    assert seen.events_lost == 0


def _receive(v: Viewed, seen: Fold, last: int) -> int:
    for message in v.take():
        if isinstance(message, Gap):
            assert message.first == last + 1
            seen.seq = last
        seen.apply(message)
        last = seen.seq_or(last)
    return last
