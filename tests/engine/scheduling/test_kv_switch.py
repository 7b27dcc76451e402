"""The KV cache in another element type while the engine serves: when the switch comes, and what it forgets."""

import pytest

from engine.requests.request import RequestState
from tests.engine.driving import Drive


def drive(**policies: object) -> Drive:
    made = Drive(16, **policies)
    made.add(0, 6, 4)
    made.add(1, 6, 9)
    made.step()
    return made


def test_a_drain_lets_those_that_run_end_and_admits_nobody_until_then() -> None:
    d = drive()
    said = d.scheduler.set_policies({"kv_dtype": "int8"}, "drain", d.now).effects
    assert said[0] == ("KV goes from float32 to int8 once 2 requests have ended, and nothing is admitted until then.")
    d.add(2, 5, 3)
    plan = d.step()
    assert plan.verdict is not None
    assert (plan.verdict.code, plan.verdict.rule) == ("draining", "kv_dtype=int8")
    assert plan.verdict.detail == "draining to kv_dtype=int8: waits for 2 requests that still run"
    while d.scheduler.running:
        assert d.storage.switches == []
        assert [r.id for r in d.scheduler.waiting] == ["r2"]
        d.step()
    d.step()
    assert d.storage.switches == ["int8"]
    assert d.running == ["r2"]
    assert d.requests[0].kv_dtype == "float32"
    assert d.requests[2].kv_dtype == "int8"
    assert d.scheduler.transition_text() is None


def test_preempt_recomputes_all_at_once_whatever_preempted_requests_usually_become() -> None:
    d = drive(preempt_action="abort")
    change = d.scheduler.set_policies({"kv_dtype": "int8"}, "preempt", d.now)
    assert change.effects[0] == (
        "r1, r0 are preempted and queued again to be recomputed, because their KV is worth nothing as int8; "
        "12 computed tokens are given up."
    )
    assert {request.state for request in d.requests.values()} == {RequestState.PREEMPTED}
    d.step()
    assert d.storage.switches == ["int8"]
    d.run_out()
    assert all(request.kv_dtype == "int8" for request in d.requests.values())


def test_nothing_of_the_old_type_is_found_again() -> None:
    d = drive()
    d.run_out()
    d.add(2, list(d.requests[0].token_ids[:6]), 2)
    d.step()
    assert d.requests[2].cached == 4
    d.run_out()
    d.scheduler.pin(d.requests[0])
    d.scheduler.set_policies({"kv_dtype": "int8"}, "drain", d.now)
    d.add(3, list(d.requests[0].token_ids[:6]), 2)
    d.step()
    (switch,) = d.scheduler.kv_types.done
    assert (switch.forgotten, switch.unpinned, switch.error) == (5, 1, None)
    assert d.requests[3].cached == 0
    assert d.pool.pinned_total == 0


def test_going_back_before_the_switch_calls_it_off() -> None:
    d = drive()
    d.scheduler.set_policies({"kv_dtype": "int8"}, "drain", d.now)
    said = d.scheduler.set_policies({"kv_dtype": "float32"}, "preempt", d.now)
    assert said.effects == ["KV stays float32; the switch to int8 is called off."]
    assert said.preempted == []
    d.add(2, 5, 3)
    d.step()
    assert d.running == ["r0", "r1", "r2"]
    d.run_out()
    assert d.storage.switches == []


def test_another_target_replaces_the_first() -> None:
    d = drive()
    d.scheduler.set_policies({"kv_dtype": "int8"}, "drain", d.now)
    d.scheduler.set_policies({"kv_dtype": "float16"}, "drain", d.now)
    d.run_out()
    d.step()
    assert d.storage.switches == ["float16"]


def test_asking_again_to_preempt_ends_the_drain() -> None:
    d = drive()
    d.scheduler.set_policies({"kv_dtype": "int8"}, "drain", d.now)
    change = d.scheduler.set_policies({"kv_dtype": "int8"}, "preempt", d.now)
    assert len(change.preempted) == 2
    d.step()
    assert d.storage.switches == ["int8"]


def test_a_switch_that_fails_goes_back_and_serving_goes_on() -> None:
    d = drive()
    d.storage.fails = ["no room for it"]
    d.scheduler.set_policies({"kv_dtype": "int8"}, "preempt", d.now)
    d.step()
    (switch,) = d.scheduler.kv_types.done
    assert switch.error == "no room for it"
    assert switch.text.startswith("KV stays float32: it cannot be int8: no room for it; ")
    assert d.scheduler.policies.kv_dtype == "float32"
    assert not d.scheduler.switching
    assert d.running == ["r0", "r1"]
    d.run_out()


def test_a_type_that_the_engine_cannot_read_is_refused_and_nothing_changes() -> None:
    d = drive()
    wrong = r"kv_dtype cannot be fp8_e4m3: this engine reads KV of float32, float16, int8"
    with pytest.raises(ValueError, match=wrong):
        d.scheduler.preview({"kv_dtype": "fp8_e4m3"}, "drain")
    with pytest.raises(ValueError, match=wrong):
        d.scheduler.set_policies({"kv_dtype": "fp8_e4m3", "max_running": 1}, "drain", d.now)
    assert d.scheduler.policies.max_running == 16
    with pytest.raises(ValueError, match="kv_dtype cannot be 'int4'; choose"):
        d.scheduler.preview({"kv_dtype": "int4"}, "drain")


def test_a_pause_holds_it_up_as_long_as_somebody_runs() -> None:
    d = drive()
    d.scheduler.pause()
    d.scheduler.set_policies({"kv_dtype": "int8"}, "drain", d.now)
    d.steps(3)
    assert not d.scheduler.kv_switch_due
    assert d.scheduler.switching
    d.scheduler.resume()
    d.run_out()
    d.step()
    assert d.storage.switches == ["int8"]
