"""The viewer's end of the observing socket, against our publisher and against engines that misbehave."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kvtop.protocol import Bye, Fault, Gap, Hello, IterationFrame, Keyframe
from kvtop.sources import socket as socket_source
from kvtop.sources.base import LinkDown, LinkUp, Source, Unusable
from kvtop.sources.socket import SocketSource
from tests.publish.kit import event, frame, hello, keyframe, running, wait_until
from tests.sources.kit import Collected, Line, Scripted

Open = Callable[..., Collected]


@pytest.fixture
def attach(folder: Path) -> Iterator[Open]:
    sources: list[SocketSource] = []

    def open_source(fps: float | None = None) -> Collected:
        source: Source = SocketSource(folder / "toy.sock", fps)
        assert isinstance(source, SocketSource)
        sources.append(source)
        source.start()
        return Collected(source)

    yield open_source
    for source in sources:
        source.close()
        assert not source._thread.is_alive()


@pytest.fixture
def scripted(folder: Path) -> Iterator[Callable[..., Scripted]]:
    made: list[Scripted] = []

    def script(*scripts: Callable[[Line], None]) -> Scripted:
        made.append(Scripted(folder / "toy.sock", *scripts))
        return made[-1]

    yield script
    for one in made:
        one.close()


def _kinds(items: Sequence[object]) -> list[str]:
    return [type(item).__name__ for item in items]


def test_up_hello_keyframe_and_every_frame(folder: Path, attach: Open) -> None:
    with running(folder) as engine:
        seen = attach()
        seen.until(lambda items: any(isinstance(item, Keyframe) for item in items))
        engine.work(50)
        items = seen.until(lambda items: isinstance(items[-1], IterationFrame) and items[-1].seq == 50)
    assert _kinds(items[:3]) == ["LinkUp", "Hello", "Keyframe"]
    assert [e.id for item in items if isinstance(item, IterationFrame) for e in item.events] == list(range(1, 51))


def test_a_rate_is_passed_on(folder: Path, attach: Open) -> None:
    with running(folder) as engine:
        seen = attach(fps=5.0)
        seen.until(lambda items: any(isinstance(item, Keyframe) for item in items))
        engine.work(300)
        items = seen.until(lambda items: isinstance(items[-1], IterationFrame) and items[-1].seq == 300)
    frames = [item for item in items if isinstance(item, IterationFrame)]
    assert sum(item.merged for item in frames) == 300
    assert len(frames) < 150


def test_a_new_rate_is_told_at_once_and_to_the_next_connection(attach: Open, scripted: Callable[..., Scripted]) -> None:
    heard: list[object] = []

    def listen(line: Line) -> None:
        heard.append(json.loads(line.hear()).get("fps"))
        line.say(hello(), keyframe(0))
        if len(heard) == 1:
            heard.append(json.loads(line.hear()).get("fps"))

    scripted(listen, listen)
    seen = attach()
    seen.until(lambda items: any(isinstance(item, Keyframe) for item in items))
    seen.source.pace(1.0)
    wait_until(lambda: len(heard) == 3, f"three hellos, so far of {heard}")
    assert heard == [None, 1.0, 1.0]


def test_a_keyframe_on_request(folder: Path, attach: Open) -> None:
    with running(folder, keyframe_every=1e9):
        seen = attach()
        seen.until(lambda items: any(isinstance(item, Keyframe) for item in items))
        seen.source.request_keyframe()
        seen.until(lambda items: sum(isinstance(item, Keyframe) for item in items) == 2)


def test_a_screen_that_does_not_look_for_a_while_recovers_with_all_events(
    folder: Path, attach: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_source, "Inbox", lambda: Inbox(max_items=16))
    from kvtop.sources.inbox import Inbox

    with running(folder) as engine:
        seen = attach()
        seen.until(lambda items: any(isinstance(item, Keyframe) for item in items))
        engine.work(200)
        items = seen.until(
            lambda items: (
                any(isinstance(item, (IterationFrame, Keyframe)) and item.seq == 200 for item in items)
                and {e.id for item in items if isinstance(item, (IterationFrame, Gap)) for e in item.events}
                == set(range(1, 201))
            )
        )
    assert any(isinstance(item, Gap) for item in items)


def test_the_engines_goodbye_is_the_reason_and_it_is_told_once(folder: Path, attach: Open) -> None:
    with running(folder):
        seen = attach()
        seen.until(lambda items: any(isinstance(item, Keyframe) for item in items))
    items = seen.until(lambda items: any(isinstance(item, LinkDown) for item in items))
    assert items[-2:] == [Bye(reason="test over"), LinkDown("the engine left: test over", True)]
    with running(folder, identity={"run": "run-2"}):
        items = seen.until(lambda items: isinstance(items[-1], Keyframe) and _kinds(items).count("Hello") == 2)
    assert _kinds(items).count("LinkDown") == 1, "retries that fail are no new outage"
    assert [item.engine.run for item in items if isinstance(item, Hello)] == ["run-1", "run-2"]


def test_an_engine_that_is_not_there_yet_is_waited_for(folder: Path, attach: Open) -> None:
    seen = attach()
    assert "no such socket" in seen.down().reason
    assert seen.down().retrying
    with running(folder):
        items = seen.until(lambda items: any(isinstance(item, Keyframe) for item in items))
    assert _kinds(items) == ["LinkDown", "LinkUp", "Hello", "Keyframe"]


def test_a_stale_socket_is_named_so(folder: Path, attach: Open, scripted: Callable[..., Scripted]) -> None:
    scripted()._listener.close()
    assert "nobody is listening" in attach().down().reason


BROKEN: dict[str, tuple[bytes, str]] = {
    "garbage": (b"garbage\n", "line 1: not JSON"),
    "no hello": (b'{"type":"bye"}\n', "line 1: not a hello"),
    "half a hello": (b'{"type":"hel', "in the middle of line 1 (after 12 bytes)"),
    "nothing": (b"", "without a goodbye"),
    "incomplete hello": (b'{"type":"hello"}\n', "line 1: hello.engine: Field required"),
    "busy": (b'{"type":"fault","code":"busy","message":"64 viewers","fatal":true}\n', "the engine refused: 64 viewers"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_beginning_that_is_none(attach: Open, scripted: Callable[..., Scripted], case: str) -> None:
    sent, words = BROKEN[case]
    scripted(lambda line: line.sock.sendall(sent))
    down = attach().down()
    assert words in down.reason
    assert down.retrying


OF_NO_USE: dict[str, tuple[bytes, str]] = {
    "garbage": (b"\xff\xfe\n", "line 3: not JSON"),
    "a wrong field": (b'{"type":"iteration","seq":-1,"iteration":1,"wall":1,"mono":1}\n', "line 3: iteration.seq: "),
    "not a number": (
        b'{"type":"iteration","seq":1,"iteration":1,"wall":NaN,"mono":1}\n',
        "line 3: iteration.wall: Input should be a finite number",
    ),
    "deep": (b"[" * 100_000 + b"\n", "recursion limit"),
    "too long": (b"x" * 300_000 + b"\n", "line 3: a line is longer than 200000 bytes"),
}


@pytest.mark.parametrize("case", OF_NO_USE)
def test_a_line_that_is_of_no_use_is_told_with_its_place_and_costs_nothing_else(
    attach: Open, scripted: Callable[..., Scripted], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(socket_source, "MAX_FRAME_BYTES", 200_000)
    monkeypatch.setattr(socket_source, "ASK_AGAIN", 0.01)
    sent, words = OF_NO_USE[case]
    heard: list[bytes] = []

    def script(line: Line) -> None:
        line.say(hello(), keyframe(0))
        line.sock.sendall(sent)
        line.say(frame(1))
        heard.extend([line.hear(), line.hear()])
        line.until_closed()

    scripted(script)
    items = attach().until(lambda items: isinstance(items[-1], IterationFrame))
    assert _kinds(items) == ["LinkUp", "Hello", "Keyframe", "Unusable", "IterationFrame"]
    (unusable,) = [item for item in items if isinstance(item, Unusable)]
    assert words in unusable.note
    wait_until(lambda: len(heard) == 2, "a keyframe to be asked for, in case it was one")
    assert b'"keyframe"' in heard[1]


def test_a_stream_that_is_none_of_an_engine_is_given_up(attach: Open, scripted: Callable[..., Scripted]) -> None:
    def script(line: Line) -> None:
        line.say(hello(), keyframe(0))
        line.sock.sendall(b"HTTP/1.1 400 Bad Request\n" * socket_source.MAX_UNUSABLE)
        line.until_closed()

    scripted(script)
    assert "line 102: not JSON" in attach().down().reason


def test_coming_back_takes_longer_each_time_though_the_hello_succeeds(
    attach: Open, scripted: Callable[..., Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_source, "FIRST_RETRY", 0.01)
    scripted(*[lambda line: line.say(hello(), keyframe(0))] * 4)
    seen = attach()
    seen.down(4)
    assert seen.source._retry >= 8 * socket_source.FIRST_RETRY


AFTER_HELLO: dict[str, tuple[bytes, str]] = {
    "half a line": (b'{"type":"iter', "in the middle of line 3 (after 13 bytes)"),
    "escapes": (
        b'{"type":"fault","code":"internal","message":"\\u001b[2Jgone\\n","fatal":true}\n',
        "ended the connection: ?[2Jgone?",
    ),
    "sent away": (b'{"type":"fault","code":"internal","message":"oops","fatal":true}\n', "ended the connection: oops"),
}


@pytest.mark.parametrize("case", AFTER_HELLO)
def test_what_ends_the_link_is_told_with_its_place(attach: Open, scripted: Callable[..., Scripted], case: str) -> None:
    sent, words = AFTER_HELLO[case]

    def script(line: Line) -> None:
        line.say(hello(), keyframe(0))
        line.sock.sendall(sent)

    scripted(script)
    seen = attach()
    assert words in seen.down().reason
    assert _kinds(seen.items) == ["LinkUp", "Hello", "Keyframe", "LinkDown"]


@pytest.mark.parametrize("version", ["0.9", "2.0", "new"])
def test_another_major_version_is_final(attach: Open, scripted: Callable[..., Scripted], version: str) -> None:
    scripted(lambda line: line.say(hello().model_copy(update={"protocol": version})))
    seen = attach()
    down = seen.down()
    assert not down.retrying
    assert version in down.reason
    wait_until(lambda: not seen.source._thread.is_alive(), "the source to give up")


def test_a_newer_minor_version_and_unknown_lines_are_fine(attach: Open, scripted: Callable[..., Scripted]) -> None:
    def script(line: Line) -> None:
        line.say(hello().model_copy(update={"protocol": "1.99"}))
        line.sock.sendall(b'{"type":"novelty","x":1}\n')
        line.sock.sendall(
            b'{"type":"keyframe","seq":0,"iteration":0,"wall":0,"mono":0,"new":1,"status":{"state":"x"}}\n'
        )
        line.until_closed()

    scripted(script)
    items = attach().until(lambda items: any(isinstance(item, Keyframe) for item in items))
    assert _kinds(items) == ["LinkUp", "Hello", "Keyframe"]


def test_a_hole_makes_it_ask_for_a_keyframe(attach: Open, scripted: Callable[..., Scripted]) -> None:
    heard: list[bytes] = []

    def script(line: Line) -> None:
        line.say(hello(), keyframe(0), frame(1), frame(3, event(9)), frame(4))
        heard.extend([line.hear(), line.hear()])
        line.say(keyframe(4), frame(5))
        line.until_closed()

    scripted(script)
    items = attach().until(lambda items: isinstance(items[-1], IterationFrame) and items[-1].seq == 5)
    assert _kinds(items[2:]) == ["Keyframe", "IterationFrame", "Gap", "Keyframe", "IterationFrame"]
    assert b'"hello"' in heard[0]
    assert b'"keyframe"' in heard[1]


def test_a_warning_is_passed_on_and_the_link_stays(attach: Open, scripted: Callable[..., Scripted]) -> None:
    def script(line: Line) -> None:
        line.say(hello(), Fault(code="bad_line", message="what?"), keyframe(0))
        line.until_closed()

    scripted(script)
    items = attach().until(lambda items: any(isinstance(item, Keyframe) for item in items))
    assert _kinds(items) == ["LinkUp", "Hello", "Fault", "Keyframe"]


def test_every_new_outage_is_told_again(attach: Open, scripted: Callable[..., Scripted]) -> None:
    scripted(*[lambda line: line.say(hello(), keyframe(0))] * 2)
    seen = attach()
    seen.down(2)
    assert _kinds(seen.items)[:8] == ["LinkUp", "Hello", "Keyframe", "LinkDown"] * 2
    assert LinkUp() in seen.items


def test_an_engine_that_hangs_before_its_hello_is_found_out(
    attach: Open, scripted: Callable[..., Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_source, "HELLO_SECONDS", 0.05)
    scripted(Line.until_closed)
    assert "no hello within" in attach().down().reason


def test_closing_is_possible_at_any_time(folder: Path, scripted: Callable[..., Scripted]) -> None:
    SocketSource(folder / "toy.sock").close()
    scripted(Line.until_closed)
    source = SocketSource(folder / "toy.sock")
    source.start()
    source.close()
    source.close()
    source.request_keyframe()
    assert source.poll() == []
    assert "kvtop-source" not in {thread.name for thread in threading.enumerate()}
