"""A held view keeps its numbers while the engine goes on."""

from kvtop.state.engine_state import EngineState
from kvtop.state.freeze import frozen
from tests.app.live_engine import LiveEngine


def test_a_frozen_state_stands_still_while_the_live_one_goes_on() -> None:
    engine = LiveEngine()
    state = EngineState()
    state.apply(engine.hello(), 0.0)
    state.apply(engine.keyframe(), 0.0)
    for i in range(200):
        state.apply(engine.step(), i * 0.05)
    now = 199 * 0.05
    still = frozen(state, now)
    counts, events, iteration = still.counts(), list(still.events), still.iteration
    tables = {num: list(row.table) for num, row in (still.requests or {}).items()}
    mono = still.mono_now(now)
    for i in range(200, 500):
        state.apply(engine.step(), i * 0.05)
    assert state.counts() != counts
    assert still.counts() == counts
    assert list(still.events) == events
    assert still.iteration == iteration
    assert {num: row.table for num, row in (still.requests or {}).items()} == tables
    assert still.mono_now(now + 60.0) == mono
