"""What each key does, as a user sees it: one check for each action of `kvtop.app.keys`."""

from collections.abc import Awaitable, Callable

from textual.command import CommandPalette
from textual.containers import VerticalScroll

from kvtop.state import EngineState
from kvtop.views.cells import MODES
from kvtop.views.format import ends
from kvtop.views.rows import HIGHLIGHT, Role
from panels.dialogs.alarms_screen import AlarmsScreen
from panels.dialogs.dialog import Dialog
from panels.dialogs.help_screen import HelpScreen
from panels.dialogs.pager import PagerScreen, TextScreen
from panels.events import FEW_ROWS, EventsPanel
from panels.policies import PoliciesPanel
from panels.queue import QueuePanel
from panels.tiers import TiersPanel
from tests.app.harness import Bench

Check = Callable[[Bench, str], Awaitable[None]]


def _state(b: Bench) -> EngineState:
    return b.screen.feed.shown


async def _help(b: Bench, key: str) -> None:
    await b.press(key)
    assert isinstance(b.app.screen, HelpScreen)
    assert "this help" in b.text()
    await b.press(key)
    assert not isinstance(b.app.screen, HelpScreen)


async def _quit(b: Bench, key: str) -> None:
    await b.press(key)
    assert b.app.return_value == 0


async def _policy(b: Bench, key: str) -> None:
    await b.press(key)
    assert "max_utilization" in b.text("card")


async def _palette(b: Bench, key: str) -> None:
    await b.press(key)
    assert isinstance(b.app.screen, CommandPalette)
    await b.press("escape")
    assert not isinstance(b.app.screen, CommandPalette)


async def _pause_view(b: Bench, key: str) -> None:
    await b.press(key)
    assert "VIEW PAUSED" in b.text("header")
    events, iteration = b.text("events"), _state(b).iteration
    await b.iterate(60)
    assert b.text("events") == events
    assert _state(b).iteration == iteration
    assert b.screen.feed.live.iteration == (iteration or 0) + 60
    await b.tick(1.0)
    assert "VIEW PAUSED 4.0s" in b.text("header")
    await b.press(key)
    assert "VIEW PAUSED" not in b.text("header")
    assert _state(b).iteration == (iteration or 0) + 60
    assert b.text("events") != events


def _titled(panel: str, keys: tuple[str, ...], wanted: str) -> Check:
    """After ``keys`` the key makes ``wanted`` appear in the panel's title."""

    async def check(b: Bench, key: str) -> None:
        await b.press(*keys, key)
        assert wanted in b.text(panel).splitlines()[0]

    return check


def _says(panel: str, keys: tuple[str, ...], wanted: str) -> Check:
    """After ``keys`` the key, which has nowhere to go, says why in the footer."""

    async def check(b: Bench, key: str) -> None:
        await b.press(*keys, key)
        assert b.screen.panels[panel].has_focus
        assert wanted in b.text("footer")

    return check


def _axis_at(first: int) -> Check:
    async def check(b: Bench, key: str) -> None:
        await b.press("8", *(["j"] if first == 0 else []), key)
        assert b.screen.panel(PoliciesPanel).first == first

    return check


async def _full(b: Bench, key: str) -> None:
    await b.press("4", key)
    assert not b.screen.map.display
    await b.press(key)
    assert b.screen.map.display


async def _overview(b: Bench, key: str) -> None:
    await b.press("4", "f", key)
    assert b.screen.map.display
    await b.press(key)
    assert "this is the overview already" in b.text("footer")


async def _bundle(b: Bench, key: str) -> None:
    await b.press(key)
    assert any("nothing is recorded" in note for note in b.notes())
    b.source.record(lambda: b.time)
    b.source.put(b.source.engine.hello(), b.source.engine.keyframe())
    await b.iterate(5)
    await b.press(key)
    await b.until(lambda: any(note.startswith("bundle kvtop-bundle-") for note in b.notes()))
    assert len(list(b.folder.glob("kvtop-bundle-*.zip"))) == 1


