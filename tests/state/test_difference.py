"""Two moments of one engine set side by side: what adds up between them, and what of another run is not compared."""

from kvtop.state import EngineState
from kvtop.state.difference import difference
from kvtop.state.freeze import frozen
from kvtop.views.difference import difference_rows
from tests.app.live_engine import LiveEngine


def after(engine: LiveEngine, state: EngineState, steps: int) -> EngineState:
    for _ in range(steps):
        state.apply(engine.step(), engine.clock.now)
    return frozen(state, engine.clock.now)


def two(steps: int) -> tuple[EngineState, EngineState]:
    engine, state = LiveEngine(arrivals=0.3), EngineState()
    state.apply(engine.hello(), 0.0)
    state.apply(engine.keyframe(), 0.0)
    return after(engine, state, 100), after(engine, state, steps)


def test_it_adds_up() -> None:
    earlier, later = two(150)
    told = difference(earlier, later)
    assert earlier.blocks is not None
    assert later.blocks is not None
    assert told.iterations == later.iteration - earlier.iteration  # type: ignore[operator]
    assert told.owners == sum(a != b for a, b in zip(earlier.blocks.owner, later.blocks.owner, strict=True))
    assert sum(f.after - f.before for f in told.states) == 0  # type: ignore[operator,misc]
    done = dict(told.done)
    assert done["preemptions"] == sum(cost.preemptions for cost in told.preempted)
    assert [cost.preemptions for cost in told.preempted] == sorted(
        (c.preemptions for c in told.preempted), reverse=True
    )
    assert {row.num for row in told.arrived} == set(later.requests or ()) - set(earlier.requests or ())


def test_a_moment_is_no_different_from_itself() -> None:
    _, state = two(1)
    told = difference(state, state)
    assert not any((told.done, told.policies, told.arrived, told.gone, told.moved, told.preempted, told.owners))
    assert all(figure.before == figure.after for figure in [*told.levels, *told.states])
    assert "the same in both" in "".join(row.text for row in difference_rows(told, 80))


def test_nothing_of_another_run_is_compared_but_what_both_tell_of_themselves() -> None:
    earlier, _ = two(5)
    engine, other = LiveEngine(run="run-2"), EngineState()
    other.apply(engine.hello(), 0.0)
    other.apply(engine.keyframe(), 0.0)
    told = difference(earlier, other)
    assert not told.same_run
    assert (told.seconds, told.iterations, told.owners, told.arrived, told.gone) == (None, None, None, [], [])
    assert "restarted in between" in "".join(row.text for row in difference_rows(told, 100))


def test_rows_keep_their_width_whatever_is_told() -> None:
    told = difference(*two(150))
    for width in (20, 60, 80, 200):
        assert {len(row.text) for row in difference_rows(told, width)} == {width}
