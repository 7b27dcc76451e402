"""Keys act on what is visibly selected, and on nothing else."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kvtop.protocol import RequestChange
from panels.dialogs.dialog import Dialog
from panels.dialogs.pager import PagerScreen
from tests.app.harness import Bench, bench, in_loop

KEYS = ("x", "X", "I", "u", "enter")


async def filtered_to_nothing(b: Bench) -> str:
    await b.press("slash", *"zzz", "enter")
    return "no request matches 'zzz'; Esc clears the filter"


async def filtered_away(b: Bench) -> str:
    row = b.screen.feed.live.request(b.screen.requests.view.selected or 0)
    assert row is not None
    other = next(r.name for r in (b.screen.feed.live.requests or {}).values() if r.name not in row.name)
    await b.press("slash", *other, "enter")
    return "hides the selected request; Esc clears it"


async def ended_and_moved(b: Bench) -> str:
    row = b.screen.feed.live.request(b.screen.requests.view.selected or 0)
    assert row is not None
    assert b.screen.feed.live.requests is not None
    b.screen.feed.live.requests.apply(RequestChange(num=row.num, state="finished"), None, print)
    await b.tick()
    return f"{row.name}, selected, moved out of sight when it ended"


async def forgotten(b: Bench) -> str:
    requests = b.screen.feed.live.requests
    assert requests is not None
    requests.forget(b.screen.requests.view.selected or 0)
    await b.tick()
    return "the selected request is gone"


async def none_selected(b: Bench) -> str:
    await b.press("escape")
    return "select a request first: j and k"


@pytest.mark.parametrize(
    ("away", "held"),
    [
        (filtered_to_nothing, False),
        (filtered_to_nothing, True),
        (filtered_away, False),
        (filtered_away, True),
        (ended_and_moved, False),
        (forgotten, False),
        (none_selected, False),
    ],
)
def test_what_is_not_seen_selected_is_not_acted_on(
    away: Callable[[Bench], Awaitable[str]], held: bool, tmp_path: Path
) -> None:
    @in_loop
    async def run() -> None:
        async with bench(tmp_path) as b:
            await b.press("2", "g", *(["p"] if held else []))
            says = await away(b)
            for key in KEYS:
                before = len(b.notes())
                await b.press(key)
                assert not isinstance(b.app.screen, Dialog | PagerScreen), key
                assert says in b.notes()[-1]
                assert len(b.notes()) > before, key
            assert b.control.sent == []

    run()
