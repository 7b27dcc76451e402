"""``kvtop diff``: moments of recordings, bundles and snapshots, in any pairing."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvtop.bundle.bundle import Wanted, write_bundle
from kvtop.cli import run
from kvtop.errors import UserError
from kvtop.protocol import encode
from kvtop.record import Recording
from kvtop.record.when import place_of
from kvtop.snapshot.document import dumps, snapshot_document
from kvtop.snapshot.reading import SnapshotError, snapshot_state
from kvtop.state.difference import difference
from kvtop.state.moment import moment
from tests.recordings.kit import recording, told


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recording(tmp_path_factory.mktemp("diff") / "a.kvtop", told(300, seed=9))


def document(path: Path, when: str) -> dict[str, Any]:
    tape = Recording(path)
    there = moment(tape, place_of(when, tape))
    assert there is not None
    return snapshot_document(there.state, there.state.wall or 0.0, there.now)


def snapshot(path: Path, when: str, place: Path) -> Path:
    place.write_text(dumps(document(path, when)))
    return place


def told_by(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["diff", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_snapshots_tell_what_the_recording_tells(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = told_by(capsys, f"{path}@+3", str(path))
    assert whole["done"]["iterations"] == whole["iterations"] > 100
    assert whole["preempted"]
    assert whole["arrived"]
    a, b = snapshot(path, "+3", tmp_path / "a.json"), snapshot(path, "end", tmp_path / "b.json")
    assert told_by(capsys, str(a), str(b)) == whole
    assert told_by(capsys, str(a), str(path)) == whole


def test_a_bundle_is_its_moment(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tape = Recording(path)
    bundle, _ = write_bundle(tape, Wanted(place_of("+6", tape), before=9.0, after=9.0), tmp_path / "b.zip")
    assert told_by(capsys, str(bundle), f"{path}@+6")["same"] is True
    assert told_by(capsys, f"{bundle}@end", str(path))["same"] is True


def test_the_earlier_is_before_however_they_are_named(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", str(path), f"{path}@+3", "--json"]) == 0
    said = capsys.readouterr()
    assert "A is later than B" in said.err
    assert json.loads(said.out)["seconds"] > 0
    assert run(["diff", str(path), str(path)]) == 0
    assert "the same in both" in capsys.readouterr().out


def test_other_runs_and_other_engines_are_said(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = told(60, run="run-2")
    restarted = recording(tmp_path / "r.kvtop", again)
    assert run(["diff", str(path), str(restarted)]) == 0
    assert "restarted in between" in capsys.readouterr().out
    hello = again[0][1]
    other = hello.model_copy(update={"engine": hello.engine.model_copy(update={"name": "other"})})  # type: ignore[union-attr]
    others = recording(tmp_path / "o.kvtop", [(encode(other), other), *again[1:]])
    found = told_by(capsys, str(path), str(others))
    assert found["said"].startswith("two engines, ")
    assert found["same"] is False
    assert found["seconds"] is None


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"schema": "kvtop.snapshot/9"}, "kvtop.snapshot/9"),
        ({"engine": 3}, "engine"),
        ({"gauges": {"running": "many"}}, "gauges.running"),
        ({"requests": [7]}, "requests.0"),
        ({"requests": {}}, "requests"),
        ({"blocks": "many"}, "blocks"),
        ({"blocks": {"runs": [[1]], "states": ["free"]}}, "blocks.0"),
    ],
)
def test_what_is_no_snapshot_is_refused_by_its_place(path: Path, change: dict[str, Any], place: str) -> None:
    told_of = json.loads(dumps(document(path, "end")))
    snapshot_state(told_of)
    with pytest.raises(SnapshotError, match=place):
        snapshot_state(told_of | change)


def test_what_a_snapshot_does_not_tell_is_unknown(path: Path) -> None:
    told_of = json.loads(dumps(document(path, "end")))
    bare = snapshot_state(told_of | {"requests": None, "blocks": None, "gauges": {}})
    found = difference(bare, snapshot_state(told_of))
    assert (found.states, found.owners, found.arrived[:0], found.gone) == ([], None, [], [])
    assert all(level.before is None for level in found.levels)


def test_files_that_are_none_of_these_are_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"schema": "kvtop.snapshot/1", "wall": NaN}')
    (tmp_path / "text").write_text("hello")
    (tmp_path / "digits.json").write_text('{"schema": "kvtop.snapshot/1", "wall": ' + "9" * 5000 + "}")
    (tmp_path / "deep.json").write_text('{"a":' + "[" * 200_000)
    (tmp_path / "bytes.json").write_bytes(b'{"a": "\xff"}')
    good = snapshot(path, "end", tmp_path / "good.json")
    for name, said in (
        ("bad.json", "NaN"),
        ("text", "text"),
        ("digits.json", "digits"),
        ("deep.json", "too deep"),
        ("bytes.json", "byte 7: no UTF-8"),
        ("none", "no such file"),
        (".", "is no file"),
        (f"{good.name}@-5", "a snapshot is of one moment"),
    ):
        with pytest.raises(UserError, match=said):
            run(["diff", str(tmp_path / name), str(path)])
    with pytest.raises(UserError, match="is no moment"):
        run(["diff", f"{path}@noon", str(path)])
