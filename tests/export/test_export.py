"""Recordings in the formats of others: what is written is what was recorded, valid, and whole or not there."""

import csv
import io
import json
import os
import re
import stat
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kvtop.bundle.bundle import Wanted, write_bundle
from kvtop.cli import main, run
from kvtop.errors import UserError
from kvtop.export.tracks import RequestTracks, TransferTracks
from kvtop.protocol import AnyFrame, Event, IterationFrame, Keyframe, TierTraffic, encode
from kvtop.record import Recording
from kvtop.state import Changes, EngineState
from tests.recordings.kit import Told, recording, told


@pytest.fixture(scope="module")
def storm() -> tuple[Told, ...]:
    return told(900, seed=9)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, storm: tuple[Told, ...]) -> Path:
    return recording(tmp_path_factory.mktemp("storm") / "storm.kvtop", storm)


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An engine that was restarted in it, and whose clock begins anew."""
    return recording(tmp_path_factory.mktemp("twice") / "twice.kvtop", (*told(120), *told(120, run="run-2")))


def exported(path: Path, to: str, out: Path, *options: str) -> str:
    assert run(["export", str(path), "--to", to, "-o", str(out / f"x.{to}"), *options]) == 0
    return (out / f"x.{to}").read_text()


def preemptions(said: tuple[Told, ...]) -> list[Event]:
    return [e for _, f in said if isinstance(f, IterationFrame) for e in f.events if e.kind == "preempt"]


def test_a_table_has_a_row_a_second_and_says_units(path: Path, storm: tuple[Told, ...], tmp_path: Path) -> None:
    rows = list(csv.DictReader(exported(path, "csv", tmp_path).splitlines()))
    frames = [frame for _, frame in storm if isinstance(frame, IterationFrame)]
    walls = [float(row["wall_unix_s"]) for row in rows]
    assert len(rows) == len({int(wall - walls[0] + 1e-6) for wall in walls})
    assert frames[-1].wall - frames[0].wall - 2 <= len(rows) - 1 <= frames[-1].wall - frames[0].wall + 1
    by_wall = {frame.wall: frame for frame in frames}
    told_of = [(row, by_wall[wall]) for row, wall in zip(rows, walls, strict=True) if wall in by_wall]
    assert len(told_of) > 5
    for row, frame in told_of:
        assert frame.gauges is not None
        assert int(row["running_requests"]) == frame.gauges.running
        assert int(row["kv_used_blocks"]) == (frame.gauges.kv_blocks_active or 0) + (frame.gauges.kv_blocks_shared or 0)
        assert int(row["iteration"]) == frame.iteration
    assert rows[0]["decode_tokens_per_s"] == ""  # not known yet, and no 0
    assert float(rows[-1]["decode_tokens_per_s"]) > 0


def test_a_stretch_begins_with_its_rates_known(path: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(exported(path, "csv", tmp_path, "--from", "+20", "--to-moment", "+30").splitlines()))
    assert 9 <= len(rows) <= 12
    assert float(rows[0]["decode_tokens_per_s"]) > 0
    assert 9 <= float(rows[-1]["wall_unix_s"]) - float(rows[0]["wall_unix_s"]) <= 10.1


def test_lines_of_json_tell_every_event_once_and_end_with_an_end(
    path: Path, storm: tuple[Told, ...], tmp_path: Path
) -> None:
    lines = [json.loads(line) for line in exported(path, "json", tmp_path).splitlines()]
    assert [lines[0]["type"], lines[-1]["type"]] == ["run", "end"]
    assert lines[0]["schema"] == "kvtop.export/1"
    events = [line for line in lines if line["type"] == "event"]
    assert [e["id"] for e in events if e["kind"] == "preempt"] == [event.id for event in preemptions(storm)]
    assert len(events) == lines[-1]["events"] == len({event["id"] for event in events})
    assert lines[-1]["seconds"] == sum(line["type"] == "second" for line in lines)
    assert lines[-1]["missing"] == []


def test_what_the_first_keyframe_repeats_is_none_of_the_stretch(tmp_path: Path) -> None:
    hello, keyframe, *frames = (frame for _, frame in told(40))
    assert isinstance(keyframe, Keyframe)
    old = Event(id=0, kind="preempt", iteration=1, wall=keyframe.wall - 60.0, request=1)
    said: list[AnyFrame] = [hello, keyframe.model_copy(update={"events": [old]}), *frames]
    path = recording(tmp_path / "old.kvtop", [(encode(frame), frame) for frame in said])
    lines = [json.loads(line) for line in exported(path, "json", tmp_path).splitlines()]
    events = [line for line in lines if line["type"] == "event" and line["written_by"] == "engine"]
    assert events
    assert old.id not in [event["id"] for event in events]


def series_in(text: str) -> dict[str, float]:
    """The date of the last sample of each series, of a text that a reader of OpenMetrics takes."""
    assert text.endswith("# EOF\n")
    families: list[str] = []
    latest: dict[str, float] = {}
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE"):
            families.append(line.split()[2])
        elif not line.startswith("#"):
            found = re.fullmatch(r"(kvtop_\w+)(\{.*\}) (\S+) (\d+\.\d+)", line)
            assert found, line
            assert found[1].removesuffix("_total") == families[-1].removesuffix("_total")
            assert float(found[4]) > latest.get(found[1] + found[2], 0.0)
            latest[found[1] + found[2]] = float(found[4])
            float(found[3])
    assert len(families) == len(set(families)) > 10
    assert {family.name for family in text_string_to_metric_families(text)} == set(families)
    return latest


def test_series_stand_together_and_their_times_rise(twice: Path, tmp_path: Path) -> None:
    latest = series_in(exported(twice, "openmetrics", tmp_path))
    assert {re.search(r'run="([^"]*)"', series)[1] for series in latest} == {"run-1", "run-2"}  # type: ignore[index]


def checked(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a trace that every viewer can read: fields there, times in order, slices begun and ended in turn."""
    events: list[dict[str, Any]] = trace["traceEvents"]
    latest = 0
    stacks: dict[tuple[int, int], list[dict[str, Any]]] = {}
    copied: dict[tuple[int, int], int] = {}
    for event in events:
        assert isinstance(event["ts"], int)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["ph"] in set("MBEXCisf")
        assert event["ph"] == "E" or event["name"]
        track = (event["pid"], event["tid"])
        if event["ph"] != "M":
            assert event["ts"] >= latest
            latest = event["ts"]
        if event["ph"] == "B":
            stacks.setdefault(track, []).append(event)
            assert len(stacks[track]) == 1
        elif event["ph"] == "E":
            assert stacks[track].pop()["ts"] <= event["ts"]
        elif event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["ts"] >= copied.get(track, 0)
            copied[track] = event["ts"] + event["dur"]
        elif event["ph"] in "sf":
            assert stacks[track], "an arrow from or to no slice"
    assert not any(stacks.values())
    return events


