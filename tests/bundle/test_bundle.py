"""The incident bundle: what it says is what happened, whoever reads it finds nothing else in it, and it is whole or not there."""

import json
import os
import re
import stat
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from kvtop.bundle.bundle import Wanted, write_bundle
from kvtop.bundle.pseudonyms import Pseudonyms
from kvtop.bundle.report import embedded
from kvtop.bundle.summary import FIGURES
from kvtop.cli import run
from kvtop.errors import UserError
from kvtop.protocol import Event, IterationFrame, RequestChange, encode
from kvtop.record import Place, Recording
from tests.app.live_engine import LiveEngine
from tests.recordings.kit import Told, recording, told

HOSTILE = "</script><img src=x onerror=alert(1)>|`*[x](y)\x1b[31m"


@pytest.fixture(scope="module")
def storm() -> tuple[Told, ...]:
    return told(900, seed=9)


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory, storm: tuple[Told, ...]) -> Recording:
    return Recording(recording(tmp_path_factory.mktemp("storm") / "storm.kvtop", storm))


def preemptions(said: tuple[Told, ...]) -> list[Event]:
    frames = [frame for _, frame in said if isinstance(frame, IterationFrame)]
    return [event for frame in frames for event in frame.events if event.kind == "preempt"]


def read(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as bundle:
        assert bundle.testzip() is None
        return {name: bundle.read(name) for name in bundle.namelist()}


def place_of(tape: Recording, seq: int) -> Place:
    return Place(0, seq)


def test_it_names_who_was_preempted_most_by_whom_and_at_what_cost(
    tape: Recording, storm: tuple[Told, ...], tmp_path: Path
) -> None:
    assert tape.end is not None
    path, _ = write_bundle(tape, Wanted(tape.end, before=1e6), tmp_path)
    parts = read(path)
    document = json.loads(parts["summary.json"])
    events = preemptions(storm)
    assert len(events) > 3
    times = Counter(event.request_id for event in events)
    assert {victim["request"]: victim["times"] for victim in document["preempted"]} == dict(times)
    most = document["preempted"][0]
    of_most = [event for event in events if event.request_id == most["request"]]
    assert most["times"] == max(times.values())
    assert most["tokens"] == sum(event.tokens or 0 for event in of_most)
    assert most["by"] == dict(Counter(event.by_id for event in of_most))
    text = parts["summary.md"].decode()
    first = next(line for line in text.splitlines() if line.startswith("| `"))
    assert f"`{most['request']}`" in first
    assert f"{most['tokens']} tokens" in first
    page = json.loads(re.search(rb"const data = (\{.*\});\n", parts["report.html"]).group(1))  # type: ignore[union-attr]
    assert page["victims"][0]["request"] == most["request"]
    assert page["victims"][0]["tokens"] == most["tokens"]


def test_it_says_which_alarms_fired_at_the_moment_and_what_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.app.live_engine.CLASSES", (("L", 16, 200),))  # admitted for a block or two, and grow
    engine = LiveEngine(blocks=64, arrivals=0.3)
    frames = [engine.hello(), engine.keyframe(), *(engine.step() for _ in range(600))]
    tape = Recording(recording(tmp_path / "storm.kvtop", [(encode(frame), frame) for frame in frames]))
    assert tape.end is not None
    parts = read(write_bundle(tape, Wanted(tape.end, before=1e6), tmp_path)[0])
    alarms = {alarm["alarm"]: alarm for alarm in json.loads(parts["summary.json"])["alarms"]}
    storm = alarms["preemption_storm"]
    assert storm["state"] == "firing"
    words = parts["summary.md"].decode()
    assert f"- **preemption storm**: {storm['evidence'][:20]}" in words
    assert f"to try: {storm['advice'][:20]}" in words
    fine = [alarm for alarm in alarms.values() if alarm["state"] not in ("firing", "ending")]
    assert fine
    assert all(f"**{alarm['title']}**" not in words for alarm in fine)


def test_only_the_stretch_that_was_asked_for_is_in_it(tape: Recording, tmp_path: Path) -> None:
    assert tape.start is not None
    middle = place_of(tape, tape.start.seq + 250)
    path, story = write_bundle(tape, Wanted(middle, before=4.0, after=2.0), tmp_path / "part.zip")
    assert story.moment - 4.0 - 1.3 <= story.began <= story.moment - 4.0 + 0.06
    assert story.ended == pytest.approx(story.moment + 2.0, abs=0.06)
    (tmp_path / "r.kvtop").write_bytes(read(path)["recording.kvtop"])
    own = Recording(tmp_path / "r.kvtop")
    assert own.end is not None
    assert own.end.seq == pytest.approx(middle.seq + 40, abs=2)
    assert not own.damage
    document = json.loads(read(path)["summary.json"])
    assert [figure["figure"] for figure in document["before_and_after"]] == list(FIGURES)
    assert all(figure["n_before"] + figure["n_after"] > 4 for figure in document["before_and_after"][:3])


def test_it_is_one_file_for_its_owner_alone_and_never_over_another(tape: Recording, tmp_path: Path) -> None:
    assert tape.end is not None
    paths = [write_bundle(tape, Wanted(tape.end), tmp_path)[0] for _ in range(2)]
    assert paths[1].stem == paths[0].stem + "-2"
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    with pytest.raises(UserError, match="exists"):
        write_bundle(tape, Wanted(tape.end), paths[0])
    assert sorted(tmp_path.iterdir()) == sorted(paths)


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_place_that_cannot_be_written_leaves_nothing(tape: Recording, tmp_path: Path) -> None:
    assert tape.end is not None
    with pytest.raises(UserError, match="no bundle at"):
        write_bundle(tape, Wanted(tape.end), tmp_path / "none" / "there.zip")
    assert list(tmp_path.iterdir()) == []


def hostile(said: tuple[Told, ...]) -> list[Told]:
    """The same with one request called otherwise, in all that is told of it."""
    name = next(e.request_id for e in preemptions(said) if e.request_id)
    lines = []
    for line, frame in said:
        text = line.decode().replace(json.dumps(name)[1:-1], json.dumps(HOSTILE)[1:-1])
        told_of = type(frame).model_validate_json(text)
        lines.append((encode(told_of), told_of))
    return lines


def test_names_from_outside_are_text_wherever_they_stand(storm: tuple[Told, ...], tmp_path: Path) -> None:
    tape = Recording(recording(tmp_path / "h.kvtop", hostile(storm)))
    assert tape.end is not None
    parts = read(write_bundle(tape, Wanted(tape.end, before=1e6), tmp_path)[0])
    page = parts["report.html"].decode()
    assert page.count("</script>") == 1
    assert "<img" not in page
    text = parts["summary.md"].decode()
    assert "\x1b" not in text
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(len(re.findall(r"(?<!\\)\|", line)) in (3, 4, 9) for line in table)


def test_redacted_it_has_no_name_of_anybody(storm: tuple[Told, ...], tmp_path: Path) -> None:
    said = hostile(storm)
    tape = Recording(recording(tmp_path / "h.kvtop", said))
    assert tape.end is not None
    parts = read(write_bundle(tape, Wanted(tape.end, before=1e6, redact=True), tmp_path / "r.zip")[0])
    (tmp_path / "r.kvtop").write_bytes(parts.pop("recording.kvtop"))
    own = Recording(tmp_path / "r.kvtop")
    lines = b"".join(line for chunk in own.chunks for line in own.read(chunk))
    everything = lines + b"".join(parts.values())
    changes = [c for _, frame in said for c in getattr(frame, "requests", None) or () if isinstance(c, RequestChange)]
    ids = {change.id for change in changes if change.id}
    assert len(ids) > 10
    for name in ids:
        assert name.encode() not in everything, name
        assert embedded(name)[1:-1].encode() not in everything, name
    hello = next(frame for _, frame in said)
    assert f'"pid":{hello.engine.pid}'.encode() not in lines  # type: ignore[union-attr]
    document = json.loads(parts["summary.json"])
    assert document["environment"]["host"] is None
    assert document["preempted"][0]["request"].startswith("r-")
    assert document["preempted"][0]["times"] == max(Counter(e.request_id for e in preemptions(storm)).values())


def test_redacted_no_sentence_says_where_or_by_whom(storm: tuple[Told, ...], tmp_path: Path) -> None:
    told_of = "written (by command of uid 987654 pid 876543): /home/anna/.local/state/kvtop/flight/x.kvtop; ask http://gpu7:8000/v1"
    said = list(storm)
    at = next(place for place, (_, frame) in enumerate(said) if isinstance(frame, IterationFrame) and frame.events)
    frame = said[at][1]
    assert isinstance(frame, IterationFrame)
    first = frame.events[0].model_copy(update={"kind": "dump", "detail": told_of, "cause": told_of})
    frame = frame.model_copy(update={"events": [first, *frame.events[1:]]})
    said[at] = (encode(frame), frame)
    tape = Recording(recording(tmp_path / "p.kvtop", said))
    assert tape.end is not None
    parts = read(write_bundle(tape, Wanted(tape.end, before=1e6, redact=True), tmp_path / "r.zip")[0])
    (tmp_path / "r.kvtop").write_bytes(parts.pop("recording.kvtop"))
    own = Recording(tmp_path / "r.kvtop")
    everything = b"".join([*(line for chunk in own.chunks for line in own.read(chunk)), *parts.values()])
    for secret in (b"anna", b"987654", b"876543", b"gpu7"):
        assert secret not in everything, secret
    assert b"(path)" in everything


def test_one_name_is_called_the_same_throughout_and_otherwise_in_the_next_bundle() -> None:
    first, second = Pseudonyms(), Pseudonyms()
    assert first.of("r", "a") == first.of("r", "a") != first.of("r", "b")
    assert first.of("r", "a") != second.of("r", "a")
    first.of("r", "two words")
    assert "two words" not in first.sentence("a was preempted by two words, at last")
    assert first.sentence("nobody knows c") == "nobody knows c"


def test_the_command_writes_it_and_says_where(
    tape: Recording, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bundle", str(tape.path), "-o", str(tmp_path), "--at", "-2", "--no-svg"]) == 0
    said = capsys.readouterr().out
    path = Path(said.splitlines()[0])
    assert path.parent == tmp_path
    assert {"summary.md", "summary.json", "report.html", "recording.kvtop", "metrics.txt"} < set(read(path))
    assert "preemption" in said
    assert run(["bundle", str(tape.path), "-o", str(tmp_path / "b.zip"), "--at", "-0.05m", "--no-svg"]) == 0
    assert (
        json.loads(read(tmp_path / "b.zip")["summary.json"])["moment"]
        == json.loads(read(path)["summary.json"])["moment"] - 1
    )
    with pytest.raises(UserError, match="no such file"):
        run(["bundle", str(tmp_path / "none.kvtop")])
