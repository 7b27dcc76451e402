from kvtop.protocol import Bye, Gap
from kvtop.sources.base import LinkDown, LinkUp
from kvtop.sources.inbox import Inbox
from tests.publish.kit import event, frame, hello, keyframe


def test_gives_everything_in_order_once() -> None:
    inbox = Inbox()
    items = [LinkUp(), hello(), keyframe(0), frame(1)]
    assert all(inbox.put(item) for item in items)
    assert inbox.drain() == items
    assert inbox.drain() == []


def test_a_viewer_that_looks_away_gets_a_gap_with_every_event() -> None:
    inbox = Inbox(max_items=8)
    inbox.put(LinkUp())
    inbox.put(hello())
    inbox.put(keyframe(10))
    results = [inbox.put(frame(seq, event(seq))) for seq in range(11, 17)]
    assert results == [True] * 5 + [False]
    up, greeting, gap = inbox.drain()
    assert (up, greeting) == (LinkUp(), hello())
    assert isinstance(gap, Gap)
    assert (gap.last, [e.id for e in gap.events]) == (16, list(range(11, 17)))
    assert gap.events_lost == 0


def test_the_memory_is_bounded_by_bytes_too_but_one_large_item_arrives() -> None:
    inbox = Inbox(max_bytes=1000)
    assert inbox.put(keyframe(0), size=5000)
    assert inbox.drain() == [keyframe(0)]
    assert inbox.put(frame(1), size=900)
    assert not inbox.put(frame(2), size=900)


def test_an_earlier_connection_is_forgotten_and_the_present_state_of_the_link_is_not() -> None:
    inbox = Inbox(max_items=8)
    later = hello(run="run-2")
    for item in (LinkUp(), hello(), keyframe(5), LinkDown("gone", True), LinkUp(), later, keyframe(0), frame(1)):
        assert inbox.put(item)
    assert not inbox.put(LinkDown("gone again", True))
    up, greeting, gap, down = inbox.drain()
    assert (up, greeting, down) == (LinkUp(), later, LinkDown("gone again", True))
    assert isinstance(gap, Gap)
    assert gap.last == 1


def test_it_stays_bounded_however_often_the_link_flaps() -> None:
    inbox = Inbox(max_items=8)
    for _ in range(1000):
        for item in (LinkUp(), hello(), Bye(), LinkDown("gone", True)):
            inbox.put(item)
    assert len(inbox.drain()) <= 9


def test_events_repeated_by_a_keyframe_are_not_doubled() -> None:
    inbox = Inbox(max_items=3)
    inbox.put(keyframe(1, events=[event(1)]))
    inbox.put(frame(2, event(2)))
    inbox.put(keyframe(2, events=[event(1), event(2)]))
    inbox.put(frame(3, event(3)))
    (gap,) = inbox.drain()
    assert isinstance(gap, Gap)
    assert [e.id for e in gap.events] == [1, 2, 3]
