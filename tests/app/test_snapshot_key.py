"""Writing a snapshot takes as long as it takes; the screen goes on meanwhile, and what is written is what was shown."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from kvtop.app import snapshots
from kvtop.app.app import KvtopApp, run
from kvtop.sources.socket import SocketSource
from kvtop.state import EngineState
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
        await b.until(lambda: "snapshot kvtop-" in b.text("footer"))
        document = json.loads(next(tmp_path.glob("*.json")).read_text())
        assert document["iteration"] == iteration
        assert len(document["requests"]) == rows


def test_who_leaves_at_once_gets_the_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends its process when `run` returns, whatever threads there are."""
    left, file = threading.Event(), tmp_path / "snapshot.json"

    def slowly(*_: Any) -> list[Path]:
        assert left.wait(30)
        file.write_text("whole")
        return [file]

    def press_s_then_q(app: KvtopApp, *, mouse: bool) -> int:
        app.engines[0].snapshots.write(EngineState(), tmp_path, str, 0.0, lambda *_: None)
        threading.Timer(0.1, left.set).start()
        return 0

    monkeypatch.setattr(snapshots, "write_snapshot", slowly)
    monkeypatch.setattr(KvtopApp, "run", press_s_then_q)
    assert run(SocketSource(tmp_path / "none.sock")) == 0
    assert file.read_text() == "whole"


def test_of_two_snapshots_one_is_written_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_work, most, go_on, begun = 0, 0, threading.Event(), threading.Semaphore(0)

    def slowly(*_: Any) -> list[Path]:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        begun.release()
        assert go_on.wait(30)
        at_work -= 1
        return [tmp_path / "snapshot.json"]

    monkeypatch.setattr(snapshots, "write_snapshot", slowly)
    writer, said = snapshots.SnapshotWriter(), list[str]()
    for _ in range(2):
        writer.write(EngineState(), tmp_path, str, 0.0, lambda text, _: said.append(text))
    assert begun.acquire(timeout=30)
    assert not begun.acquire(timeout=0.2), "the second began beside the first"
    go_on.set()
    writer.finish()
    assert (most, len(said)) == (1, 2)
