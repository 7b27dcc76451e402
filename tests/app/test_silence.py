"""No key is silent: in every state and wherever the focus is, something changes, or a sentence says why nothing does."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual import events

from kvtop.app.keys import EVERYWHERE_NAME
from kvtop.sources.base import LinkDown
from tests.app.harness import Bench, bench, in_loop
from tests.app.live_engine import LiveEngine
from tests.app.sources import HandFedSource

NOT_HERE = ("quit", "suspend_process")
"""They leave the program, or the terminal."""


async def no_engine(b: Bench) -> None:
    pass


async def running(b: Bench) -> None:
    pass


async def lost(b: Bench) -> None:
    b.source.put(LinkDown("the engine left: shutting down", True))
    await b.tick()


async def nothing_matches(b: Bench) -> None:
    await b.press("slash", *"zzz", "enter")


async def engine_paused_and_view_held(b: Bench) -> None:
    b.engine.pause()
    await b.iterate(1)
    await b.press("p")


def seen(b: Bench) -> tuple[object, ...]:
    """The same sentence said again is an answer too: `Bench.notes` counts."""
    strips = b.app.screen._compositor.render_strips(b.app.size)
    painted = [(segment.text, segment.style) for strip in strips for segment in strip]
    return painted, b.app.focused, b.app.screen, len(b.notes())


async def answered(b: Bench, before: tuple[object, ...]) -> bool:
    """Whether what is seen differs; at once, or on a busy machine soon."""
    for _ in range(100):
        if seen(b) != before:
            return True
        await b.pilot.pause(0.01)
    return False


@pytest.mark.parametrize("state", [no_engine, running, lost, nothing_matches, engine_paused_and_view_held])
def test_every_key_is_answered(state: Callable[[Bench], Awaitable[None]], tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        source = HandFedSource() if state is no_engine else None
        engine = None if state is no_engine else LiveEngine(blocks=60)
        async with bench(tmp_path, source=source, engine=engine, warm=60) as b:
            await state(b)
            silent = []
            for place, actions in b.screen.keymap.sections:
                panel = next((p for p in b.screen.panels.values() if place == p.NAME), None)
                if panel is None and place != EVERYWHERE_NAME:
                    continue  # dialogs say at their foot which keys they have
                for action in actions:
                    if action.name in NOT_HERE:
                        continue
                    # Twice: at the end of a list the second one has nothing to do.
                    for _ in range(2):
                        while b.app.screen is not b.screen:
                            b.app.pop_screen()
                        if b.screen.dashboard.full:
                            b.screen.action_full()
                        b.screen._go_to(panel or b.screen.requests)
                        b.screen.hint("")
                        await b.pilot.pause()
                        before = seen(b)
                        await b.pilot.press(action.keys[0])  # `answered` waits for the rest
                        if not await answered(b, before):
                            silent.append(f"{place}: {action.keys[0]}, {action.help}")
            assert silent == []

    run()


@in_loop
async def test_a_key_without_a_meaning_says_where_the_keys_are(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("z")
        assert "z does nothing here; ? shows what keys do" in b.text("footer")
        b.time += 10
        await b.tick()
        assert "? help" in b.text("footer")


@in_loop
async def test_enter_on_a_block_without_owner_says_so(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        blocks = b.screen.feed.live.blocks
        assert blocks is not None
        free = next(i for i, owner in enumerate(blocks.owner) if owner < 0)
        await b.press("1")
        b.screen.map.map.set_cursor(free)
        await b.press("enter")
        assert f"block {free} is cached: no request owns it" in b.text("footer")


@in_loop
async def test_a_paste_is_text_for_the_filter_and_nothing_elsewhere(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("2", "g")
        selected = b.screen.requests.view.selected
        b.app.post_message(events.Paste("xq\rE"))
        ignored = "a paste was ignored: only the filter (/) and fields for numbers take text"
        await b.until(lambda: ignored in b.text("footer"))
        assert b.app.screen is b.screen
        assert b.screen.requests.view.selected == selected
        await b.press("slash")
        b.app.post_message(events.Paste("ch\x1b[31mat\n\x07-00"))
        await b.until(lambda: b.screen.requests.view.filter)
        assert b.screen.requests.view.filter.text == "ch[31mat -00"
        assert "pasted without what cannot be printed" in b.notes()
        b.app.post_message(events.Paste("x" * 300))
        await b.until(lambda: "pasted without what was beyond 256 characters" in b.text("footer"))
        assert len(b.screen.requests.view.filter.text) == 256
        await b.press("enter")
        assert b.app.focused is b.screen.requests