async def _snapshot(b: Bench, key: str) -> None:
    await b.press(key)
    await b.until(lambda: "snapshot kvtop-" in b.text("footer"))
    written = sorted(p for p in b.folder.iterdir() if p.suffix in (".json", ".svg"))
    assert [p.suffix for p in written] == [".json", ".svg"]
    assert written[0].stat().st_mode & 0o777 == 0o600
    assert '"schema"' in written[0].read_text()[:40]
    assert "<svg" in written[1].read_text()
    assert f"{written[0].name} and .svg" in b.text("footer")


async def _colour(b: Bench, key: str) -> None:
    seen = []
    for _ in MODES:
        seen.append(b.text("map").splitlines()[0].split("by ")[1].split()[0])
        await b.press(key)
    assert seen == [*MODES]
    assert "by state" in b.text("map")


async def _filter(b: Bench, key: str) -> None:
    await b.press(key, *"chat")
    assert "filter chat" in b.text()
    await b.press("enter")
    body = [line for line in b.text("requests").splitlines()[2:] if line.strip()]
    assert body
    matching = {ends(row.name, 8).strip() for row in (_state(b).requests or {}).values() if "chat" in row.name}
    assert all(line.split()[0] in matching for line in body), body
    # Keys are keys again, and Esc takes the filter away.
    await b.press("escape")
    assert "filter" not in b.text("requests").splitlines()[0]


async def _numbers(b: Bench, key: str) -> None:
    await b.press("3", key)
    assert "numbers: what they mean" in b.text()
    await b.press(key)
    assert b.app.screen is b.screen


async def _pause_engine(b: Bench, key: str) -> None:
    await b.press(key, "tab", "enter")
    await b.until(lambda: "took effect at iteration 4,711" in b.text("card"))
    assert [c.model_dump()["type"] for c in b.control.sent] == ["pause"]


async def _reset_cache(b: Bench, key: str) -> None:
    await b.press(key, "tab", "enter")
    await b.until(lambda: "took effect" in b.text("card"))
    assert [c.model_dump()["type"] for c in b.control.sent] == ["reset_prefix_cache"]


async def _compact(b: Bench, key: str) -> None:
    await b.press(key)
    assert " would move: " in b.text("card")
    await b.press("tab", "enter")
    await b.until(lambda: "took effect at iteration 4,711" in b.text("card"))
    assert [c.model_dump(exclude_none=True) for c in b.control.sent] == [
        {"id": "compact", "run": "run-1", "type": "compact"}
    ]


def _goes_to(id: str) -> Check:
    async def check(b: Bench, key: str) -> None:
        await b.press("4" if id != "events" else "1", key)
        assert b.app.focused is not None
        assert b.app.focused.id == id
        assert b.text(id).startswith("▸")
        assert b.text().count("▸") == 1

    return check


async def _tiers(b: Bench, key: str) -> None:
    await b.press(key)
    await b.until(lambda: "all KV of this engine is on its device" in b.text())
    assert not b.screen.panel(TiersPanel).display


def _in_turn(*ids: str) -> Check:
    async def check(b: Bench, key: str) -> None:
        await b.press("1")
        seen = []
        for _ in ids:
            await b.press(key)
            seen.append(b.app.focused.id if b.app.focused else None)
        assert tuple(seen) == ids

    return check


async def _redraw(b: Bench, key: str) -> None:
    calls: list[int] = []
    b.app.redraw = lambda: calls.append(1)  # type: ignore[method-assign]
    await b.press(key)
    assert calls == [1]


async def _suspend(b: Bench, key: str) -> None:
    calls: list[int] = []
    b.app.action_suspend_process = lambda: calls.append(1)  # type: ignore[method-assign]
    await b.press(key)
    assert calls == [1]


def _cursor_goes(start: tuple[str, ...], end: Callable[[int, int], int]) -> Check:
    """``end(width, total)`` is the block under the cursor after the key."""

    async def check(b: Bench, key: str) -> None:
        await b.press("1", *start, key)
        blocks = b.screen.map.map
        block = end(blocks.width, blocks.total)
        assert blocks.cursor == block
        assert f"block {block} " in b.text("map")

    return check


