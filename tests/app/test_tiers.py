"""The screen of an engine with lower tiers: the panel, its place, the map of each tier."""

from pathlib import Path

from kvtop.protocol import IterationFrame, Status
from tests.app.harness import Bench, bench, in_loop
from tests.app.live_engine import LiveEngine

SIZES = {"host": 96, "disk": 200}


def engine() -> LiveEngine:
    return LiveEngine(tiers=SIZES, arrivals=0.1)


@in_loop
async def test_on_a_small_screen_tiers_and_queue_take_turns(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=engine(), warm=700) as b:
        await b.iterate(120)
        assert "3 queue" in b.text()
        assert "5 tiers" not in b.text()
        await b.press("5")
        await b.iterate(1)
        lines = b.text("tiers").splitlines()
        assert lines[0].startswith("▸5 tiers: ")
        assert lines[0].rstrip("─ ").endswith("MB/s 5s · hit 60s")
        assert [line.split()[0] for line in lines[1:5]] == ["tier", "device", "host", "disk"]
        assert "3 queue" not in b.text()
        await b.press("3")
        await b.iterate(1)
        assert "▸3 queue" in b.text()
        assert "5 tiers" not in b.text()


@in_loop
async def test_on_a_large_screen_both_are_there(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=engine(), warm=700, size=(200, 50)) as b:
        await b.iterate(5)
        assert "3 queue" in b.text()
        assert "─5 tiers" in b.text()
        await b.press("5")
        assert "▸5 tiers" in b.text()
        await b.pilot.resize_terminal(80, 24)
        await b.until(lambda: len(b.text().splitlines()) == 24)
        await b.until(lambda: b.tick_once() or (b.app.focused is not None and b.app.focused.display))
        assert "3 queue" in b.text()
        await b.pilot.resize_terminal(40, 10)
        await b.until(lambda: "kvtop needs 60x16" in b.text())
        assert "queue" not in b.text()


@in_loop
async def test_the_map_shows_one_tier_after_the_other(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=engine(), warm=700) as b:
        for title, blocks, first in (("host", 96, 240), ("disk", 200, 336), ("device", 240, 0)):
            await b.press("t", "1", "g")
            await b.iterate(1)
            assert f"{title} blocks by state" in b.text("map")
            assert b.screen.map.map.total == blocks
            assert f"block {first} " in b.text("map")


@in_loop
async def test_the_kv_of_a_swapped_request_stands_out_where_it_lies(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=engine(), warm=700) as b:
        num = await _swapped(b)
        b.screen.requests.select(num)
        await b.tick()
        held = b.screen.map.map._picked.tolist()
        assert held
        assert all(block >= 240 for block in held)
        await b.press("2", "enter")
        assert f"its KV is in {len(held)} blocks of host" in " ".join(b.text("page").split())


async def _swapped(b: Bench) -> int:
    for _ in range(400):
        await b.iterate(1)
        for row in (b.screen.feed.live.requests or {}).values():
            if row.state == "swapped" and row.tier == "host":
                return row.num
    raise AssertionError("nobody was swapped out")


@in_loop
async def test_a_warning_of_the_watchdog_gets_a_line_and_gives_it_back(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=LiveEngine()) as b:
        assert len(b.text("header").splitlines()) == 3
        await _say(b, Status(state="running", warning="nobody gets a token", warning_since=0.0))
        assert "nobody gets a token" in b.text("header").splitlines()[3]
        await _say(b, Status(state="running"))
        assert len(b.text("header").splitlines()) == 3


async def _say(b: Bench, status: Status) -> None:
    told = b.engine.step(only_time=True)
    b.source.put(IterationFrame.model_validate(told.model_dump() | {"status": status.model_dump()}))
    await b.tick()
    await b.tick()