def test_a_trace_has_a_track_a_request_and_an_arrow_from_each_victim(
    path: Path, storm: tuple[Told, ...], tmp_path: Path
) -> None:
    events = checked(json.loads(exported(path, "perfetto", tmp_path)))
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    told_of = preemptions(storm)
    marks = [e for e in events if e["ph"] == "i" and e["name"] == "preempt"]
    assert len(marks) == len(told_of)
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    arrows = Counter(
        (names[e["pid"], e["tid"]].split()[0], names[ends[e["id"]]["pid"], ends[e["id"]]["tid"]].split()[0])
        for e in events
        if e["ph"] == "s"
    )
    assert arrows
    assert arrows <= Counter((event.request_id, event.by_id) for event in told_of)
    phases = Counter(e["name"] for e in events if e["ph"] == "B")
    assert {"waiting", "prefill", "decode", "preempted"} <= set(phases)
    counters = {e["name"] for e in events if e["ph"] == "C"}
    assert counters == {"KV blocks", "running", "waiting", "tokens/s"}


def test_requests_in_decode_are_in_a_slice_that_says_so(path: Path, storm: tuple[Told, ...], tmp_path: Path) -> None:
    """At the last frame the trace has as many open slices of each phase as the engine said requests are in it."""
    events = checked(json.loads(exported(path, "perfetto", tmp_path)))
    end = max(e["ts"] for e in events)
    still: Counter[str] = Counter()
    begun: dict[int, str] = {}
    for event in events:
        if event["ph"] == "B":
            begun[event["tid"]] = event["name"]
        elif event["ph"] == "E" and event["ts"] == end and not event["args"]:
            still[begun[event["tid"]]] += 1
    last = next(f for _, f in reversed(storm) if isinstance(f, IterationFrame) and f.gauges is not None)
    assert last.gauges is not None
    assert still["prefill"] + still["decode"] == last.gauges.running
    assert still["waiting"] + still["preempted"] + still["swapped"] == last.gauges.waiting


