"""The panel of requests: a filter as it is typed, and which columns there are."""

from pathlib import Path

import pytest

from kvtop.views.columns import NAMES
from kvtop.views.request_filter import EVERYTHING
from tests.app.harness import bench, in_loop


def title_of_columns(text: str) -> list[str]:
    return text.splitlines()[1].replace("▲", "").replace("▼", "").split()


@in_loop
async def test_a_mistake_is_marked_under_its_place_and_the_last_good_filter_stays(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("slash")
        assert "a text, or: state:waiting prompt>4k" in b.text("requests").splitlines()[1]
        await b.press(*"state:running")
        shown = b.text("requests").splitlines()[3:]
        assert all(" decode " in line or " prefill " in line for line in shown if line.strip())
        await b.press(*" promt>4")
        mark = b.text("requests").splitlines()[1]
        assert mark.index("^") == len("─2 requests: filter ") + len("state:running ")
        assert "no field promt; did you mean prompt?" in mark
        assert b.screen.requests.view.filter.printed == "state:running"
        assert b.text("requests").splitlines()[3:] == shown
        # Enter keeps what is no filter in the field; leaving it otherwise says what became of it.
        await b.press("enter")
        assert b.screen.requests.filter.has_focus
        assert "no filter yet" in b.text("footer")
        await b.press("tab")
        assert "what was typed is no filter; 'state:running' stays in force" in b.text("footer")
        assert "filter 'state:running" in b.text("requests").splitlines()[0]


@in_loop
async def test_the_field_begins_with_the_filter_in_force_and_esc_clears_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("slash", *"out", "tab", "slash")
        assert b.screen.requests.filter.value == "out"
        assert "out > >= < <= = output tokens so far" in b.text("requests").splitlines()[1]
        assert b.screen.requests.view.filter.printed == "out"
        await b.press("escape")
        assert b.screen.requests.view.filter == EVERYTHING


@in_loop
async def test_columns_are_ticked_and_moved_and_the_table_follows_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("2", "w")
        assert "[x] prefill         no room for it" in b.text("card")
        await b.press("j", "enter")  # the state goes
        await b.press("j", "j", "l", "l")  # the prompt comes later
        assert b.screen.requests.view.columns[:5] == ("id", "priority", "cached", "computed", "prompt")
        await b.press("home", "enter")  # the id cannot go
        assert "the id is always shown" in b.text("card")
        await b.press("escape")
        titles = title_of_columns(b.text("requests"))
        assert titles[:5] == ["id", "pri", "cached", "computed", "prompt"]
        assert "lost" in titles  # there is room for it now
        # Choices last until they are made anew.
        await b.iterate(5)
        assert title_of_columns(b.text("requests"))[:2] == ["id", "pri"]


@in_loop
async def test_all_columns_come_back(tmp_path: Path) -> None:
    async with bench(tmp_path, columns=("wait", "id")) as b:
        assert title_of_columns(b.text("requests")) == ["wait", "id"]
        await b.press("2", "o")
        assert "by wait" in b.text("requests")
        await b.press("w", "end", "enter")
        assert b.screen.requests.view.columns == NAMES


@pytest.mark.parametrize("keys", [("w",), ("slash", *"promt>")])
@in_loop
async def test_it_is_drawn_in_ascii_too(keys: tuple[str, ...], tmp_path: Path) -> None:
    async with bench(tmp_path, ascii_only=True) as b:
        await b.press("2", *keys)
        assert b.text().isascii()
