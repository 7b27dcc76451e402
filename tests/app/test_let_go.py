"""A view that is held, and let go: it shows the other moment, and looks at what has changed in between and no more."""

from pathlib import Path
from unittest.mock import patch

import pytest

from kvtop.state import Changes
from kvtop.views.block_map import BlockMap
from panels.block_map import BlockMapPanel
from tests.app.harness import bench, in_loop


@pytest.mark.parametrize("meanwhile", [0, 1, 25])
def test_the_map_that_is_let_go_is_that_of_now(meanwhile: int, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with bench(tmp_path) as b:
            screen = b.app.engines[0]
            shown = screen.panel(BlockMapPanel).map
            await b.iterate(5)
            for _ in range(2):
                looked: list[Changes] = []

                def seen(changes: Changes, now: float, looked: list[Changes] = looked) -> set[int]:
                    looked.append(changes)
                    return BlockMap.update(shown, changes, now)

                with patch.object(shown, "update", seen):
                    await b.press("p")
                    assert screen.feed.held
                    before = shown.rows()
                    await b.iterate(meanwhile)
                    assert shown.rows() == before
                    await b.press("p")
                assert not screen.feed.held
                if meanwhile < 2:
                    assert not any(changes.full for changes in looked)
                after = list(shown.rows())
                shown.update(Changes(full=True), 0.0)
                assert shown.rows() == after
                await b.iterate(2)

    run()
