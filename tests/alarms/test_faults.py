"""Each alarm fires when its fault is planted into the real engine, and names whom it hits; a healthy one fires none."""

from typing import Any

import pytest

import tests.app.live_engine as live_engine
from engine.serving.watchdog import Limits, Watchdog, facts_of
from kvtop.alarms import Settings
from kvtop.protocol import IterationFrame, Keyframe, Verdict
from tests.alarms.watching import Watched, of, watched
from tests.app.live_engine import STEP_S, LiveEngine
from tests.engine import pool_faults
from tests.recording import recorded


def of_class(monkeypatch: pytest.MonkeyPatch, label: str, prompt: int, output: int) -> None:
    """Only such requests arrive."""
    monkeypatch.setattr(live_engine, "CLASSES", ((label, prompt, output),))


def steps(seconds: float) -> int:
    return round(seconds / STEP_S)


def test_a_healthy_engine_fires_none_in_a_minute() -> None:
    seen = watched(LiveEngine(), iterations=steps(60))
    assert seen.told == []
    assert {check.name: check.status for check in seen.watch.report.checks} == dict.fromkeys(
        (
            "stale_data",
            "no_progress",
            "ledger_violation",
            "orphan_blocks",
            "never_fits",
            "preemption_storm",
            "tier_thrash",
        ),
        "fine",
    ) | {"hit_collapse": seen.check("hit_collapse").status}


def test_none_of_the_recorded_scenes_fires_any() -> None:
    for scene in ("crowded", "idle", "paused", "tiers", "families", "restart", "other-run"):
        assert of(frame for frame in recorded(scene) if frame.type != "bye").told == [], scene


def test_preemption_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    of_class(monkeypatch, "L", 16, 200)  # all are admitted for a block or two, and grow to thirteen
    engine = LiveEngine(blocks=64, arrivals=0.3)
    seen = watched(engine, iterations=600)
    assert seen.told == [("preemption_storm", True)]
    finding = seen.check("preemption_storm").finding
    assert finding is not None
    assert finding.victim is not None
    assert finding.victim.num is not None
    row = seen.state.request(finding.victim.num)
    assert row is not None
    assert not row.finished
    most = max(row.preemptions or 0 for row in seen.state.requests.values() if not row.finished)  # type: ignore[union-attr]
    assert row.preemptions == most > 1
    counted = int(finding.evidence.split()[0])
    assert 0 <= seen.state.counters["preemptions"] - counted < 6  # those since the last look
    assert f"{row.name} {most} times, lately for L-" in finding.evidence
    assert "set capacity=guaranteed_no_evict" in finding.advice
    assert seen.marks()[0].startswith("ALARM preemption storm: ")


def test_a_head_that_can_never_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = LiveEngine(blocks=64, arrivals=0.0, max_running=2)
    for output in (600, 600, 1100):  # 39, 39 and 70 blocks with all of the output
        of_class(monkeypatch, "L", 16, output)
        request = engine.arrive()
    seen = watched(engine, iterations=20)
    assert seen.told == []
    engine.scheduler.set_policies({"capacity": "guaranteed_no_evict"}, "drain", engine.clock.now)
    seen.follow(engine, steps(4))
    assert seen.told == [("never_fits", True)]
    finding = seen.check("never_fits").finding
    assert finding is not None
    assert finding.victim == ("request", request.id, request.num)
    assert "need 70 blocks and the pool has 64" in finding.evidence
    assert "abort it" in finding.advice
    engine.scheduler.abort(request, engine.clock.now, "asked")
    engine.telemetry.log.finished(request)
    seen.follow(engine, steps(8))
    assert seen.told == [("never_fits", True), ("never_fits", False)]


def test_a_head_that_needs_more_than_there_is() -> None:
    frames = list(recorded("crowded"))
    verdict = Verdict(request=19, code="never_fits", rule="capacity=guaranteed_no_evict", need_blocks=300)
    frames = [f.model_copy(update={"verdict": verdict}) if isinstance(f, IterationFrame) else f for f in frames]
    seen = of(frames)
    assert seen.told == [("never_fits", True)]
    finding = seen.check("never_fits").finding
    assert finding is not None
    row = seen.state.request(19)
    assert row is not None
    assert finding.victim == ("request", row.name, 19)
    assert f"{row.name} needs 300 blocks; the pool has 240" in finding.evidence
    assert "set capacity=max_utilization" not in finding.advice  # it is so already
    assert finding.advice.startswith("abort it")


def test_no_progress_where_iterations_stop_while_requests_run() -> None:
    engine = LiveEngine()
    seen = watched(engine, iterations=100)
    for _ in range(steps(11)):
        seen.hear(engine.step(only_time=True))  # frames come, and tell of no iteration
    assert seen.told == [("no_progress", True)]
    check = seen.check("no_progress")
    assert "there is no iteration in 10 s with" in check.text
    assert check.finding is not None
    assert check.finding.victim is not None
    assert check.finding.victim.num in {request.num for request in (*engine.running, *engine.waiting)}
    assert check.since is not None
    assert check.since <= engine.clock.now - 10.0
    seen.follow(engine, steps(8))
    assert seen.told[-1] == ("no_progress", False)


