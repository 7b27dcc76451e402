"""Viewers on a real socket."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvtop.protocol import Bye, Event, Fault, Gap, Hello, IterationFrame, Keyframe
from kvtop.publish import Publisher
from kvtop.publish.server import MAX_VIEWERS
from tests.publish.fold import Fold
from tests.publish.kit import Peer, event, frame, hello, keyframe, running, wait_until


def _seqs(messages: list[object]) -> list[int]:
    return [m.seq for m in messages if isinstance(m, IterationFrame)]


def _last(seq: int):
    return lambda message: isinstance(message, (IterationFrame, Keyframe)) and message.seq == seq


def test_the_engine_speaks_first_and_a_viewer_that_says_nothing_gets_every_frame(folder: Path) -> None:
    with running(folder) as engine, Peer(folder / "toy.sock") as peer:
        first = peer.read()
        assert isinstance(first, Hello)
        assert first.engine.run == "run-1"
        key = peer.read()
        assert isinstance(key, Keyframe)
        engine.work(5)
        assert _seqs(peer.until(_last(key.seq + 5))) == [key.seq + n for n in range(1, 6)]


def test_joining_late_needs_nothing_from_the_engine(folder: Path) -> None:
    publisher = Publisher(hello(), folder)
    publisher.start()
    try:
        publisher.publish_keyframe(keyframe(0))
        for seq in range(1, 4):
            publisher.publish(frame(seq))
        # From here on the engine is busy with something else and calls nothing at all.
        with Peer(folder / "toy.sock") as peer:
            messages = peer.until(_last(3))
        assert [type(m) for m in messages[:2]] == [Hello, Keyframe]
        assert _seqs(messages) == [1, 2, 3]
        assert not publisher.keyframe_due()
    finally:
        publisher.stop("done")


def test_the_first_viewer_of_an_engine_without_a_keyframe_gets_one_made(folder: Path) -> None:
    publisher = Publisher(hello(), folder, keyframe_every=1e9)
    publisher.start()
    try:
        assert publisher.keyframe_due()
        publisher.publish_keyframe(keyframe(0))
        assert not publisher.keyframe_due()
        for seq in range(1, 601):  # more than the ring holds
            publisher.publish(frame(seq))
        with Peer(folder / "toy.sock") as peer:
            assert isinstance(peer.read(), Hello)
            wait_until(publisher.keyframe_due, "the viewer's wish to reach the engine")
            publisher.publish_keyframe(keyframe(600))
            assert isinstance(message := peer.read(), Keyframe)
            assert message.seq == 600
    finally:
        publisher.stop("done")


def test_viewers_come_and_go_and_each_gets_the_same(folder: Path) -> None:
    with running(folder) as engine:
        with contextlib.ExitStack() as stack:
            peers = [stack.enter_context(Peer(folder / "toy.sock")) for _ in range(5)]
            for peer in peers:
                peer.of(Keyframe)
            assert engine.publisher.viewers == 5
            engine.work(20)
            folds = []
            for peer in peers:
                folds.append(Fold())
                folds[-1].seq = 0
                for message in peer.until(_last(20)):
                    folds[-1].apply(message)
            assert [fold.seq for fold in folds] == [20] * 5
            assert [fold.events for fold in folds] == [list(range(1, 21))] * 5
        wait_until(lambda: engine.publisher.viewers == 0, "the engine to notice that all are gone")


def test_a_rate_merges_frames(folder: Path) -> None:
    with running(folder) as engine, Peer(folder / "toy.sock") as peer:
        peer.send({"type": "hello", "protocol": "1.0", "fps": 5})
        peer.of(Keyframe)
        engine.work(200)
        frames = [m for m in peer.until(_last(200)) if isinstance(m, IterationFrame)]
        assert sum(m.merged for m in frames) == 200
        assert len(frames) < 100
        assert [e.id for m in frames for e in m.events] == list(range(1, 201))


@contextmanager
def answered(publisher: Publisher, made: Keyframe) -> Iterator[None]:
    """An engine that makes the keyframe that is asked for, whenever that is: while a viewer waits for it, too."""
    done = threading.Event()

    def answer() -> None:
        while not done.wait(0.01):
            if publisher.keyframe_due():
                publisher.publish_keyframe(made)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_a_stalled_viewer_costs_the_engine_nothing_and_loses_no_event(folder: Path) -> None:
    publisher = Publisher(hello(), folder, ring=64, keyframe_every=1e9)
    publisher.start()
    try:
        publisher.publish_keyframe(keyframe(0))
        with Peer(folder / "toy.sock") as stalled, Peer(folder / "toy.sock") as brisk:
            stalled.of(Keyframe)
            brisk.of(Keyframe)
            brisk_fold = Fold(seq=0)
            detail = "x" * 900
            for seq in range(1, 3001):
                publisher.publish(frame(seq, event(seq).model_copy(update={"detail": detail})))
                # The brisk one reads as it comes, the stalled one not at all. So often that the other, served a turn later,
                # cannot fall out of the ring before its socket is full.
                if seq % 16 == 0:
                    for message in brisk.until(_last(seq)):
                        brisk_fold.apply(message)
            for message in brisk.until(_last(3000)) if brisk_fold.seq != 3000 else []:
                brisk_fold.apply(message)
            assert brisk_fold.events == list(range(1, 3001))
            assert not publisher.keyframe_due(), "a viewer that does not read asks nothing of the engine"

            fold = Fold(seq=0)
            gaps = 0
            with answered(publisher, keyframe(3000)):
                while fold.seq != 3000:
                    message = stalled.read()
                    if isinstance(message, Gap):
                        gaps += 1
                    fold.apply(message)
            assert gaps == 1
            assert fold.events_lost == 0
            assert fold.events == list(range(1, 3001))
    finally:
        publisher.stop("done")


def test_a_stalled_viewer_within_the_ring_gets_what_it_missed_merged(folder: Path) -> None:
    publisher = Publisher(hello(), folder, ring=4096)
    publisher.start()
    try:
        publisher.publish_keyframe(keyframe(0))
        with Peer(folder / "toy.sock") as peer:
            peer.of(Keyframe)
            for seq in range(1, 4001):
                publisher.publish(frame(seq, event(seq).model_copy(update={"detail": "x" * 900})))
            before = -1
            while before != (before := peer.waiting_bytes()):  # until nothing more fits into the socket
                time.sleep(0.1)
            messages = peer.until(_last(4000))
            frames = [m for m in messages if isinstance(m, IterationFrame)]
            assert len(messages) == len(frames), "no gap, no keyframe"
            assert sum(m.merged for m in frames) == 4000
            assert max(m.merged for m in frames) > 1000
            assert [e.id for m in frames for e in m.events] == list(range(1, 4001))
    finally:
        publisher.stop("done")


def test_a_keyframe_on_request_for_this_viewer_only(folder: Path) -> None:
    with (
        running(folder, keyframe_every=1e9) as engine,
        Peer(folder / "toy.sock") as one,
        Peer(folder / "toy.sock") as two,
    ):
        one.of(Keyframe)
        two.of(Keyframe)
        one.send({"type": "keyframe"})
        assert isinstance(one.read(), Keyframe)
        engine.work(1)
        assert isinstance(two.read(), IterationFrame)


def test_a_keyframe_by_command_is_for_every_viewer(folder: Path) -> None:
    with running(folder, keyframe_every=1e9), Peer(folder / "toy.sock") as one, Peer(folder / "toy.sock") as two:
        one.of(Keyframe)
        two.of(Keyframe)
        with Peer(folder / "toy.ctl.sock") as controller:
            controller.send({"type": "keyframe", "id": "k"})
            assert controller.until(lambda m: m.type == "reply")[-1].id == "k"
        assert isinstance(one.read(), Keyframe)
        assert isinstance(two.read(), Keyframe)


def test_the_last_frames_and_a_goodbye_come_before_the_end(folder: Path) -> None:
    publisher = Publisher(hello(), folder)
    publisher.start()
    publisher.publish_keyframe(keyframe(0))
    with Peer(folder / "toy.sock") as peer:
        peer.of(Keyframe)
        publisher.publish(frame(1))
        publisher.stop("maintenance")
        assert _seqs([message := peer.read()]) == [1]
        assert isinstance(message, IterationFrame)
        assert peer.read() == Bye(reason="maintenance")
        assert peer.ended()


def test_a_viewer_that_closes_its_writing_half_still_watches(folder: Path) -> None:
    with running(folder) as engine, Peer(folder / "toy.sock") as peer:
        peer.of(Keyframe)
        peer.sock.shutdown(socket.SHUT_WR)
        engine.work(3)
        assert _seqs(peer.until(_last(3))) == [1, 2, 3]


def test_more_viewers_than_there_is_room_for_are_told(folder: Path) -> None:
    with running(folder), contextlib.ExitStack() as stack:
        for _ in range(MAX_VIEWERS):
            stack.enter_context(Peer(folder / "toy.sock")).read()
        with Peer(folder / "toy.sock") as late:
            fault = late.read()
            assert isinstance(fault, Fault)
            assert (fault.code, fault.fatal) == ("busy", True)
            assert late.ended()


def test_nobody_watching_means_nothing_encoded(folder: Path, monkeypatch) -> None:
    encoded: list[object] = []
    monkeypatch.setattr("kvtop.publish.ring.encode", lambda made: encoded.append(made) or b"{}\n")
    with running(folder) as engine:
        engine.work(50)
        time.sleep(0.05)
    assert encoded == []


def test_a_frame_that_cannot_be_encoded_ends_its_viewers_and_not_the_server(folder: Path) -> None:
    publisher = Publisher(hello(), folder)
    publisher.start()
    try:
        publisher.publish_keyframe(keyframe(0))
        broken = frame(1).model_copy(update={"events": [Event.model_construct(id=object())]})
        with Peer(folder / "toy.sock") as peer:
            peer.of(Keyframe)
            publisher.publish(broken)
            fault = peer.of(Fault)
            assert (fault.code, fault.fatal) == ("internal", True)
        publisher.publish_keyframe(keyframe(1))
        with Peer(folder / "toy.sock") as peer:
            assert isinstance(peer.of(Keyframe), Keyframe)
    finally:
        publisher.stop("done")