async def _zoom_in(b: Bench, key: str) -> None:
    await b.press("1")
    shown = b.screen.map.map
    before = len(shown.in_sight), shown.zoom.columns
    await b.press(key)
    assert shown.zoom.columns > before[1]
    assert len(shown.in_sight) < before[0]
    first, last = shown.in_sight.start, shown.in_sight.stop - 1
    assert f" {first}–{last} " in b.text("map")


def _out(key_before: tuple[str, ...]) -> Check:
    async def check(b: Bench, key: str) -> None:
        await b.press("1", *key_before, key)
        assert len(b.screen.map.map.in_sight) == 240
        await b.press(key)
        assert "this is the whole pool" in b.text("footer")

    return check


def _pages(start: tuple[str, ...], line: Callable[[int, int], int]) -> Check:
    """``line(height, lines)`` is the row of the whole map that the cursor is in after the key."""

    async def check(b: Bench, key: str) -> None:
        await b.press("1", "plus", "plus", *start, key)
        shown = b.screen.map.map
        assert shown.lines > shown.height
        assert shown.cursor_line == line(shown.height, shown.lines)
        assert shown.cursor in shown.in_sight

    return check


async def _find(b: Bench, key: str) -> None:
    await b.press("1", "plus", "plus", key, *"999", "enter")
    assert "there is no block 999: they go from 0 to 239" in b.text("footer")
    await b.press("ctrl+u", *"0xc8", "enter")
    assert b.screen.map.map.cursor == 200
    assert 200 in b.screen.map.map.in_sight
    assert "block 200 " in b.text("map")
    assert b.app.focused is b.screen.map


async def _follow(b: Bench, key: str) -> None:
    await b.press("2", "escape", "1", key)
    assert "choose a block that a request owns" in b.text("footer")
    row = (_state(b).requests or {})[int(max(_state(b).blocks.owner))]  # type: ignore[union-attr]
    b.screen.map.map.set_cursor(row.table[-1])
    await b.press("plus", "plus", key)
    assert b.screen.requests.view.selected == row.num
    assert b.app.focused is b.screen.map
    assert f"follows {row.name}" in b.text("map")
    assert row.table[-1] in b.screen.map.map.in_sight
    await b.press(key)
    assert "follows" not in b.text("map")


async def _flash(b: Bench, key: str) -> None:
    def bright() -> int:
        flashing = (Role.FLASH0, Role.FLASH0 + 1)
        return sum(role & ~HIGHLIGHT in flashing for row in b.screen.map.rows for role in row.roles)

    async def seen() -> bool:
        for _ in range(60):
            await b.iterate()
            if bright():
                return True
        return False

    assert await seen()
    await b.press("1", key)
    assert not await seen()
    await b.press(key)
    assert await seen()
    await b.tick(1.0)
    assert not bright()


async def _owner(b: Bench, key: str) -> None:
    await b.press("1")
    owners = _state(b).blocks.owner  # type: ignore[union-attr]
    block = next(i for i in range(len(owners)) if owners[i] >= 0)
    b.screen.map.map.set_cursor(block)
    await b.press(key)
    assert b.screen.requests.view.selected == owners[block]
    assert b.app.focused is b.screen.requests


async def _table(b: Bench, key: str) -> None:
    await b.press("2", "j", key)
    page = b.text("page")
    row = (_state(b).requests or {})[b.screen.requests.view.selected or 0]
    assert row.name in page
    assert f"{0:>8}  0…15" in page
    assert f" {row.table[0]} " in page
    await b.press(key)
    assert not isinstance(b.app.screen, PagerScreen)


async def _sort(b: Bench, key: str) -> None:
    await b.press("2", key)
    assert "by id" in b.text("requests")


async def _reverse(b: Bench, key: str) -> None:
    await b.press("2")
    first = b.text("requests").splitlines()[2]
    await b.press(key)
    assert "▼" in b.text("requests")
    assert b.text("requests").splitlines()[2] != first


async def _columns(b: Bench, key: str) -> None:
    await b.press("2", key, "j", "enter", "escape")
    assert b.text("requests").splitlines()[1].split()[:2] == ["id", "pri"]


