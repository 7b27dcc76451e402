from kvtop.protocol import Gap
from kvtop.sources.continuity import Continuity
from tests.publish.kit import event, frame, keyframe


def test_frames_that_follow_pass_single_or_merged() -> None:
    c = Continuity()
    for message in (keyframe(4), frame(5), frame(9, merged=4), keyframe(9), frame(10)):
        assert list(c.take(message)) == [message]
    assert not c.wants_keyframe()


def test_a_hole_becomes_a_gap_and_frames_wait_for_a_keyframe_that_is_asked_for_once() -> None:
    c = Continuity()
    c.take(keyframe(0))
    (gap,) = c.take(frame(3, event(7)))
    assert isinstance(gap, Gap)
    assert (gap.first, gap.last, [e.id for e in gap.events]) == (1, 3, [7])
    assert c.wants_keyframe()
    assert list(c.take(frame(4))) == []
    (more,) = c.take(frame(5, event(8)))
    assert isinstance(more, Gap)
    assert [e.id for e in more.events] == [8], "events are kept while frames are dropped"
    assert not c.wants_keyframe()
    assert list(c.take(keyframe(5))) == [keyframe(5)]
    assert list(c.take(frame(6))) == [frame(6)]


def test_an_announced_gap_waits_for_the_promised_keyframe_and_asks_only_if_frames_come_instead() -> None:
    c = Continuity()
    c.take(keyframe(0))
    gap = Gap(first=1, last=9)
    assert list(c.take(gap)) == [gap]
    assert not c.wants_keyframe()
    assert list(c.take(frame(10))) == []
    assert c.wants_keyframe()


def test_frames_before_any_keyframe_are_not_applied() -> None:
    c = Continuity()
    assert list(c.take(frame(3))) == []
    assert c.wants_keyframe()


def test_old_frames_are_passed_over() -> None:
    c = Continuity()
    c.take(keyframe(5))
    assert list(c.take(frame(4))) == []
    assert list(c.take(frame(5))) == []
    assert list(c.take(frame(6))) == [frame(6)]
    assert not c.wants_keyframe()


def test_a_merged_frame_that_overlaps_what_is_known_is_a_hole() -> None:
    c = Continuity()
    c.take(keyframe(5))
    (gap,) = c.take(frame(7, merged=4))
    assert isinstance(gap, Gap)
    assert c.wants_keyframe()
