"""Writing a snapshot takes as long as it takes; the screen goes on meanwhile, and what is written is what was shown."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from kvtop.app import snapshots
from tests.app.harness import bench, in_loop


@in_loop
async def test_keys_act_while_a_snapshot_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, write = threading.Event(), snapshots.write_snapshot

    def slowly(*args: Any, **options: Any) -> list[Path]:
        assert go_on.wait(30)
        return write(*args, **options)

    monkeypatch.setattr(snapshots, "write_snapshot", slowly)
    async with bench(tmp_path) as b:
        try:
            iteration, rows = b.screen.feed.live.iteration, len(b.screen.feed.live.requests or {})
            await b.press("2", "j", "s")
            selected = b.screen.requests.view.selected
            await b.iterate(50)
            await b.press("j")
            assert b.screen.requests.view.selected != selected
            assert b.screen.feed.live.iteration != iteration
            assert not list(tmp_path.glob("*.json"))
        finally:
            go_on.set()
        await b.until(lambda: "snapshot in" in b.text())
        document = json.loads(next(tmp_path.glob("*.json")).read_text())
        assert document["iteration"] == iteration
        assert len(document["requests"]) == rows