def test_a_restart_ends_all_slices_and_begins_other_tracks(twice: Path, tmp_path: Path) -> None:
    events = checked(json.loads(exported(twice, "perfetto", tmp_path)))
    named = [e["args"]["name"] for e in events if e.get("name") == "process_name"]
    assert sum("(run 2)" in name for name in named) == 3
    assert {e["pid"] for e in events if e["ph"] == "B"} == {1, 11}
    rows = list(csv.DictReader(exported(twice, "csv", tmp_path).splitlines()))
    assert {row["run"] for row in rows} == {"1", "2"}
    lines = [json.loads(line) for line in exported(twice, "json", tmp_path).splitlines()]
    assert [line["run"] for line in lines if line["type"] == "run"] == [1, 2]


@pytest.mark.parametrize(("mono", "wall"), [(-1000.0, -1000.0), (0.0, 1000.0), (1000.0, 0.0)])
def test_a_trace_stays_whole_where_clocks_jump_and_frames_are_missing(mono: float, wall: float, tmp_path: Path) -> None:
    said: list[AnyFrame] = []
    for number, (_, frame) in enumerate(told(200)):
        if isinstance(frame, IterationFrame | Keyframe) and number > 90:
            frame = frame.model_copy(update={"mono": frame.mono + mono, "wall": frame.wall + wall})
        if not 120 < number < 140:
            said.append(frame)
    path = recording(tmp_path / "jumps.kvtop", [(encode(frame), frame) for frame in said])
    events = checked(json.loads(exported(path, "perfetto", tmp_path)))
    assert max(e["ts"] for e in events) < 30e6
    rows = list(csv.DictReader(exported(path, "csv", tmp_path).splitlines()))
    assert 4 < len(rows) < 30
    series_in(exported(path, "openmetrics", tmp_path))


def test_the_slice_of_a_request_that_is_no_longer_told_of_ends() -> None:
    state = EngineState()
    hello, keyframe = (frame for _, frame in told(1)[:2])
    changes = [state.apply(frame, 0.0) for frame in (hello, keyframe)][-1]
    tracks = RequestTracks(pid=1)
    begun = [e for e in tracks.take(state, changes, 0, 1000) if e["ph"] == "B"]
    assert len(begun) > 2
    assert state.requests is not None
    gone = begun[0]["tid"] - 1
    state.requests.forget(gone)
    ended = tracks.take(state, Changes(requests={gone}), 1000, 2000)
    assert [(e["ph"], e["tid"], e["ts"]) for e in ended] == [("E", gone + 1, 2000)]
    assert not tracks.is_open(gone)


def test_copies_between_tiers_are_slices_that_do_not_overlap() -> None:
    tracks = TransferTracks(pid=2)
    down = TierTraffic(source="device", target="host", blocks=3, bytes=300, ms=5.0)
    up = TierTraffic(source="host", target="device", blocks=1, bytes=100, ms=0.5)
    first, second = tracks.take([down, up], 0, 10_000), tracks.take([down, down], 10_000, 12_000)
    trace = {"traceEvents": sorted([*first, *second], key=lambda event: event["ts"])}
    slices = [e for e in checked(trace) if e["ph"] == "X"]
    assert [(e["tid"], e["ts"], e["dur"]) for e in slices] == [(1, 5_000, 5_000), (2, 9_500, 500), (1, 10_000, 2_000)]
    assert slices[2]["args"]["ms"] == 5.0
    assert [e["args"]["name"] for e in first if e["ph"] == "M"] == ["device → host", "host → device"]


def test_names_from_outside_are_only_names(storm: tuple[Told, ...], tmp_path: Path) -> None:
    hello, *rest = (frame for _, frame in storm[:80])
    engine = hello.engine.model_copy(update={"name": 'a"b\\c\nd\x1b[31m'})  # type: ignore[union-attr]
    said = [hello.model_copy(update={"engine": engine}), *rest]
    hostile = recording(tmp_path / "h.kvtop", [(encode(frame), frame) for frame in said])
    series = exported(hostile, "openmetrics", tmp_path)
    assert r'engine="a\"b\\c\nd?[31m"' in series
    for to in ("csv", "json", "perfetto"):
        assert "\x1b" not in exported(hostile, to, tmp_path)
    checked(json.loads((tmp_path / "x.perfetto").read_text()))


