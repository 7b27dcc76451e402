"""The recorder beside a source: whatever the disk does, reading goes on; what was left out is marked."""

import threading
from collections.abc import Sequence
from pathlib import Path

from kvtop.protocol import Gap, IterationFrame, RequestChange, encode
from kvtop.record import FileSink, Packed, Recording
from kvtop.sources.recorder import Recorder
from kvtop.sources.socket import SocketSource
from kvtop.state.moment import moment
from tests.publish.kit import frame, hello, keyframe, running, wait_until
from tests.recordings.kit import told


class StuckSink(FileSink):
    """A disk that hangs until it is let go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, forced=False)
        self.free = threading.Event()
        self.reached = threading.Event()

    def append(self, chunks: Sequence[Packed]) -> None:
        self.reached.set()
        assert self.free.wait(30.0)
        super().append(chunks)


def test_a_disk_that_hangs_holds_nobody_up_and_what_is_left_out_is_marked(tmp_path: Path) -> None:
    sink, said = StuckSink(tmp_path / "a.kvtop"), told()
    recorder = Recorder(sink, max_waiting=100_000)
    for line, what in said[:40]:
        recorder.take(line, what)
    recorder.take(*said[0])  # a hello closes the chunk, and the disk hangs
    assert sink.reached.wait(30.0)
    for line, what in said[1:]:
        recorder.take(line, what)
    assert recorder._bytes <= 100_000
    sink.free.set()
    wait_until(lambda: not recorder._waiting, "the disk to catch up")
    for line, what in told(150)[-30:]:
        recorder.take(line, what)
    recorder.close()
    tape = Recording(sink.path)
    gaps = [each for each in tape.frames(tape.chunks[0]) if isinstance(each, Gap)]
    assert any("too slow" in gap.reason for gap in gaps)
    assert moment(tape, tape.end).trouble == ""


def test_text_is_left_out_unless_it_is_asked_for(tmp_path: Path) -> None:
    greeting = hello().model_copy(update={"capabilities": ["text"]})
    said = [greeting, keyframe(0), frame(1, requests=[RequestChange(num=1, prompt_text="secret")])]
    for keep in (False, True):
        recorder = Recorder(FileSink(tmp_path / f"{keep}.kvtop"), keep_text=keep)
        for each in said:
            recorder.take(encode(each), each)
        recorder.close()
        tape = Recording(tmp_path / f"{keep}.kvtop")
        lines = list(tape.lines(tape.chunks[0]))
        assert (b"secret" in lines[2]) == keep
        assert (b'"text"' in lines[0]) == keep


def test_a_fault_of_the_recorder_is_told_and_ends_it_alone(tmp_path: Path) -> None:
    notes: list[str] = []

    class Broken(FileSink):
        def append(self, chunks: Sequence[Packed]) -> None:
            raise RuntimeError("a mistake of ours")

    recorder = Recorder(Broken(tmp_path / "a.kvtop"), tell=notes.append)
    for line, what in told():
        recorder.take(line, what)
    wait_until(lambda: recorder.failure, "it to fail")
    recorder.take(*told()[0])
    recorder.close()
    assert "a mistake of ours" in notes[0]
    assert recorder.trouble == notes[0]


def test_a_recorded_connection_comes_back_after_the_engine_does(folder: Path, tmp_path: Path) -> None:
    recorder = Recorder(FileSink(tmp_path / "a.kvtop"))
    source = SocketSource(folder / "toy.sock", history=recorder)
    ends = []
    for run in ("run-1", "run-2"):
        with running(folder, identity={"run": run}) as engine:
            if run == "run-1":
                source.start()
            wait_until(lambda: engine.publisher.viewers, "the recorder to connect")
            engine.work(30)
            seen: list[object] = []
            wait_until(
                lambda engine=engine, seen=seen: any(
                    isinstance(item, IterationFrame) and item.seq == engine.seq
                    for item in (seen.extend(source.poll()) or seen)
                ),
                "the frames",
            )
            ends.append(engine.seq)
    source.close()
    tape = Recording(tmp_path / "a.kvtop")
    assert [span.hole for span in tape.spans()] == ["", "the engine was restarted"]
    assert [span.last.seq for span in tape.spans()] == ends
    assert [fact.kind for _, fact in tape.notable()] == ["leave", "restart", "leave"]
