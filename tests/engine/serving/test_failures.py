"""Planted faults: what fails ends only the requests that it belongs to, everybody is told, and the books stay right."""

from collections.abc import Sequence
from typing import Any

import pytest

from engine.core import MAX_FAILED_STEPS
from engine.requests.batch import BatchItem, BlockCopy, DeviceLost
from engine.requests.request import FinishReason
from engine.requests.stopping import StopRules
from engine.serving.server import EngineFailed
from engine.serving.submission import Vocabulary
from tests.engine.serving.faulty import LETTERS, Served

PROMPTS = [[50 + i, *range(i, i + 9)] for i in range(8)]
ERRORS = [
    RuntimeError("the kernel failed"),
    MemoryError(),
    ValueError("odd\nlines \ud800 " + "x" * 5000),
    KeyError("x"),
]


def served(**more: Any) -> Served:
    return Served(96, token_budget=128, max_running=8, **more)


class Planted:
    """Fails in these calls (from 0 on, those with items counted), or while ``num`` is in the batch."""

    def __init__(self, error: Exception, calls: Sequence[int] = (), num: int | None = None) -> None:
        self.error, self.calls, self.num, self.count = error, calls, num, -1

    def __call__(self, items: Sequence[BatchItem], copies: Sequence[BlockCopy]) -> Exception | None:
        if not items:
            return None
        self.count += 1
        if self.num is not None and any(item.request.num == self.num for item in items):
            return self.error
        return self.error if self.count in self.calls else None


