"""Every verb of ``kvtop ctl`` on an engine process with a model: each is judged by what the engine is like afterwards, not
by what it answers, so that no verb can stand for another."""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvtop.app.feed import Feed
from kvtop.cli import main
from kvtop.commands.verbs import VERBS
from kvtop.protocol import Event, Keyframe
from kvtop.record import Recording
from kvtop.sources.base import Item
from kvtop.sources.socket import SocketSource
from kvtop.state import EngineState, RequestRow
from kvtop.state.moment import moment
from tests.e2e.engines import Engines
from tests.e2e.tmux import wait_until

PATIENCE = 60.0
CROWDED = ("--rate", "30", "--set", "max_running=3", "--set", "token_budget=16")
"""Requests run for long, others wait, and most blocks that nobody holds are cached."""


class WatchingSource(SocketSource):
    """Counts the keyframes that came."""

    keyframes = 0

    def poll(self) -> list[Item]:
        items = super().poll()
        self.keyframes += sum(isinstance(item, Keyframe) for item in items)
        return items


class Held:
    """An engine's process, held still by ``pause`` unless a test lets it go on, and a viewer of it."""

    def __init__(self, place: Path, name: str) -> None:
        self.name = name
        self.source = WatchingSource(place / f"{name}.sock")
        self.feed = Feed(self.source)
        self.source.start()

    def ctl(self, *words: str) -> None:
        """As typed; it must succeed."""
        assert main(["ctl", "-e", self.name, *words]) == 0, words

    @property
    def state(self) -> EngineState:
        """As it has been told by now."""
        self.feed.drain(time.monotonic())
        return self.feed.live

    def until(self, condition: Callable[[EngineState], Any], what: str) -> None:
        wait_until(lambda: bool(condition(self.state)), PATIENCE, lambda: f"{what}; {self.told()}")

    def told(self) -> str:
        state = self.feed.live
        rows = [(row.num, row.state, row.preemptions, row.pinned_blocks) for row in (state.requests or {}).values()]
        return f"iteration {state.iteration}, {state.gauges}, {rows}, {list(state.events)[-5:]}"

    def hold(self) -> None:
        """Goes on until there is something worth a command, and stands still then."""
        while not (self.state.paused and worth_a_command(self.state)):
            if self.state.paused:
                self.ctl("resume")
                self.until(lambda state: not state.paused, "it did not go on")
            self.until(worth_a_command, "nothing worth a command came")
            self.ctl("pause")
            self.until(lambda state: state.paused, "it did not stop")

    def running(self) -> list[RequestRow]:
        """Those that run and have blocks in the prefix cache, the largest first."""
        return sorted(runners(self.state), key=lambda row: -(row.computed_tokens or 0))

    def row(self, num: int) -> RequestRow:
        row = self.state.request(num)
        assert row is not None
        return row

    def events(self, kind: str) -> list[Event]:
        return [e for e in self.state.events if isinstance(e, Event) and e.kind == kind]


def runners(state: EngineState) -> list[RequestRow]:
    blocks = state.blocks
    if blocks is None:
        return []
    rows = (state.requests or {}).values()
    return [r for r in rows if r.state in ("prefill", "decode") and any(blocks.hash_of(block) for block in r.table)]


def worth_a_command(state: EngineState) -> bool:
    """Two requests run that the prefix cache knows blocks of, and it has others."""
    return len(runners(state)) >= 2 and state.gauges.get("kv_blocks_cached", 0) > 0


def movable(state: EngineState) -> int:
    """Blocks with content that lie above a free one."""
    if state.blocks is None:
        return 0
    used = state.blocks.state[: state.blocks.device] != 0
    return int(used[int(used.sum()) :].sum())


@pytest.fixture(scope="module")
def process() -> Iterator[Held]:
    with tempfile.TemporaryDirectory(prefix="kvt") as name, pytest.MonkeyPatch.context() as patch:
        place = Path(name)
        place.chmod(0o700)
        patch.setenv("KVTOP_SOCKET_DIR", name)
        patch.setenv("OMP_NUM_THREADS", "1")
        engines = Engines(place, os.environ)
        try:
            engines.start("held", *CROWDED)
            held = Held(place, "held")
            yield held
            held.source.close()
        finally:
            engines.stop_all()


@pytest.fixture
def held(process: Held) -> Held:
    process.hold()
    return process