def _asks(kind: str, title: str) -> Check:
    async def check(b: Bench, key: str) -> None:
        await b.press("2", "j", key)
        assert title in b.text("card")
        await b.press("enter")  # Cancel is what is chosen
        assert not isinstance(b.app.screen, Dialog)
        assert b.control.sent == []
        await b.press(key, "tab", "enter")
        await b.until(lambda: "took effect at iteration 4,711" in b.text("card"))
        sent = b.control.sent[0].model_dump()
        assert (sent["type"], sent["request"]) == (kind, b.screen.requests.view.selected)

    return check


async def _clear(b: Bench, key: str) -> None:
    await b.press("slash", *"zzz", "enter")
    assert "no request matches" in b.text("requests")
    await b.press(key)
    assert "no request matches" not in b.text("requests")


def _selects(start: tuple[str, ...], place: Callable[[int], int]) -> Check:
    async def check(b: Bench, key: str) -> None:
        await b.press("2", *start, key)
        from kvtop.views.requests import found

        rows = found(_state(b), b.screen.requests.view, b.time).rows(0, 1000)
        chosen = rows[place(len(rows))]
        assert b.screen.requests.view.selected == chosen.num
        name = ends(chosen.name, 8).strip()
        assert any(line.startswith(name) for line in b.text("requests").splitlines()), f"{name} is not in sight"
        mapped = b.screen.map.map._picked.tolist()
        assert mapped == chosen.table

    return check


def _queue_first(start: tuple[str, ...], place: Callable[[int], int]) -> Check:
    async def check(b: Bench, key: str) -> None:
        while len(b.engine.waiting) < 12:
            b.engine.arrive()
        await b.iterate(1)
        await b.press("3", *start, key)
        assert b.screen.panel(QueuePanel).first == place(b.screen.panel(QueuePanel).body_height)

    return check


def _events_back(start: tuple[str, ...], place: Callable[[Bench], int]) -> Check:
    async def check(b: Bench, key: str) -> None:
        b.screen.panel(EventsPanel).all_kinds = True
        await b.press("4", *start, key)
        assert b.screen.panel(EventsPanel).back == place(b)
        await b.tick()
        assert ("following" in b.text("events")) == (place(b) == 0)

    return check


async def _kinds(b: Bench, key: str) -> None:
    log = b.screen.panel(EventsPanel)
    await b.press("4")
    assert log.shows_all == (log.body_height > FEW_ROWS)
    if not log.shows_all:
        await b.press(key)
    assert any(routine in b.text("events") for routine in (" admit ", " finish ", " evict "))
    assert "all (v)" in b.text("events")
    await b.press(key)
    assert "preempt" in b.text("events")
    assert "notable (v)" in b.text("events")


def _page(b: Bench) -> int:
    return b.screen.panel(EventsPanel).body_height - 1


def _closes(*before: str) -> Check:
    async def check(b: Bench, key: str) -> None:
        await b.press(*before)
        assert isinstance(b.app.screen, Dialog)
        await b.press(key)
        assert not isinstance(b.app.screen, Dialog)
        assert b.app.is_running

    return check


def _goes_in_dialog(before: tuple[str, ...], shows: str) -> Check:
    async def check(b: Bench, key: str) -> None:
        await b.press(*before)
        await b.until(lambda: "asking the engine" not in b.text("card"))
        assert shows not in b.text("card")
        await b.press(key)
        await b.until(lambda: shows in b.text("card"))

    return check


async def _opens_alarms(b: Bench, key: str) -> None:
    await b.press(key)
    assert isinstance(b.app.screen, AlarmsScreen)
    assert "blocks whose owner is gone" in b.text("page")
    await b.press(key)
    assert b.app.screen is b.screen


async def _closes_alarms(b: Bench, key: str) -> None:
    await b.press("exclamation_mark", key)
    assert b.app.screen is b.screen


async def _jumps_to_a_victim(b: Bench, key: str) -> None:
    for _ in range(30):
        await b.tick(0.5)  # nothing comes
    await b.press("exclamation_mark", key)
    assert b.app.screen is b.screen
    assert "it hits demo as a whole" in b.text("footer")