def test_what_is_missing_is_said_and_the_rest_is_there(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 8] = b"\xff" * 8
    (tmp_path / "broken.kvtop").write_bytes(data)
    lines = [json.loads(line) for line in exported(tmp_path / "broken.kvtop", "json", tmp_path).splitlines()]
    assert lines[-1]["missing"]
    assert "not all of it is there" in capsys.readouterr().err
    checked(json.loads(exported(tmp_path / "broken.kvtop", "perfetto", tmp_path)))


def test_a_bundle_is_exported_as_the_recording_in_it(path: Path, storm: tuple[Told, ...], tmp_path: Path) -> None:
    tape = Recording(path)
    assert tape.end is not None
    bundle, _ = write_bundle(tape, Wanted(tape.end, before=8.0), tmp_path / "b.zip")
    rows = list(csv.DictReader(exported(bundle, "csv", tmp_path).splitlines()))
    said = {f.iteration: f.gauges for _, f in storm if isinstance(f, IterationFrame) and f.gauges is not None}
    assert 8 <= len(rows) <= 12
    assert all(int(row["waiting_requests"]) == said[int(row["iteration"])].waiting for row in rows)
    (tmp_path / "no.zip").write_bytes(b"PK\x05\x06" + bytes(18))
    with pytest.raises(UserError, match="is not in it"):
        run(["export", str(tmp_path / "no.zip"), "--to", "csv"])


def test_a_file_is_for_its_owner_alone_never_over_another_and_never_half(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "x.csv"
    exported(path, "csv", tmp_path)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    with pytest.raises(UserError, match="exists"):
        exported(path, "csv", tmp_path)
    assert run(["export", str(path), "--to", "csv", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "storm.csv").read_bytes() == place.read_bytes()
    before = sorted(tmp_path.iterdir())

    def fails(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(UserError, match="No space left"):
        run(["export", str(path), "--to", "json", "-o", str(tmp_path / "full.ndjson")])
    assert sorted(tmp_path.iterdir()) == before


def test_a_picture_is_of_one_moment_and_a_stretch_is_none(path: Path, tmp_path: Path) -> None:
    picture = exported(path, "svg", tmp_path, "--at", "-3", "--size", "80x24")
    assert picture.startswith("<svg")
    words = re.findall(r"\w+", re.sub(r"<[^>]*>|&#160;", " ", picture))
    assert "REPLAY" in words
    assert "live" not in words
    for wrong in (["svg", "--from", "+1"], ["csv", "--at", "+1"], ["csv", "--from", "-1", "--to-moment", "-9"]):
        with pytest.raises(UserError) as fault:
            run(["export", str(path), "--to", *wrong])
        assert fault.value.code == 2
    with pytest.raises(UserError, match="--from 'noon' is no moment"):
        run(["export", str(path), "--to", "csv", "--from", "noon"])


def test_standard_output_gets_what_a_file_gets_whatever_its_encoding(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(kept, encoding="ascii", errors="replace"))
    assert main(["export", str(path), "--to", "svg", "--size", "80x24"]) == 0
    written = kept.getvalue().decode()
    assert not written.isascii()
    assert written.startswith("<svg")


def test_parquet_says_what_it_needs(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["export", str(path), "--to", "parquet", "-o", "none.parquet"]) == 1
    assert "needs pyarrow, which is not installed\n  pip install" in capsys.readouterr().err
    assert not Path("none.parquet").exists()


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_parquet_has_the_rows_of_the_table(path: Path, tmp_path: Path) -> None:
    from pyarrow.parquet import read_table

    assert run(["export", str(path), "--to", "parquet", "-o", str(tmp_path / "x.parquet")]) == 0
    table = read_table(tmp_path / "x.parquet").to_pylist()
    rows = list(csv.DictReader(exported(path, "csv", tmp_path).splitlines()))
    assert [{n: "" if v is None else str(v) for n, v in row.items()} for row in table] == rows
