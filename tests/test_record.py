"""The recordings are what the engine says now, and small, and a viewer finds nothing wrong in them."""

import gzip

import pytest

from kvtop.state import EngineState
from kvtop.state.ledger import check
from tests.record import SCENES, lines
from tests.recording import FOLDER, recorded


def test_every_file_is_a_scene() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{scene}.ndjson.gz" for scene in SCENES}


@pytest.mark.parametrize("scene", SCENES)
def test_recording_it_again_gives_the_same_frames(scene: str) -> None:
    path = FOLDER / f"{scene}.ndjson.gz"
    then, now = gzip.decompress(path.read_bytes()).splitlines(), lines(scene).splitlines()
    different = next((n for n, pair in enumerate(zip(then, now, strict=False)) if pair[0] != pair[1]), None)
    assert different is None, (
        f"the engine says another thing in line {different} of {scene}; where that is meant: python -m tests.record\n"
        f"then: {then[different or 0][:300]!r}\nnow:  {now[different or 0][:300]!r}"
    )
    assert len(then) == len(now)
    assert path.stat().st_size < 100_000


@pytest.mark.parametrize("scene", SCENES)
def test_it_adds_up_for_a_viewer(scene: str) -> None:
    state = EngineState()
    for frame in recorded(scene):
        state.apply(frame, 0.0)
        assert not state.resync
    assert state.bad_note is None
    assert check(state) == []
