"""The flight recorder of an engine that nobody watches: what it holds is true, and it goes to a file when it matters."""

import random
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.serving.broadcast import RECORDED_EVERY_S
from engine.serving.server import EngineFailed
from engine.serving.watchdog import Limits, Watchdog
from kvtop.protocol import IterationFrame, decode_frame, encode
from kvtop.protocol.commands import Dump
from kvtop.publish import FlightLimits
from kvtop.record import Recording
from kvtop.state import EngineState
from kvtop.state.moment import moment
from tests.app.live_engine import LiveEngine
from tests.engine.running import RunningEngine


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "kvtop" / "flight"


@pytest.fixture
def engine(folder: Path, state_home: Path) -> Iterator[RunningEngine]:
    running = RunningEngine(folder, FlightLimits())
    yield running
    running.close()


def shown(state: EngineState) -> tuple[object, ...]:
    rows = {
        row.num: (row.state, row.computed_tokens, row.output_tokens, list(row.table)) for row in state.requests.values()
    }
    runs = None if state.blocks is None else [column.tolist() for column in (state.blocks.owner, state.blocks.refs)]
    return state.iteration, state.counts(), state.gauges, state.counters, rows, runs


@pytest.mark.parametrize("seed", range(4))
def test_frames_of_many_iterations_tell_what_single_ones_do(seed: int) -> None:
    single, merged, chance = EngineState(), EngineState(), random.Random(seed)
    one, other = (LiveEngine(seed=seed, tiers={"host": 60} if seed % 2 else None) for _ in range(2))
    for state, engine in ((single, one), (merged, other)):
        state.apply(engine.hello(), 0.0)
        state.apply(engine.keyframe(), 0.0)
    durations, seen = [0.0, 0.0], 0
    for _ in range(250):
        frame = one.step()
        single.apply(frame, 0.0)
        durations[0] += frame.durations.forward
        later = other.turn()
        if later is not None and chance.random() < 0.8:
            other.telemetry.hold_back(later)
            continue
        told = decode_frame(encode(other.telemetry.frame(later)))
        assert isinstance(told, IterationFrame)
        merged.apply(told, 0.0)
        durations[1] += told.durations.forward
        seen += 1
        assert not merged.resync
        assert shown(merged) == shown(single)
        assert durations[1] == pytest.approx(durations[0])
        assert [e for e in merged.events if hasattr(e, "id")] == [e for e in single.events if hasattr(e, "id")]
    assert 20 < seen < 120


def test_a_command_writes_what_has_happened_though_nobody_watched(engine: RunningEngine, state_home: Path) -> None:
    engine.until(lambda: engine.engine.iteration > 60)
    before = engine.engine.iteration
    reply = engine.ask(Dump(id="1"))
    assert reply.ok, reply.message
    path = Path(reply.message.removeprefix("written: ").rpartition(" (")[0])
    assert path.parent == state_home
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(state_home.stat().st_mode) == 0o700
    tape = Recording(path)
    found = moment(tape, tape.end)
    assert found.trouble == ""
    pace = engine.runner.seconds
    assert found.state.iteration >= before - 2 * RECORDED_EVERY_S / pace
    assert 0 < sum(found.state.counts().values()) == engine.engine.scheduler.pool.total
    merged = [frame.merged for frame in tape.frames(tape.chunks[0]) if isinstance(frame, IterationFrame)]
    assert max(merged) > 5, "an iteration costs nothing while nobody watches"
    engine.until(lambda: engine.events("dump"))
    assert str(path) in engine.events("dump")[0].detail


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_loop_that_fails_leaves_a_file_that_says_so(folder: Path, state_home: Path) -> None:
    engine = RunningEngine(folder, FlightLimits())
    engine.until(lambda: engine.engine.iteration > 30)

    def broken() -> None:
        raise RuntimeError("the sky has fallen")

    engine.engine.step = broken
    engine.thread.join(20.0)
    assert not engine.thread.is_alive()
    (path,) = state_home.iterdir()
    tape = Recording(path)
    assert moment(tape, tape.end).state.iteration >= 30
    last = tape.notable()[-1].fact
    assert (last.kind, last.level) == ("fault", "error")
    engine.close()


def test_an_alarm_writes_a_file_that_shows_it_and_the_next_does_not(
    engine: RunningEngine, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.server._watchdog = Watchdog(Limits(stall=0.05, paused=0.01))
    engine.engine.scheduler.pause()
    engine.until(lambda: engine.events("dump"))
    (path,) = state_home.iterdir()
    tape = Recording(path)
    assert "watchdog" in [fact.kind for _, fact in tape.notable()]
    assert "paused" in moment(tape, tape.end).state.status.warning
    engine.engine.scheduler.resume()
    engine.until(lambda: len(engine.events("watchdog")) >= 2)
    engine.engine.scheduler.pause()
    engine.until(lambda: len(engine.events("watchdog")) >= 3)
    iteration = engine.server.publisher.flight.memory.held()[-1].number
    engine.until(lambda: engine.server.publisher.flight.memory.held()[-1].number > iteration)
    assert len(list(state_home.iterdir())) == 1


def test_without_a_recorder_the_command_is_refused_with_the_reason(folder: Path, state_home: Path) -> None:
    engine = RunningEngine(folder, FlightLimits(minutes=0))
    engine.until(lambda: engine.engine.iteration > 5)
    reply = engine.ask(Dump(id="1"))
    assert not reply.ok
    assert "--flight-minutes 0" in reply.message
    assert engine.telemetry.passed_over, "nothing is made of iterations then"
    engine.close()
    assert not state_home.exists()


def test_a_place_that_cannot_be_written_is_told_and_the_engine_goes_on(engine: RunningEngine, state_home: Path) -> None:
    state_home.parent.mkdir()
    state_home.write_text("in the way")
    engine.until(lambda: engine.engine.iteration > 5)
    reply = engine.ask(Dump(id="1"))
    assert not reply.ok
    assert str(state_home) in reply.message
    engine.until(lambda: engine.events("dump"))
    assert engine.events("dump")[0].severity == "error"
    iteration = engine.engine.iteration
    engine.until(lambda: engine.engine.iteration > iteration)


def test_the_failure_of_the_loop_is_the_one_that_is_raised(folder: Path, state_home: Path) -> None:
    engine = RunningEngine(folder, FlightLimits())
    engine.close()
    state_home.parent.mkdir(parents=True)
    state_home.write_text("in the way")

    def broken() -> None:
        raise RuntimeError("the sky has fallen")

    engine.engine.step, engine.server.stopping = broken, False
    with pytest.raises(EngineFailed, match="the sky has fallen"):
        engine.server.run(1.0)
