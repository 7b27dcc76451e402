"""The review of the next day, by keys alone in a real terminal: who was preempted most, for whom, at what cost; the moment before
it began; the bundle, in which the same is to be read."""

import json
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from kvtop.protocol import Event, IterationFrame, encode
from tests.app.live_engine import LiveEngine
from tests.e2e.engines import KVTOP_TYPED
from tests.e2e.tmux import Tmux
from tests.recordings.kit import Told, recording

KEYS_ALLOWED = 8


def storm() -> list[Told]:
    """A calm engine, then more than its memory holds."""
    engine = LiveEngine(seed=3, arrivals=0.03, max_running=40)
    for _ in range(60):
        engine.step()
    said: list[Told] = [(encode(hello := engine.hello()), hello)]
    for number in range(900):
        if number % 50 == 0:
            said.append((encode(key := engine.keyframe()), key))
        if number == 300:
            engine.arrivals = 0.2
        said.append((encode(frame := engine.step()), frame))
    return said


def test_from_the_alarm_to_the_bundle(terminal: Callable[..., Tmux], tmp_path: Path) -> None:
    said = storm()
    recording(tmp_path / "storm.kvtop", said)
    events: list[Event] = [e for _, f in said if isinstance(f, IterationFrame) for e in f.events if e.kind == "preempt"]
    times = Counter(event.request_id for event in events)
    (name, most), (_, next_most) = times.most_common(2)
    assert most > next_most
    own = [event for event in events if event.request_id == name]
    tokens = sum(event.tokens or 0 for event in own)

    screen = terminal()
    screen.run(f"{KVTOP_TYPED} replay storm.kvtop --at end")
    screen.wait_for("REPLAY of .*, end")
    keys = 0
    for key, shown in (
        ("V", rf"{name} +{most} +{tokens} tokens"),
        ("Enter", rf"preempt {name} by {own[0].by_id}.*lost {own[0].tokens} tokens"),
        ("[", rf"{name} +(decode|prefill) .* 0\b"),
    ):
        keys += 1
        screen.keys(key)
        screen.wait_for(shown)
    assert f"preempt {name}" not in screen.screen()
    keys += 1
    screen.keys("S")
    screen.wait_for(r"bundle kvtop-bundle-demo-\S+\.zip")
    assert keys <= KEYS_ALLOWED
    screen.keys("q")

    (path,) = tmp_path.glob("kvtop-bundle-*.zip")
    with zipfile.ZipFile(path) as bundle:
        document = json.loads(bundle.read("summary.json"))
        words = bundle.read("summary.md").decode()
        page = bundle.read("report.html").decode()
    # The bundle has a minute after the moment: what happened in it, so what of the storm was in that minute.
    until = document["moment"] + 60.0
    within = [event for event in own if event.wall <= until]
    first = document["preempted"][0]
    assert (first["request"], first["times"]) == (name, len(within))
    assert first["tokens"] == sum(event.tokens or 0 for event in within)
    assert first["by"] == dict(Counter(event.by_id for event in within))
    assert f"| `{name}` |" in next(line for line in words.splitlines() if line.startswith("| `"))
    assert f'"victims":[{{"request":"{name}"' in page
