"""Whatever comes in on either socket gets a clear answer and hurts nobody."""

import json
import socket
from pathlib import Path

import pytest

from kvtop.protocol import MAX_COMMAND_BYTES, Fault, Hello, IterationFrame, Keyframe, Reply
from kvtop.publish.peer import MAX_FAULTS
from tests.publish.kit import FakeEngine, Peer, running

SOCKETS = ("toy.sock", "toy.ctl.sock")

UNUSABLE = {
    "garbage": (b"\x00\x01garbage\n", "bad_line", "line 1: not JSON"),
    "http": (b"GET / HTTP/1.1\n", "bad_line", "line 1: not JSON"),
    "not an object": (b"[1,2]\n", "bad_line", "line 1: expected a JSON object, found list"),
    "no type": (b'{"id":"1"}\n', "bad_line", "line 1: no field 'type'"),
    "type of a wrong type": (b'{"type":7}\n', "bad_line", "line 1: no field 'type'"),
    "unknown type": (b'{"type":"reboot","id":"1"}\n', "unknown_type", "line 1: "),
    "an engine's line": (b'{"type":"bye"}\n', "unknown_type", "line 1: "),
    "no id": (b'{"type":"pause"}\n', "bad_line", "line 1: pause.id: Field required"),
    "empty id": (b'{"type":"pause","id":""}\n', "bad_line", "line 1: pause.id: String should have at least 1"),
    "long id": (b'{"type":"pause","id":"' + b"i" * 65 + b'"}\n', "bad_line", "line 1: pause.id: "),
    "not a number": (b'{"type":"set_policy","id":"1","changes":{"a":NaN}}\n', "bad_line", "set_policy.changes.a"),
    "infinite rate": (b'{"type":"hello","fps":Infinity}\n', "bad_line", "line 1: hello.fps: "),
    "rate of zero": (b'{"type":"hello","fps":0}\n', "bad_line", "line 1: hello.fps: "),
    "invalid UTF-8": (b'{"type":"pause","id":"\xff\xfe"}\n', "bad_line", "line 1: not JSON"),
    "half a surrogate": (b'{"type":"pause","id":"\\ud800"}\n', "bad_line", "line 1: not JSON"),
    "deep nesting": (b"[" * 60_000 + b"\n", "bad_line", "recursion limit"),
    "deep nesting inside": (b'{"type":"pause","id":"1","x":' + b'{"a":' * 9000 + b"\n", "bad_line", "recursion limit"),
    "huge number": (b'{"type":"abort","id":"1","request":' + b"9" * 60_000 + b"}\n", "bad_line", "out of range"),
    "long key in the message": (
        b'{"type":"set_policy","id":"1","changes":{"' + b"k" * 60_000 + b'":[]}}\n',
        "bad_line",
        "set_policy.changes.kkk",
    ),
    "too long": (b"x" * (MAX_COMMAND_BYTES + 1) + b"\n", "line_too_long", "line 1: a line is longer than 65536 bytes"),
    "much too long": (b"x" * 1_000_000 + b"\n", "line_too_long", "line 1: a line is longer than 65536 bytes"),
    "version nonsense": (b'{"type":"hello","protocol":"new"}\n', "version", "'new' is not MAJOR.MINOR"),
    "version of old": (b'{"type":"hello","protocol":"0.9"}\n', "version", "speaks protocol 0.9, this side speaks 1."),
    "version to come": (b'{"type":"hello","protocol":"2.0"}\n', "version", "use the same kvtop version"),
}

COMMANDS_OF_NO_USE = {"unknown type", "not a number", "long key in the message"}
"""Those that bear an id: whoever sent them waits for a reply, and gets a refusal on the control socket."""


def _alive(folder: Path, engine: FakeEngine, watcher: Peer) -> None:
    """The engine still works, a viewer that was there sees it, and a newcomer is welcome on both sockets."""
    before = engine.seq
    engine.work(3)
    watcher.until(lambda m: isinstance(m, IterationFrame) and m.seq == before + 3)
    with Peer(folder / "toy.sock") as viewer:
        viewer.of(Keyframe)
    with Peer(folder / "toy.ctl.sock") as controller:
        controller.send({"type": "pause", "id": "alive"})
        assert controller.of(Reply).id == "alive"


