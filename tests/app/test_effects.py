"""Everything that the screen can ask of an engine, asked of a real one over its sockets by key and dialog: each is judged by
what is true inside the engine afterwards, so that no command can stand for another."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.requests.request import Request, RequestState
from kvtop.app.commander import control_client
from kvtop.protocol import Abort, Pause, Pin, ResetPrefixCache, SetPolicy
from kvtop.protocol.commands import COMMANDS
from kvtop.sources.socket import SocketSource
from panels.dialogs.dialog import Dialog
from tests.app.harness import Bench, bench, in_loop
from tests.engine.running import RunningEngine

LIVES = (RequestState.PREFILL, RequestState.DECODE)


class Scene:
    """A paused engine with running, waiting and finished requests, and a screen that shows it."""

    def __init__(self, engine: RunningEngine, screen: Bench) -> None:
        self.engine, self.screen = engine, screen
        self.scheduler, self.pool = engine.engine.scheduler, engine.engine.scheduler.pool

    def running(self) -> list[Request]:
        """Those with something in the prefix cache, the largest first."""
        found = [r for r in self.scheduler.running if r.state in LIVES and r.computed_tokens > 8]
        return sorted(found, key=lambda request: -request.computed_tokens)

    async def ask(self, *keys: str) -> None:
        """Opens the dialog of a key, goes to its button and presses it; the engine has answered then."""
        await self.screen.press(*keys)
        assert isinstance(self.screen.app.screen, Dialog), self.screen.text()
        await self.screen.press("tab", "enter")
        await self.answered()

    async def answered(self) -> None:
        screen = self.screen
        await screen.until(lambda: "took effect" in screen.text("card"), 20)
        await screen.press("enter")
        await screen.until(lambda: not isinstance(screen.app.screen, Dialog))

    async def of(self, request: Request, key: str) -> None:
        """Asks what ``key`` asks of ``request``, which is selected among all."""
        self.screen.screen.requests.select(request.num)
        await self.screen.press("2")
        await self.ask(key)

    async def until(self, condition: Callable[[], object]) -> None:
        await self.screen.until(lambda: self.screen.tick_once() or condition(), 20)


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    engine = RunningEngine(folder / "s")
    try:
        scheduler = engine.engine.scheduler
        engine.until(lambda: scheduler.totals.finished > 3 and len(scheduler.running) > 2)
        engine.ask(Pause(id="0"))
        engine.runner.seconds = 0.03  # The pilot waits for a process that is at rest.
        observe, control = engine.publisher.places
        source = SocketSource(observe)
        async with bench(folder, source=source, control_path=control, connect=control_client) as screen:
            made = Scene(engine, screen)
            await made.until(lambda: screen.screen.feed.live.paused)
            assert len(made.running()) > 1
            yield made
    finally:
        engine.close()


async def _abort(s: Scene) -> None:
    victim, *others = s.running()
    await s.of(victim, "x")
    assert victim.state is RequestState.FINISHED
    assert victim.num not in s.scheduler.requests
    assert all(other in s.scheduler.running for other in others)
    assert s.engine.events("abort")[-1].request == victim.num


async def _preempt(s: Scene) -> None:
    victim, *others = s.running()
    before = victim.preemptions
    await s.of(victim, "X")
    assert victim.preemptions == before + 1
    assert victim in s.scheduler.waiting
    assert victim.block_table == []
    assert all(other in s.scheduler.running for other in others)


async def _pin(s: Scene) -> None:
    wanted = s.running()[0]
    await s.of(wanted, "I")
    assert list(s.scheduler.pins.by_name) == [wanted.id]
    assert s.pool.pinned_total > 0
    assert wanted in s.scheduler.running


async def _unpin(s: Scene) -> None:
    wanted, other = s.running()[:2]
    assert s.engine.ask(SetPolicy(id="0", changes={"pin_limit": 0.9})).ok
    for request in (wanted, other):
        assert s.engine.ask(Pin(id="1", request=request.num)).ok
    await s.of(wanted, "u")
    assert list(s.scheduler.pins.by_name) == [other.id]
    await s.of(other, "u")
    assert s.pool.pinned_total == 0


async def _pause(s: Scene) -> None:
    await _resume(s)
    await s.until(lambda: not s.screen.screen.feed.live.paused)
    await s.ask("E")
    assert s.scheduler.paused


async def _resume(s: Scene) -> None:
    stopped = s.engine.engine.iteration
    await s.ask("E")
    assert not s.scheduler.paused
    s.engine.until(lambda: s.engine.engine.iteration > stopped)


async def _reset(s: Scene) -> None:
    running = list(s.scheduler.running)
    assert any(request.chained for request in running)
    await s.ask("R")
    assert s.pool.cached_blocks == 0
    assert s.pool.changes.all_hashes() == []
    assert s.scheduler.running == running


async def _compact(s: Scene) -> None:
    # One is left, high in the pool, and there is room below it.
    assert s.engine.ask(SetPolicy(id="0", changes={"max_running": 1})).ok
    highest = max(s.scheduler.running, key=lambda request: max(request.block_table))
    for request in [r for r in s.scheduler.running if r is not highest]:
        assert s.engine.ask(Abort(id="0", request=request.num)).ok
    assert s.engine.ask(ResetPrefixCache(id="0")).ok
    await s.ask("C")
    assert s.scheduler.compaction is not None
    await s.ask("E")
    s.engine.until(lambda: s.engine.events("compact"))
    assert (s.engine.events("compact")[-1].blocks or 0) > 0


async def _policy(s: Scene) -> None:
    assert s.scheduler.policies.capacity == "max_utilization"
    await s.screen.press("P", "enter", "k", "enter")
    await s.screen.until(lambda: "what it will do" in s.screen.text("card"), 20)
    assert s.scheduler.policies.capacity == "max_utilization", "a preview changes nothing"
    await s.screen.press("tab", "enter")
    await s.answered()
    assert s.scheduler.policies.capacity == "guaranteed_no_evict"


async def _keyframe(s: Scene) -> None:
    live = s.screen.screen.feed.live
    arrived = live.arrived
    s.screen.time += 10
    s.screen.screen.feed.source.request_keyframe()
    await s.until(lambda: live.arrived != arrived)
    assert s.scheduler.paused


EFFECTS: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "set_policy": _policy,
    "abort": _abort,
    "preempt": _preempt,
    "pause": _pause,
    "resume": _resume,
    "reset_prefix_cache": _reset,
    "pin": _pin,
    "unpin": _unpin,
    "compact": _compact,
    "keyframe": _keyframe,
}


WITHOUT_A_DIALOG = {"dump"}
"""What it changes is a file (`tests.engine.serving.test_flight`)."""


def test_every_command_has_an_effect_to_look_for() -> None:
    assert set(EFFECTS) | WITHOUT_A_DIALOG == set(COMMANDS)


@pytest.mark.parametrize("command", EFFECTS)
def test_the_engine_is_what_the_dialog_said(command: str, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with scene(tmp_path) as made:
            await EFFECTS[command](made)

    run()
