"""``i``: what the numbers of the focused panel mean, and what they are now."""

from pathlib import Path

from panels.dialogs.pager import PagerScreen
from tests.app.harness import bench, in_loop


@in_loop
async def test_it_tells_of_the_panel_that_has_the_focus(tmp_path: Path) -> None:
    async with bench(tmp_path, size=(120, 40)) as b:
        for key, heading in (
            ("1", "Block map"),
            ("2", "Requests and queue"),
            ("3", "Requests and queue"),
            ("4", "Events"),
        ):
            await b.press(key, "i")
            assert isinstance(b.app.screen, PagerScreen), key
            assert heading in b.text("page").splitlines()[1]
            await b.press("i")
            assert b.app.screen is b.screen


@in_loop
async def test_its_numbers_go_on_and_are_of_the_selected_request(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("2", "g", "i")
        num = b.screen.requests.view.selected
        row = b.screen.feed.live.request(num or 0)
        assert row is not None
        page = b.text("page")
        assert f"Requests and queue · of {row.name}" in page
        assert "tokens sampled so far" in page
        before = row.output_tokens
        assert f"  output              {before}  tokens" in page
        await b.iterate(30)
        row = b.screen.feed.live.request(num or 0)
        assert row is not None
        assert row.output_tokens != before
        assert f"  output              {row.output_tokens}  tokens" in b.text("page")


@in_loop
async def test_without_a_selection_it_says_how_to_see_those_of_requests(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("2", "i")
        assert "select a request to see it" in b.text("page")
