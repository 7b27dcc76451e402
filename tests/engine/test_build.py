"""Engines that do not come to be leave nothing of what was made for them."""

import threading
from pathlib import Path

import pytest

from engine import build as building
from engine.config import EngineConfig


def test_tiers_of_an_engine_that_cannot_be_built_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that tries again, as one that makes an LLM may, has neither their threads nor their file."""
    opened = []

    def failing(*_: object, **__: object) -> None:
        opened.extend(tmp_path.iterdir())
        raise MemoryError("no room for more")

    monkeypatch.setattr(building, "Telemetry", failing)
    before = threading.active_count()
    config = EngineConfig(
        model="random", name="x", device="cpu", host_blocks=4, disk_blocks=4, disk_path=str(tmp_path / "disk.kv")
    )
    with pytest.raises(MemoryError):
        building.build(config, lambda *_: None, lambda _: None)
    assert opened == [tmp_path / "disk.kv"]
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() == before