def test_no_progress_takes_up_what_the_engines_own_watchdog_says(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = LiveEngine()
    dog = Watchdog(Limits(stall=2.0))
    seen = watched(engine, iterations=100)
    for _ in range(steps(5)):
        for notice in dog.look(facts_of(engine.engine, engine.clock.now)):
            engine.telemetry.log.watchdog(notice)
        engine.telemetry.alarm = dog.alarm
        seen.hear(engine.step(only_time=True))
    assert dog.alarm is not None
    check = seen.check("no_progress")
    assert check.status == "firing"
    assert dog.alarm.text in check.text
    assert check.since == pytest.approx(dog.alarm.since)


def test_a_paused_engine_is_no_alarm() -> None:
    engine = LiveEngine()
    seen = watched(engine, iterations=100)
    engine.pause()
    seen.follow(engine, steps(15))
    seen.wait(60.0)
    assert seen.told == []
    assert seen.check("no_progress").text == "paused by command, so nothing is to come"


def test_blocks_whose_owner_is_gone() -> None:
    with pool_faults.leaked_reference():
        engine = LiveEngine(prefix_cache=False)
        seen = watched(engine, iterations=300)
    check = seen.check("orphan_blocks")
    assert check.status == "firing"
    assert check.finding is not None
    assert check.finding.victim is not None
    block = check.finding.victim.num
    pool = engine.scheduler.pool
    assert block is not None
    assert pool.refs_of(block)
    assert int(pool.owner[block]) not in {request.num for request in engine.running}
    assert f"block {block} for" in check.text


def test_ledger_violations_that_the_engine_finds() -> None:
    with pool_faults.leaked_reference():
        engine = LiveEngine(prefix_cache=False)
        seen = watched(engine, Settings.of({"orphan_blocks": "off"}), iterations=300)
        found = engine.scheduler.audit.round()
        engine.telemetry.ledger(found)
        seen.follow(engine, 40)
    check = seen.check("ledger_violation")
    assert check.status == "firing"
    assert f"{len(found):,} contradictions found by the engine" in check.text
    assert check.finding is not None
    assert check.finding.victim is not None
    assert check.finding.victim.name in " ".join(found)


def test_ledger_violations_that_only_we_find() -> None:
    with pool_faults.missing_dirty_mark():
        seen = watched(LiveEngine(), iterations=100)
    check = seen.check("ledger_violation")
    assert check.status == "firing"
    assert "found here" in check.text


def waiting_for_copies(share: float) -> list[Any]:
    """The recorded scene with tiers, its batch waiting for copies of the host tier for so much of the time."""
    frames: list[Any] = []
    first = None
    for frame in recorded("tiers"):
        if isinstance(frame, IterationFrame | Keyframe):
            first = frame.mono if first is None else first
            lost = 1000.0 * share * (frame.mono - first)
            levels = [
                level.model_copy(update={"stall_ms": lost, "stalls": round(lost / 10)})
                if level.tier == "host"
                else level
                for level in frame.tiers
            ]
            frame = frame.model_copy(update={"tiers": levels})
        frames.append(frame)
    return frames


def test_tier_thrash() -> None:
    settings = Settings.of({"tier_thrash.for_s": 1, "tier_thrash.window_s": 5, "tier_thrash.ratio": 20})
    assert of(waiting_for_copies(0.05), settings).told == []
    seen = of(waiting_for_copies(0.4), settings)
    assert seen.told == [("tier_thrash", True)]
    check = seen.check("tier_thrash")
    assert check.finding is not None
    assert check.finding.victim == ("tier", "host", None)
    assert "waits of the batch" in check.text
    assert "preempt_action=recompute" in check.finding.advice


def test_a_hit_rate_that_collapses(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.of({"hit_collapse.window_s": 10, "hit_collapse.before_s": 20, "hit_collapse.for_s": 2})
    of_class(monkeypatch, "chat", 240, 10)  # half of each prompt is the same
    engine = LiveEngine(arrivals=0.3)
    seen = watched(engine, settings, iterations=steps(25))
    assert seen.told == []
    assert seen.check("hit_collapse").status == "fine"
    of_class(monkeypatch, "other", 240, 10)
    seen.follow(engine, steps(14))
    assert seen.told == [("hit_collapse", True)]
    check = seen.check("hit_collapse")
    assert "found in the last 10 s" in check.text
    assert check.finding is not None
    assert check.finding.victim is not None
    row = seen.state.request(check.finding.victim.num or 0)
    assert row is not None
    assert row.cached_tokens == 0


def test_stale_data_where_a_step_hangs() -> None:
    engine = LiveEngine()
    seen: Watched = watched(engine, iterations=100)
    last = engine.clock.now
    seen.wait(9.0)
    assert seen.told == []
    seen.wait(3.0)
    assert seen.told == [("stale_data", True)]
    check = seen.check("stale_data")
    assert check.finding is not None
    assert check.finding.victim == ("engine", "demo", None)
    assert f"{len(engine.running)} requests running" in check.text
    assert "pid 4242" in check.finding.advice
    assert check.since == pytest.approx(last)
    seen.follow(engine, steps(8))
    assert seen.told == [("stale_data", True), ("stale_data", False)]
    over = seen.changes[-1]
    assert over.check.finding == check.finding  # as it was last
    assert over.mono is not None
    assert over.mono > last + 5.0


def test_stale_data_where_the_connection_is_lost() -> None:
    engine = LiveEngine()
    engine.go_idle()
    seen = watched(engine, iterations=20)
    seen.wait(300.0, step=1.0)
    assert seen.told == []  # silent by right
    seen.state.link_down("broken pipe", True, seen.now)
    lost = seen.now
    seen.wait(4.0)
    assert seen.told == [("stale_data", True)]
    check = seen.check("stale_data")
    assert "no connection: broken pipe" in check.text
    assert check.since == pytest.approx(lost - 77.0, abs=0.2)