def clean_outputs(**more: Any) -> list[tuple[int, ...]]:
    clean = served()
    handles = [clean.submit(prompt, 6, **more) for prompt in PROMPTS]
    clean.run_out()
    return [output.token_ids for handle in handles for output in handle.result(0.0)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_batch_that_fails_once_is_repeated_and_nobody_loses_anything(error: Exception) -> None:
    it = served()
    it.runner.fails = Planted(error, calls=[0, 3])
    handles = [it.submit(prompt, 6) for prompt in PROMPTS]
    it.run_out()
    assert [handle.result(0.0)[0].token_ids for handle in handles] == clean_outputs()
    assert len(it.events("fault")) == 2
    assert "and is repeated" in (it.events("fault")[0].detail or "")
    assert it.events("error") == []


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_batch_that_fails_twice_ends_what_ran_in_it_and_the_engine_serves_on(error: Exception) -> None:
    it = served()
    it.runner.fails = Planted(error, calls=[2, 3])
    handles = [it.submit(prompt, 6) for prompt in PROMPTS]
    it.turn(3)
    for handle in handles:
        (output,) = handle.result(0.0)
        assert output.finish_reason == "error"
        assert type(error).__name__ in (output.detail or "")
        assert len(output.token_ids) == 2, "what it had before is its own"
    told = it.events("error")
    assert sorted(event.request or 0 for event in told) == list(range(8))
    assert {event.severity for event in told} == {"error"}
    assert it.events("abort") == it.events("finish") == []
    again = [it.submit(prompt, 6) for prompt in PROMPTS]
    it.run_out()
    assert [handle.result(0.0)[0].token_ids for handle in again] == clean_outputs()
    assert it.engine.failed_steps == 0


def test_copies_of_a_batch_that_is_repeated_are_carried_out_once() -> None:
    it, copied = served(), []

    def fails(items: Sequence[BatchItem], copies: Sequence[BlockCopy]) -> Exception | None:
        copied.extend(copies)
        return (
            RuntimeError("no")
            if items and it.engine.iteration == 2 and not it.events("fault") and next(once, 0)
            else None
        )

    once = iter([1])
    it.runner.fails = fails
    handle = it.submit([*range(9), 1], 6, n=3)
    it.run_out()
    assert {output.finish_reason for output in handle.result(0.0)} == {"length"}
    assert len(it.events("fault")) == 1
    assert len(copied) == len(it.events("copy")) > 0


def test_texts_of_events_are_cut_to_what_a_frame_holds() -> None:
    it = served()
    it.telemetry.event("notice", detail="\ud800" + "x" * 5000, cause="y" * 5000, request_id="z" * 5000)
    it.turn()
    (event,) = it.events("notice")
    assert (len(event.detail or ""), len(event.cause or ""), len(event.request_id or "")) == (1000, 500, 256)


def test_who_waits_is_not_hit_by_a_batch_that_fails() -> None:
    it = Served(96, max_running=2)
    it.runner.fails = Planted(RuntimeError("no"), num=1)
    handles = [it.submit(prompt, 6) for prompt in PROMPTS[:4]]
    it.run_out()
    assert [handle.result(0.0)[0].finish_reason for handle in handles] == ["error", "error", "length", "length"]


def test_an_engine_whose_batches_always_fail_ends_in_one_line_and_leaves_nobody_waiting() -> None:
    it = Served(96, max_running=2)
    it.runner.fails = Planted(RuntimeError("no device\nfor you"), calls=range(1000))
    it.kept.wait = lambda _: pytest.fail("it goes on without a request that is left")
    handles = [it.submit(prompt, 6) for prompt in PROMPTS * 4]
    with pytest.raises(EngineFailed) as failure:
        it.server.run()
    assert str(failure.value).startswith(f"{MAX_FAILED_STEPS} iterations in a row failed")
    assert "\n" not in str(failure.value)
    outputs = [handle.result(0.0)[0] for handle in handles]
    assert {output.finish_reason for output in outputs} == {"error"}
    assert len(it.events("error")) == 2 * MAX_FAILED_STEPS
    assert (outputs[-1].detail or "").startswith(f"{MAX_FAILED_STEPS} iterations in a row")
    with pytest.raises(RuntimeError, match="iterations in a row failed"):
        it.submit([1], 1)


def test_a_lost_device_ends_the_engine_at_once() -> None:
    it = served()
    it.runner.fails = Planted(DeviceLost("illegal memory access"), calls=[2])
    handle = it.submit(PROMPTS[0], 6)
    with pytest.raises(EngineFailed, match=r"the device is lost: .*illegal memory access"):
        it.server.run()
    (output,) = handle.result(0.0)
    assert (output.finish_reason, len(output.token_ids)) == ("error", 2)
    assert len(it.events("error")) == 1, "viewers are told before the end"


def test_copies_that_fail_end_all_that_runs_and_nothing_is_found_any_more() -> None:
    it = served()
    armed: list[BlockCopy] = []

    def fails(items: Sequence[BatchItem], copies: Sequence[BlockCopy]) -> Exception | None:
        armed.extend(copies)
        return RuntimeError("out of memory") if len(copies) and len(armed) == len(copies) else None

    it.runner.fails = fails
    handles = [it.submit(PROMPTS[0], 6, n=3), it.submit(PROMPTS[1], 6)]
    it.run_out()
    assert armed, "samples of a prompt that ends in a block have to copy it"
    assert {output.finish_reason for handle in handles for output in handle.result(0.0)} == {"error"}
    assert it.engine.scheduler.pool.cached_blocks == 0
    assert "the prefix cache, pins too, is emptied: RuntimeError: out of memory" in (it.events("fault")[0].detail or "")
    late = it.submit(PROMPTS[1], 6)
    it.run_out()
    assert late.result(0.0)[0].token_ids == clean_outputs()[1]


@pytest.mark.parametrize("group", [{}, {"n": 3}, {"beam": 3}], ids=str)
@pytest.mark.parametrize("when", [0, 2])
def test_a_row_that_fails_ends_its_request_and_no_other(group: dict[str, int], when: int) -> None:
    it = served()
    width = group.get("n", group.get("beam", 1))
    handles = [it.submit(prompt, 6, **(group if i == 3 else {})) for i, prompt in enumerate(PROMPTS)]
    it.turn(when)
    it.runner.bad = frozenset({3})
    it.run_out()
    expected = clean_outputs()
    for i, handle in enumerate(handles):
        outputs = handle.result(0.0)
        if i != 3:
            assert [(o.finish_reason, o.token_ids) for o in outputs] == [("length", expected[i])]
            continue
        assert len(outputs) == width
        lives_on = "n" in group and when
        assert [o.finish_reason for o in outputs] == ["error", *["length" if lives_on else "error"] * (width - 1)]
        assert outputs[0].detail == "the logits are not finite numbers"
    assert {event.request for event in it.events("error")} >= {3}


def test_what_a_failed_row_computed_is_not_found_by_others() -> None:
    it = served()
    good = it.submit(PROMPTS[0] + [7] * 8, 3)
    it.run_out()
    it.runner.bad = frozenset({1})
    bad = it.submit(PROMPTS[0] + [7] * 8, 3)
    it.run_out()
    assert good.result(0.0)[0].finish_reason == "length"
    (failed,) = bad.result(0.0)
    assert failed.usage is not None
    assert failed.usage.cached_tokens > 0, "it went on from the cache, which may have been the reason"
    late = it.submit(PROMPTS[0] + [7] * 8, 3)
    it.run_out()
    (output,) = late.result(0.0)
    assert output.usage is not None
    assert output.usage.cached_tokens == 0


def test_who_shares_blocks_with_a_failed_row_goes_on_but_nobody_follows_it() -> None:
    it = served()
    shared = [9] * 16
    first = it.submit([*shared, 1], 20)
    it.turn(2)
    second = it.submit([*shared, 2], 20)
    it.turn(2)
    it.runner.bad = frozenset({1})
    it.run_out()
    assert second.result(0.0)[0].finish_reason == "error"
    assert first.result(0.0)[0].finish_reason == "length"
    assert it.engine.scheduler.pool.cached_blocks == 0, "all that was found is behind what the failed row held"


class Picky:
    """Has no bytes for one token."""

    def __init__(self, token: int) -> None:
        self.token = token

    def __call__(self, token: int) -> bytes:
        if token == self.token:
            raise LookupError(f"no bytes for {token} \ud800")
        return bytes([97 + token % 26])


@pytest.mark.parametrize("group", [{}, {"n": 2}, {"beam": 3}], ids=str)
@pytest.mark.parametrize("strings", [(), ("zzzz",)], ids=["read", "matched"])
def test_a_tokenizer_that_fails_ends_the_request_that_it_fails_for(
    group: dict[str, int], strings: tuple[str, ...]
) -> None:
    expected = clean_outputs()
    token = next(t for t in expected[2] if all(t not in output for i, output in enumerate(expected) if i != 2))
    it = served(vocabulary=Vocabulary(100, frozenset(), Picky(token)))
    stop = StopRules(strings=strings)
    handles = [it.submit(prompt, 6, stop=stop, **(group if i == 2 else {})) for i, prompt in enumerate(PROMPTS)]
    it.run_out()
    for i, handle in enumerate(handles):
        if i != 2:
            assert [(o.finish_reason, o.token_ids) for o in handle.result(0.0)] == [("length", expected[i])]
    outputs = handles[2].result(0.0)
    if "beam" not in group:
        assert outputs[0].finish_reason == "error"
        assert "LookupError" in (outputs[0].detail or "")
    assert it.events("fault") == []


def test_a_fault_outside_the_batch_ends_the_engine_in_one_line_and_nobody_waits() -> None:
    it = served()
    handle = it.submit(PROMPTS[0], 50)
    it.turn(2)

    def broken(_: object) -> None:
        raise OSError("no\nspace \udc80 left")

    it.kept.publish = broken
    late = it.submit(PROMPTS[1], 50)
    with pytest.raises(EngineFailed) as failure:
        it.server.run()
    assert str(failure.value) == "the engine failed: OSError: no space ? left"
    for each in (handle, late):
        (output,) = each.result(0.0)
        assert (output.finish_reason, output.detail) == (str(FinishReason.ERROR), str(failure.value))


def test_the_letters_are_what_the_tests_take_them_for() -> None:
    assert LETTERS.token_bytes is not None
    assert b"".join(map(LETTERS.token_bytes, range(3))) == b"abc"
