"""What the screen says of the engine and of itself, in good times and bad."""

from pathlib import Path

import pytest

from kvtop.protocol import Bye, Event, IterationFrame, Keyframe
from kvtop.sources.base import LinkDown, LinkUp
from kvtop.term.depth import ColourDepth
from tests.app.harness import bench, in_loop
from tests.app.live_engine import LiveEngine
from tests.app.sources import HandFedSource, gauges_only

HOSTILE = "[bold]x[/y] [\x1b[31m\x9b2J {“wide”} 漢字"


@in_loop
async def test_first_screen_answers_whether_memory_is_the_limit(tmp_path: Path) -> None:
    engine = LiveEngine()
    for _ in range(300):
        engine.step()
    while not engine.waiting:
        engine.step()
    async with bench(tmp_path, source=HandFedSource(engine)) as b:
        screen = b.text()
        assert "KV used" in screen
        assert f"/{engine.total} " in b.text("capacity")
        verdict = b.text("queue").splitlines()[1]
        assert engine.waiting[0].id in verdict
        assert "waits: needs" in verdict
        assert "1/cell" in b.text("map")
        assert any(r.id in b.text("requests") for r in engine.running)
        assert "preempt" in b.text("events")


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (119, 30), (120, 30), (200, 50), (300, 100)])
@pytest.mark.parametrize("blocks", [1, 240, 100_000])
def test_every_panel_is_seen_at_every_size(size: tuple[int, int], blocks: int, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with bench(tmp_path, size=size, engine=LiveEngine(blocks=blocks), warm=0) as b:
            lines = b.text().splitlines()
            assert len(lines) == size[1]
            assert all(len(line) == size[0] for line in lines)
            for text in ("SmolLM2", "1 blocks", "2 requests", "3 queue", "4 events", "? help", f"/{_short(blocks)}"):
                assert text in b.text(), text

    run()


def _short(blocks: int) -> str:
    return str(blocks) if blocks < 10_000 else "100k"


@in_loop
async def test_resizing_goes_there_and_back(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("4")
        small = b.text()
        for size in ((200, 50), (40, 10), (80, 24)):
            await b.pilot.resize_terminal(*size)
            await b.until(lambda size=size: len(b.text().splitlines()) == size[1])
            if size == (40, 10):
                await b.until(lambda: "kvtop needs 60x16" in b.text())
                assert "this terminal is" in b.text()
                assert "40x10" in b.text()
                await b.iterate(1)
                assert "requests" not in b.text()
            elif size == (200, 50):
                await b.until(lambda: "│" in b.text())
                assert b.text().splitlines()[6].count("│") == 1
        await b.until(lambda: b.tick_once() or "▸4 events" in b.text())
        assert "2 requests" in b.text()
        assert len(b.text().splitlines()) == len(small.splitlines())


@in_loop
async def test_a_lost_engine_leaves_its_last_view_with_an_age_and_comes_back(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=LiveEngine()) as b:
        await b.iterate(5)
        b.source.put(LinkDown("connection refused", retrying=True))
        await b.tick()
        before = b.text("requests")
        assert "DISCONNECTED" in b.text("header")
        assert "connection refused" in b.text("header")
        await b.tick(seconds=12)
        assert "DISCONNECTED 12.0s ago" in b.text("header")
        assert b.text("requests") == before
        b.source.put(LinkUp(), b.engine.hello(), b.engine.keyframe())
        await b.tick()
        assert "DISCONNECTED" not in b.text("header")
        assert "live" in b.text("header")


@in_loop
async def test_an_orderly_end_says_why(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        b.source.put(Bye(reason="stopped by its operator"), LinkDown("closed", retrying=True))
        await b.tick()
        assert "stopped by its operator" in b.text("header")


@in_loop
async def test_silence_shows_its_age_unless_the_engine_is_idle(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=LiveEngine()) as b:
        await b.tick(seconds=1.9)
        assert "stale" not in b.text("header")
        await b.tick(seconds=1.9)
        assert "stale 3.8s" in b.text("header")
        b.engine.go_idle()
        await b.iterate(1)
        await b.tick(seconds=30)
        assert "idle" in b.text("header")
        assert "stale" not in b.text("header")


@in_loop
async def test_before_the_first_frame_it_waits_and_says_so(tmp_path: Path) -> None:
    source = HandFedSource()
    async with bench(tmp_path, source=source) as b:
        assert "connecting" in b.text("header")
        assert "waiting for the engine" in b.text("map")
        source.put(LinkUp(), LiveEngine().hello())
        await b.tick()
        assert "waiting for the first frame" in b.text("header")
        for key in ("p", "s", "j", "x", "enter", "P", "escape", "c", "1", "l", "enter"):
            await b.press(key)
        assert b.app.is_running


@in_loop
async def test_a_source_of_gauges_alone_says_what_is_not_exposed(tmp_path: Path) -> None:
    hello, frame = gauges_only()
    source = HandFedSource()
    source.put(LinkUp(), hello, frame)
    async with bench(tmp_path, source=source) as b:
        assert "63%" in b.text("capacity")
        assert "blocks: not exposed by vllm" in b.text("map")
        assert "requests: not exposed by vllm" in b.text("requests")
        assert "not exposed by vllm" in b.text("events")
        assert "2 waiting" in b.text("queue")
        assert "not exposed by vllm" in b.text("queue")
        await b.press("1", "l", "j", "enter", "2", "j", "enter", "x", "o", "3", "j", "4", "k")
        await b.press("P")
        assert "exposes no policies" in b.text("card")


@pytest.mark.parametrize("ascii_only", [False, True])
def test_hostile_names_are_shown_and_not_obeyed(ascii_only: bool, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        engine = LiveEngine(name="ok")
        engine.step()
        request = engine.arrive()
        request.id = request.label = HOSTILE
        engine.step()
        async with bench(tmp_path, source=HandFedSource(engine), ascii_only=ascii_only) as b:
            frame = engine.step()
            event = Event(
                id=900, kind="preempt", iteration=1, wall=frame.wall, request=1, request_id=HOSTILE, cause=HOSTILE
            )
            b.source.put(frame.model_copy(update={"events": [event]}))
            await b.tick()
            await b.press("j")
            for keys in ((), ("x",), ("escape", "enter"), ("q", "4"), ("slash", "[", "b", "enter")):
                await b.press(*keys)
                screen = b.text()
                assert "\x1b" not in screen
                assert "\x9b" not in screen
                assert all(len(line) == 80 for line in screen.splitlines())
            assert "filter '[b'" in b.text("requests")
            await b.press("escape")
            b.screen.say(f"note {HOSTILE}")
            await b.until(lambda: "note [bold]x[/y]" in b.text())

    run()


@in_loop
async def test_only_ascii_with_ascii(tmp_path: Path) -> None:
    async with bench(tmp_path, size=(200, 50), ascii_only=True) as b:
        await b.iterate(3)
        for keys in ((), ("1", "l"), ("P",), ("enter",), ("q", "question_mark")):
            await b.press(*keys)
            assert b.text().isascii(), sorted({c for c in b.text() if not c.isascii()})


@pytest.mark.parametrize("depth", [ColourDepth.NONE, ColourDepth.ANSI16])
def test_focus_selection_and_severity_show_without_colour(depth: ColourDepth, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with bench(tmp_path, depth=depth) as b:
            await b.press("2", "j")
            assert "▸2 requests" in b.text("requests")
            lit = [row for row in b.screen.requests.rows[2:] if row.roles[0] & 0x80]
            assert len(lit) == 1
            style = b.app.palette.style(lit[0].roles[0])
            assert style.reverse or style.bgcolor is not None
            assert "■" in b.text("map")
            assert "preempt" in b.text("events")

    run()


@in_loop
async def test_frames_that_do_not_join_ask_for_a_keyframe(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=LiveEngine()) as b:
        b.engine.step()
        b.source.put(b.engine.step())
        await b.tick()
        assert b.source.keyframes_asked == 1
        assert "catching up" in b.text("header")
        b.source.put(b.engine.keyframe())
        await b.tick()
        assert "live" in b.text("header")


@in_loop
async def test_a_held_view_still_says_when_the_engine_is_lost(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("p")
        b.source.put(LinkDown("gone", retrying=True))
        await b.tick(seconds=3)
        assert "DISCONNECTED" in b.text("header")


@in_loop
async def test_a_restarted_engine_begins_anew(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("j", "1", "G")
        other = LiveEngine(blocks=64, seed=3, run="run-2")
        b.source.put(LinkDown("gone", retrying=True), LinkUp(), other.hello(), other.keyframe())
        await b.tick()
        assert "/64 " in b.text("capacity")
        assert "engine restarted" in b.text("events")
        assert b.screen.map.map.total == 64
        frames: list[IterationFrame | Keyframe] = [other.step() for _ in range(20)]
        b.source.put(*frames)
        await b.tick()
        assert "live" in b.text("header")


@in_loop
async def test_the_selected_request_stands_out_in_the_map(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        assert not any(role & 0x80 for row in b.screen.map.rows[1:4] for role in row.roles)
        await b.press("j")
        row = (b.screen.feed.shown.requests or {})[b.screen.requests.view.selected or 0]
        lit = [
            y * 80 + x for y, r in enumerate(b.screen.map.rows[1:4]) for x, role in enumerate(r.roles) if role & 0x80
        ]
        assert lit == sorted(row.table)
        await b.press("escape")
        assert not any(role & 0x80 for r in b.screen.map.rows[1:4] for role in r.roles)


@in_loop
async def test_the_engines_notice_stays_on_the_screen(tmp_path: Path) -> None:
    engine = LiveEngine()
    hello = engine.hello().model_copy(update={"notice": "no network: random weights, the text means nothing"})
    source = HandFedSource()
    source.put(LinkUp(), hello, engine.keyframe())
    async with bench(tmp_path, source=source) as b:
        await b.until(lambda: b.tick_once() or "random weights" in b.text("header"))
        for size in ((200, 50), (60, 16)):
            await b.pilot.resize_terminal(*size)
            await b.until(lambda: b.tick_once() or "! no network: random weights" in b.text())
        assert "▸2 requests" in b.text()


@in_loop
async def test_the_mouse_picks_blocks_and_requests_too(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.pilot.click("#map", offset=(5, 2))
        await b.pilot.pause()
        assert f"block {80 + 5} " in b.text("map")
        await b.pilot.click("#requests", offset=(3, 3))
        await b.pilot.pause()
        chosen = b.screen.requests.view.selected
        assert chosen is not None
        assert (b.screen.feed.shown.requests or {})[chosen].name in b.text("requests").splitlines()[3]


@in_loop
async def test_a_slow_terminal_is_named(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        b.app.governor.observe(100.0, backlog=9, cost=0.0)
        await b.tick()
        assert "slow terminal 10 fps" in b.text("header")


@in_loop
async def test_the_block_table_scrolls_and_stays_live(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("j", "enter")
        num = b.screen.requests.view.selected or 0

        def table() -> list[int]:
            return (b.screen.feed.live.requests or {})[num].table

        def last_shown() -> list[str]:
            return [line for line in b.text("page").splitlines() if line.strip()][-2].split()

        assert "last 2 min" in b.text("page").splitlines()[2]
        await b.press("G")
        assert last_shown()[0] == str(len(table()) - 1)
        assert "logical" in b.text("page").splitlines()[2]
        before = len(table())
        await b.iterate(60)
        assert len(table()) > before
        await b.press("G")
        assert last_shown()[:1] + last_shown()[2:3] == [str(len(table()) - 1), str(table()[-1])]
        await b.press("g")
        titles = next(n for n, line in enumerate(b.text("page").splitlines()) if "logical" in line) - 2
        assert f"1–{24 - 4} of {titles + len(table())}" in b.text("page")


@in_loop
async def test_the_help_scrolls_to_its_end_at_every_size(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("question_mark", "G")
        hello = b.screen.feed.live.hello
        assert hello is not None
        last = " ".join(hello.axes[-1].help.split()[-2:])
        await b.until(lambda: last in b.text())
        await b.pilot.resize_terminal(200, 50)
        await b.until(lambda: last in b.text() and len(b.text().splitlines()) == 50)
        await b.press("g")
        assert "this help" in b.text()


@in_loop
async def test_a_new_element_type_of_kv_shows_in_the_header_the_bytes_and_the_block_table(tmp_path: Path) -> None:
    async with bench(tmp_path, size=(200, 50)) as b:
        assert "KV float32" in b.text("header")
        before = b.text("capacity").splitlines()[1].rsplit(" of ", 1)[1]
        for row in (b.screen.feed.live.requests or {}).values():
            row.cache_dtype = None  # as of an engine that does not say it of each
        told = b.source.engine
        assert told is not None
        geometry = told.hello().geometry.model_copy(update={"cache_dtype": "int8", "bytes_per_token": 11520})
        b.source.put(told.step().model_copy(update={"geometry": geometry}))
        await b.tick()
        assert "KV int8" in b.text("header")
        assert "float32" not in b.text("header").replace("weights float32", "")
        assert b.text("capacity").splitlines()[1].rsplit(" of ", 1)[1] != before
        await b.press("2", "g", "enter")
        assert "KV int8" in b.text("page")