def _chooses_alarm(before: str, title: str) -> Check:
    async def check(b: Bench, key: str) -> None:
        await b.iterate(25)
        await b.press("exclamation_mark", *before)
        await b.press(key)
        assert f"▸ {title}" in b.text("page")

    return check


async def _closes_help(b: Bench, key: str) -> None:
    for opens in (("question_mark",), ("2", "g", "enter")):
        await b.press(*opens)
        assert isinstance(b.app.screen, TextScreen)
        await b.press(key)
        assert b.app.screen is b.screen


def _scrolls_help(before: tuple[str, ...], first: Callable[[int, int], int]) -> Check:
    """``first(page, last)`` is the first line shown after the key."""

    async def check(b: Bench, key: str) -> None:
        await b.press("question_mark", *before, key)
        scroll = b.app.screen.query_one(VerticalScroll)
        assert scroll.scroll_offset.y == first(scroll.size.height, scroll.max_scroll_y)

    return check


async def _copy(b: Bench, key: str) -> None:
    await b.press("2", "g", key)
    assert b.notes()[-1].startswith("the request's id: ")


CHECKS: dict[tuple[str, str], Check] = {
    ("everywhere", "help"): _help,
    ("everywhere", "quit"): _quit,
    ("everywhere", "command_palette"): _palette,
    ("everywhere", "policy"): _policy,
    ("everywhere", "pause_view"): _pause_view,
    ("everywhere", "snapshot"): _snapshot,
    ("everywhere", "bundle"): _bundle,
    ("everywhere", "copy"): _copy,
    ("everywhere", "colour"): _colour,
    ("everywhere", "filter"): _filter,
    ("everywhere", "numbers"): _numbers,
    ("everywhere", "alarms"): _opens_alarms,
    ("everywhere", "pause_engine"): _pause_engine,
    ("everywhere", "reset_cache"): _reset_cache,
    ("everywhere", "compact"): _compact,
    ("everywhere", "full"): _full,
    ("everywhere", "overview"): _overview,
    ("everywhere", "focus_panel('map')"): _goes_to("map"),
    ("everywhere", "focus_panel('requests')"): _goes_to("requests"),
    ("everywhere", "focus_panel('queue')"): _goes_to("queue"),
    ("everywhere", "focus_panel('events')"): _goes_to("events"),
    ("everywhere", "focus_panel('scheduler')"): _goes_to("scheduler"),
    ("everywhere", "focus_panel('latency')"): _goes_to("latency"),
    ("everywhere", "focus_panel('policies')"): _goes_to("policies"),
    ("policies", "older"): _says("policies", ("8",), "policy"),
    ("policies", "newer"): _says("policies", ("8",), "policy"),
    ("policies", "down"): _axis_at(1),
    ("policies", "up"): _axis_at(0),
    ("latency", "metric"): _titled("latency", ("7",), "tpot, 1 min"),
    ("latency", "window"): _titled("latency", ("7",), "ttft, 5 min"),
    ("latency", "level"): _titled("latency", ("7",), "service level:"),
    ("everywhere", "focus_panel('tiers')"): _tiers,
    ("everywhere", "next_tier"): _tiers,
    ("everywhere", "focus_next"): _in_turn("requests", "queue", "events", "map"),
    ("everywhere", "focus_previous"): _in_turn("events", "queue", "requests", "map"),
    ("everywhere", "suspend_process"): _suspend,
    ("everywhere", "redraw"): _redraw,
    ("block map", "left"): _cursor_goes(("g", "l", "l"), lambda w, n: 1),
    ("block map", "right"): _cursor_goes(("g", "l"), lambda w, n: 2),
    ("block map", "down"): _cursor_goes(("g",), lambda w, n: w),
    ("block map", "up"): _cursor_goes(("g", "j", "j"), lambda w, n: w),
    ("block map", "top"): _cursor_goes(("l", "l"), lambda w, n: 0),
    ("block map", "bottom"): _cursor_goes(("g",), lambda w, n: n - 1),
    ("block map", "open"): _owner,
    ("block map", "zoom_in"): _zoom_in,
    ("block map", "zoom_out"): _out(("plus",)),
    ("block map", "whole"): _out(("plus", "plus")),
    ("block map", "page_down"): _pages((), lambda h, n: h),
    ("block map", "page_up"): _pages(("G",), lambda h, n: n - 1 - h),
    ("block map", "find"): _find,
    ("block map", "follow"): _follow,
    ("block map", "flash"): _flash,
    ("requests", "open"): _table,
    ("requests", "sort"): _sort,
    ("requests", "reverse"): _reverse,
    ("requests", "columns"): _columns,
    ("requests", "abort"): _asks("abort", "abort "),
    ("requests", "preempt"): _asks("preempt", "preempt "),
    ("requests", "pin"): _asks("pin", " pin "),
    ("requests", "unpin"): _asks("unpin", "unpin "),
    ("requests", "clear"): _clear,
    ("requests", "down"): _selects(("g",), lambda n: 1),
    ("requests", "up"): _selects(("g", "j", "j"), lambda n: 1),
    ("requests", "page_down"): _selects(("g",), lambda n: 3),
    ("requests", "page_up"): _selects(("G",), lambda n: n - 4),
    ("requests", "top"): _selects(("j", "j"), lambda n: 0),
    ("requests", "bottom"): _selects(("g",), lambda n: n - 1),
    ("queue", "down"): _queue_first((), lambda h: 1),
    ("queue", "up"): _queue_first(("j", "j"), lambda h: 1),
    ("queue", "page_down"): _queue_first((), lambda h: max(1, h - 1)),
    ("queue", "page_up"): _queue_first(("j", "pagedown"), lambda h: 1),
    ("queue", "top"): _queue_first(("j", "j"), lambda h: 0),
    ("queue", "bottom"): _queue_first((), lambda h: 11),
    ("events", "kinds"): _kinds,
    ("events", "follow"): _events_back(("k", "k"), lambda b: 0),
    ("events", "up"): _events_back((), lambda b: 1),
    ("events", "down"): _events_back(("k", "k"), lambda b: 1),
    ("events", "page_up"): _events_back(("k",), lambda b: 1 + _page(b)),
    ("events", "page_down"): _events_back(("k", "pageup"), lambda b: 1),
    ("events", "top"): _events_back((), lambda b: len(_state(b).events) - b.screen.panel(EventsPanel).body_height),
    ("events", "bottom"): _events_back(("g",), lambda b: 0),
    ("dialogs", "close"): _closes("P", "enter"),
    ("dialogs", "back"): _goes_in_dialog(("P", "enter"), "policies"),
    ("dialogs", "next"): _goes_in_dialog(("E",), "> Pause <"),
    ("dialogs", "previous"): _goes_in_dialog(("E",), "> Pause <"),
    ("dialogs", "down"): _goes_in_dialog(("P",), "▸ order"),
    ("dialogs", "up"): _goes_in_dialog(("P", "j", "j"), "▸ order"),
    ("help and tables", "close"): _closes_help,
    ("help and tables", "down"): _scrolls_help((), lambda page, last: 1),
    ("help and tables", "up"): _scrolls_help(("j", "j"), lambda page, last: 1),
    ("help and tables", "page_down"): _scrolls_help((), lambda page, last: page),
    ("help and tables", "page_up"): _scrolls_help(("j", "space"), lambda page, last: 1),
    ("help and tables", "top"): _scrolls_help(("space",), lambda page, last: 0),
    ("help and tables", "bottom"): _scrolls_help((), lambda page, last: last),
    ("alarms", "close"): _closes_alarms,
    ("alarms", "jump"): _jumps_to_a_victim,
    ("alarms", "down"): _chooses_alarm("", "no progress"),
    ("alarms", "up"): _chooses_alarm("G", "tier thrash"),
    ("alarms", "page_down"): _chooses_alarm("", "blocks whose owner is gone"),
    ("alarms", "page_up"): _chooses_alarm("G", "head can never fit"),
    ("alarms", "top"): _chooses_alarm("G", "stale data"),
    ("alarms", "bottom"): _chooses_alarm("", "hit rate collapse"),
    ("dialogs", "transition"): _goes_in_dialog(("P", "enter", "k", "enter"), "● preempt"),
}