def _set(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    before = held.state.policy["max_running"]
    assert len(held.running()) > 1
    held.ctl("set", "max_running=1", "--transition", "preempt", "--dry-run")
    held.until(lambda state: state.policy["max_running"] == before, "a dry run changed the policy")
    assert len(held.running()) > 1
    held.ctl("set", "max_running=1", "--transition", "preempt")
    held.until(lambda state: state.policy["max_running"] == 1, "the policy did not change")
    held.until(lambda state: state.gauges["running"] == 1, "those above the limit were not preempted")
    held.ctl("set", f"max_running={before}")


def _policies(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    held.ctl("policies", "--json")
    listed = json.loads(capsys.readouterr().out)["axes"]
    assert {axis["name"]: axis["current"] for axis in listed} == held.state.policy


def _abort(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    victim, *others = held.running()
    held.ctl("abort", str(victim.num))
    held.until(lambda _: held.row(victim.num).finished, "it lives on")
    assert held.events("abort")[-1].request == victim.num
    assert all(not held.row(other.num).finished for other in others)


def _preempt(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    victim, *others = held.running()
    before = victim.preemptions or 0
    held.ctl("preempt", victim.name)
    held.until(lambda _: (held.row(victim.num).preemptions or 0) == before + 1, "it was not preempted")
    assert held.row(victim.num).state == "preempted"
    assert held.row(victim.num).block_count == 0
    assert held.state.queue is not None
    assert victim.num in held.state.queue.order, "it must be queued again"
    assert all(held.row(other.num).state in ("prefill", "decode") for other in others)


def _pause(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    held.ctl("resume")
    held.until(lambda state: not state.paused, "it did not go on")
    held.ctl("pause")
    held.until(lambda state: state.paused, "it did not stop")
    stopped, keyframes = held.state.iteration, held.source.keyframes
    # What it sends for the asking is the same iteration still.
    held.ctl("keyframe")
    held.until(lambda _: held.source.keyframes > keyframes, "no keyframe came")
    assert held.state.iteration == stopped


def _resume(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    stopped = held.state.iteration or 0
    held.ctl("resume")
    held.until(lambda state: not state.paused and (state.iteration or 0) > stopped + 3, "it did not go on")


def _reset(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    running = {row.num: list(row.table) for row in held.running()}
    assert held.state.gauges["kv_blocks_cached"] > 0
    held.ctl("reset-prefix-cache")
    held.until(lambda state: state.gauges["kv_blocks_cached"] == 0, "blocks are cached still")
    assert held.running() == [], "what runs is found in the prefix cache still"
    assert {num: held.row(num).table for num in running} == running


def _dump(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    held.ctl("dump")
    path = Path(capsys.readouterr().out.partition("written: ")[2].rpartition(" (")[0])
    tape = Recording(path)
    assert tape.end is not None
    found = moment(tape, tape.end)
    assert found is not None
    assert (found.state.iteration, found.state.gauges) == (held.state.iteration, held.state.gauges)
    held.until(lambda _: held.events("dump"), "it was not told")
    assert str(path) in (held.events("dump")[-1].detail or "")


def _pin(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = held.running()[0]
    held.ctl("pin", str(wanted.num))
    held.until(lambda _: held.row(wanted.num).pinned_blocks, "nothing is pinned")
    assert len(held.events("pin")) > 0
    assert held.row(wanted.num).state in ("prefill", "decode")


def _unpin(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = held.running()[0]
    held.ctl("pin", wanted.name)
    held.until(lambda _: held.row(wanted.num).pinned_blocks, "nothing is pinned")
    held.ctl("unpin", wanted.name)
    held.until(lambda _: not held.row(wanted.num).pinned_blocks, "it is pinned still")


def _compact(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    while True:
        # Else all blocks have content, and none has a place to go to.
        held.ctl("reset-prefix-cache")
        held.until(lambda state: state.gauges["kv_blocks_cached"] == 0, "blocks are cached still")
        if movable(held.state):
            break
        held.hold()
    before = len(held.events("compact"))
    held.ctl("compact")
    held.ctl("resume")
    held.until(lambda _: len(held.events("compact")) > before, "nothing was moved")
    assert (held.events("compact")[-1].blocks or 0) > 0


def _keyframe(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    before, stopped = held.source.keyframes, held.state.iteration
    held.ctl("keyframe")
    held.until(lambda _: held.source.keyframes > before, "no keyframe came")
    assert held.state.paused
    assert held.state.iteration == stopped


EFFECTS: dict[str, Callable[[Held, pytest.CaptureFixture[str]], None]] = {
    "set": _set,
    "policies": _policies,
    "abort": _abort,
    "preempt": _preempt,
    "pause": _pause,
    "resume": _resume,
    "dump": _dump,
    "reset-prefix-cache": _reset,
    "pin": _pin,
    "unpin": _unpin,
    "compact": _compact,
    "keyframe": _keyframe,
}


def test_every_verb_has_an_effect_to_look_for() -> None:
    assert [verb.name for verb in VERBS] == list(EFFECTS)


@pytest.mark.parametrize("verb", EFFECTS)
def test_the_engine_is_what_the_verb_says(verb: str, held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    EFFECTS[verb](held, capsys)
