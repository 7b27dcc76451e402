"""Alarms on the screen: one line at every size, a row of evidence, the page, and the way to the victim."""

import json
from pathlib import Path

import pytest

from kvtop.alarms import Victim
from kvtop.app.keymap import keymap
from kvtop.protocol import encode
from kvtop.record import Recording
from kvtop.sources.replay import ReplaySource
from panels.dialogs.alarms_screen import AlarmsScreen
from panels.requests import RequestsPanel
from tests.app.harness import Bench, agreeing, bench, in_loop
from tests.app.live_engine import LiveEngine
from tests.app.test_time import TimedBench
from tests.recordings.kit import HandClock, recording

SIZES = [(60, 16), (80, 24), (200, 50)]


async def hang(b: Bench, seconds: float = 12.0) -> None:
    """The engine says nothing for so long."""
    for _ in range(int(2 * seconds)):
        await b.tick(0.5)


@pytest.mark.parametrize("size", SIZES)
def test_the_first_line_says_that_nothing_is_wrong_or_what_fires_and_a_row_has_the_evidence(
    size: tuple[int, int], tmp_path: Path
) -> None:
    @in_loop
    async def run() -> None:
        async with bench(tmp_path, size=size) as b:
            await b.iterate(30)
            first = b.text("header").splitlines()[0]
            wide = "nothing wrong: 7 of 8 checks, not hit rate collapse"
            assert {60: "7/8 fine", 80: "7 of 8 checks fine"}.get(size[0], wide) in first
            await hang(b)
            first, *_, last = b.text("header").splitlines()
            assert "! stale data" in first
            assert last.startswith("! ALARM stale data 1")
            assert "nothing comes" in last
            assert len(b.text("header").splitlines()) == (2 if size[1] < 20 else 4)
            assert "ALARM stale data: nothing comes, for more than 1" in b.text("events")

    run()


@in_loop
async def test_it_is_told_while_the_view_is_held_too(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.iterate(30)
        await b.press("p")
        await hang(b)
        assert "! stale data" in b.text("header").splitlines()[0]


@in_loop
async def test_the_page_lists_all_and_its_key_closes_it(tmp_path: Path) -> None:
    async with bench(tmp_path, size=(120, 60)) as b:
        await b.iterate(30)
        await hang(b)
        await b.press("exclamation_mark")
        page = b.text("page")
        assert page.splitlines()[0].rstrip("─ ").endswith("1 alarm, 6 fine, 1 not checkable")
        assert page.splitlines()[1].startswith("▸ ! stale data  FIRING, critical, for 1")
        assert "victim: demo (engine)" in page
        assert "try: look whether its process (pid 4242) lives" in page
        assert "  blocks whose owner is gone  fine" in page
        assert "  hit rate collapse  not checkable" in page
        before = page.splitlines()[1]
        await b.tick(5.0)
        assert b.text("page").splitlines()[1] != before
        await b.press("exclamation_mark")
        assert b.app.screen is b.screen


@in_loop
async def test_on_a_small_terminal_the_chosen_one_is_in_sight(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.iterate(30)
        await b.press("exclamation_mark")
        for key, title in (("G", "hit rate collapse"), ("k", "tier thrash"), ("g", "stale data"), ("j", "no progress")):
            await b.press(key)
            assert f"▸ {title}" in b.text("page"), key
        await b.press("enter")
        assert isinstance(b.app.screen, AlarmsScreen)  # there is nobody to go to
        assert "this one has no victim to go to" in b.notes()


@pytest.mark.parametrize(("keys", "key", "shown"), [({}, "enter", "Enter"), ({"alarms.jump": "f2"}, "f2", "f2")])
@in_loop
async def test_a_key_goes_to_the_request_that_is_hit(
    tmp_path: Path, keys: dict[str, str], key: str, shown: str
) -> None:
    engine = LiveEngine()
    async with bench(tmp_path, engine=engine, keymap=keymap(keys)) as b:
        await b.iterate(10)
        for _ in range(230):
            b.time += 0.05
            b.source.put(engine.step(only_time=True))
            b.app.tick()
        await b.pilot.pause()
        await b.press("exclamation_mark")
        assert f"(request, {shown} goes there)" in b.text("page")
        await b.press(key)
        assert b.app.screen is b.screen
        check = next(check for check in b.screen.feed.alarms.checks if check.name == "no_progress")
        assert check.finding is not None
        assert check.finding.victim is not None
        assert b.screen.requests.view.selected == check.finding.victim.num
        assert isinstance(b.app.focused, RequestsPanel)


@in_loop
async def test_the_way_to_blocks_tiers_and_what_is_gone(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.iterate(5)
        b.screen.go_to_victim(Victim("block", "block 17", 17))
        assert b.screen.map.map.cursor == 17
        assert b.app.focused is b.screen.map
        b.screen.go_to_victim(Victim("block", "block 99999", 99_999))
        b.screen.go_to_victim(Victim("request", "gone-1", 987_654))
        b.screen.go_to_victim(Victim("tier", "host"))
        assert "block 99999 is not on the map" in b.notes()
        assert "gone-1 is gone" in b.notes()


@in_loop
async def test_a_snapshot_has_them(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.iterate(30)
        await hang(b)
        await b.press("s")
        await b.until(lambda: list(tmp_path.glob("*.json")))
        b.screen.snapshots.finish()
        document = json.loads(next(tmp_path.glob("*.json")).read_text())
        states = {alarm["alarm"]: alarm["state"] for alarm in document["alarms"]}
        assert (states["stale_data"], states["no_progress"], len(states)) == ("firing", "fine", 8)
        assert any(event["kind"] == "alarm" and "stale data" in event["detail"] for event in document["events"])


@in_loop
async def test_a_moment_past_has_the_alarms_of_then(tmp_path: Path) -> None:
    b = TimedBench(tmp_path)
    async with b.app.run_test(size=(80, 24)) as b.pilot:
        await b.go_on(40)
        await hang(b)
        b.engine.clock.now += 12.0
        await b.go_on(110)  # so long that it is over
        assert "checks fine" in b.text("header").splitlines()[0]
        await b.press("left_parenthesis")  # ten seconds back is within the silence
        first = b.text("header").splitlines()[0]
        assert "PAST" in first
        assert "! stale data" in first
        await b.press("left_square_bracket", "left_square_bracket")
        assert "! stale data" not in b.text("header")
        await b.press("n")
        assert "checks fine" in b.text("header").splitlines()[0]


@in_loop
async def test_a_replay_has_alarms_and_tells_nobody(tmp_path: Path) -> None:
    engine = LiveEngine()
    frames = [engine.hello(), engine.keyframe(), *(engine.step() for _ in range(60))]
    engine.clock.now += 12.0
    frames += [engine.step() for _ in range(20)]
    clock = HandClock()
    source = ReplaySource(
        Recording(recording(tmp_path / "a.kvtop", [(encode(frame), frame) for frame in frames])), "a.kvtop", clock=clock
    )
    b = Bench(source, tmp_path, agreeing, control_path=None)  # type: ignore[arg-type]
    alerted: list[object] = []
    b.screen.alert = lambda state, changes: alerted.append(changes)
    async with b.app.run_test(size=(80, 24)) as b.pilot:
        await b.tick()
        await b.press("n")  # its end
        assert "! stale data" in b.text("header").splitlines()[0]
        assert "ALARM stale data" in b.text("events")
        assert alerted == []