@pytest.mark.parametrize("which", SOCKETS)
def test_unusable_lines_are_answered_with_code_and_place_and_hurt_nobody(folder: Path, which: str) -> None:
    with running(folder) as engine, Peer(folder / "toy.sock") as watcher:
        watcher.of(Keyframe)
        for name, (line, code, words) in UNUSABLE.items():
            with Peer(folder / which) as peer:
                peer.raw(line)
                if which == "toy.ctl.sock" and name in COMMANDS_OF_NO_USE:
                    reply = peer.of(Reply)
                    assert (reply.id, reply.ok) == ("1", False), name
                    assert words.removeprefix("line 1: ") in reply.message, name
                    peer.send({"type": "pause", "id": "2"})
                    assert peer.of(Reply).id == "2", "the same connection goes on"
                    continue
                fault = peer.of(Fault)
                assert fault.code == code, name
                assert words in fault.message, name
                assert "\n" not in fault.message
                assert fault.fatal == (code == "version"), name
                if fault.fatal:
                    assert peer.ended()
                else:  # the same connection goes on
                    peer.send({"type": "reboot"})
                    assert peer.of(Fault).message.startswith("line 2: "), name
        _alive(folder, engine, watcher)


@pytest.mark.parametrize("which", SOCKETS)
def test_half_a_line_and_then_silence_blocks_nobody(folder: Path, which: str) -> None:
    with running(folder) as engine, Peer(folder / "toy.sock") as watcher, Peer(folder / which) as peer:
        watcher.of(Keyframe)
        peer.raw(b'{"type":"keyframe","id"')
        _alive(folder, engine, watcher)
        peer.raw(b':"late"}\n')
        peer.of(Keyframe if which == "toy.sock" else Reply)


@pytest.mark.parametrize("which", SOCKETS)
def test_half_a_line_and_then_the_end_is_named(folder: Path, which: str) -> None:
    with running(folder), Peer(folder / which) as peer:
        peer.send({"type": "keyframe", "id": "k"})
        peer.raw(b'{"type":"pau')
        peer.sock.shutdown(socket.SHUT_WR)
        assert peer.of(Fault).message == "line 2: ended after 12 bytes without a newline"


@pytest.mark.parametrize("which", SOCKETS)
def test_a_flood_of_garbage_ends_after_a_number_of_faults(folder: Path, which: str) -> None:
    with running(folder) as engine, Peer(folder / "toy.sock") as watcher, Peer(folder / which) as peer:
        watcher.of(Keyframe)
        peer.raw(b"?\n" * (MAX_FAULTS + 10))
        faults = [peer.of(Fault) for _ in range(MAX_FAULTS)]
        assert [fault.fatal for fault in faults] == [False] * (MAX_FAULTS - 1) + [True]
        assert "goodbye" in faults[-1].message
        assert peer.ended()
        _alive(folder, engine, watcher)


@pytest.mark.parametrize("which", SOCKETS)
def test_garbage_without_reading_the_answers_is_held_back(folder: Path, which: str) -> None:
    with running(folder) as engine, Peer(folder / "toy.sock") as watcher, Peer(folder / which) as peer:
        watcher.of(Keyframe)
        peer.sock.setblocking(False)
        try:
            for _ in range(5000):
                peer.sock.send(b"?" * 1000 + b"\n")
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass
        _alive(folder, engine, watcher)


def test_an_empty_line_is_nothing(folder: Path) -> None:
    with running(folder), Peer(folder / "toy.ctl.sock") as peer:
        peer.raw(b"\n \n\r\n" + json.dumps({"type": "pause", "id": "a"}).encode() + b"\r\n")
        assert isinstance(peer.read(), Hello)
        assert isinstance(peer.read(), Reply)


@pytest.mark.parametrize("kind", ["set_policy", "abort", "preempt", "pause", "resume", "reset_prefix_cache"])
def test_commands_do_nothing_on_the_observing_socket(folder: Path, kind: str) -> None:
    more = {"set_policy": {"changes": {"queue": "fcfs"}}, "abort": {"request": 1}, "preempt": {"request": 1}}
    with running(folder) as engine, Peer(folder / "toy.sock") as peer:
        peer.send({"type": kind, "id": "1", **more.get(kind, {})})
        fault = peer.of(Fault)
        assert (fault.code, fault.fatal) == ("not_here", False)
        assert "control socket" in fault.message
        assert engine.asked == []


@pytest.mark.parametrize("which", SOCKETS)
def test_connecting_and_leaving_at_once_many_times(folder: Path, which: str) -> None:
    with running(folder) as engine, Peer(folder / "toy.sock") as watcher:
        watcher.of(Keyframe)
        for _ in range(200):
            with Peer(folder / which) as peer:
                peer.raw(b"{")
        _alive(folder, engine, watcher)
