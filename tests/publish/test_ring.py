import pytest

from kvtop.publish.ring import AWAITING_MOST, EVENT_LOG, Ring
from tests.publish.kit import event, frame, keyframe


def _seqs(ring: Ring, after: int) -> list[int] | None:
    entries = ring.since(after)
    return None if entries is None else [entry.seq for entry in entries]


def test_keeps_the_last_frames_and_says_when_some_are_missing() -> None:
    ring = Ring(3)
    for seq in range(1, 6):
        ring.append(frame(seq))
    assert _seqs(ring, 5) == []
    assert _seqs(ring, 3) == [4, 5]
    assert _seqs(ring, 2) == [3, 4, 5]
    assert _seqs(ring, 1) is None


def test_a_merged_frame_counts_for_all_its_iterations() -> None:
    ring = Ring(3)
    ring.append(frame(1))
    ring.append(frame(5, merged=4))
    assert _seqs(ring, 1) == [5]
    assert _seqs(ring, 0) == [1, 5]


def test_a_hole_in_the_engines_frames_is_a_gap_for_everybody() -> None:
    ring = Ring(8)
    ring.append(frame(1))
    ring.append(frame(7))
    assert _seqs(ring, 1) is None
    assert _seqs(ring, 6) == [7]


def test_frames_out_of_order_are_the_engines_fault() -> None:
    ring = Ring(8)
    ring.append(frame(4))
    with pytest.raises(ValueError, match=r"frame 4 .* follows frame 4"):
        ring.append(frame(4))
    ring.hold(keyframe(4))
    with pytest.raises(ValueError, match=r"keyframe of frame 3 follows one of frame 4"):
        ring.hold(keyframe(3))


def test_a_keyframe_ahead_of_the_frames_starts_anew() -> None:
    ring = Ring(8)
    ring.append(frame(1))
    ring.hold(keyframe(9))
    assert ring.last_seq == 9
    assert _seqs(ring, 1) is None
    assert _seqs(ring, 9) == []


def test_events_outlive_their_frames_and_the_lost_are_counted() -> None:
    ring = Ring(1)
    for seq in range(1, 4):
        ring.append(frame(seq, event(seq)))
    held, lost = ring.events(1, 3)
    assert ([e.id for e in held], lost) == ([2, 3], 0)
    ring.append(frame(4, *(event(n) for n in range(4, EVENT_LOG + 4))))
    held, lost = ring.events(1, EVENT_LOG + 3)
    assert (held[0].id, len(held), lost) == (4, EVENT_LOG, 2)
    assert ring.events(0, 2) == ([], 2)


def test_a_frame_is_encoded_once_and_only_when_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    monkeypatch.setattr("kvtop.publish.ring.encode", lambda made: encoded.append(made.seq) or b"line\n")
    ring = Ring(8)
    ring.append(frame(1))
    ring.hold(keyframe(1))
    assert encoded == []
    for _ in range(2):
        entries = ring.since(0)
        assert entries is not None
        assert entries[0].line() == b"line\n"
    assert encoded == [1]


def test_a_ring_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ring of 0 frames"):
        Ring(0)


def test_frames_behind_a_keyframe_that_is_being_made_stay_until_viewers_had_their_turn() -> None:
    ring = Ring(4)
    for seq in range(1, 11):
        ring.append(frame(seq))
    ring.await_keyframe(10)
    for seq in range(11, 41):
        ring.append(frame(seq))
    ring.hold(keyframe(10))
    for seq in range(41, 44):
        ring.append(frame(seq))
        assert _seqs(ring, 10) == list(range(11, seq + 1)), "as long as any frame stays"
    for seq in range(44, 200):
        ring.append(frame(seq))
    assert _seqs(ring, 195) == [196, 197, 198, 199]
    assert ring.since(194) is None


def test_a_keyframe_that_never_comes_keeps_a_bounded_number_of_frames() -> None:
    ring = Ring(4)
    ring.append(frame(1))
    ring.await_keyframe(1)
    for seq in range(2, 1000):
        ring.append(frame(seq))
    assert ring.since(999 - AWAITING_MOST * 4) is not None
    assert ring.since(998 - AWAITING_MOST * 4) is None
