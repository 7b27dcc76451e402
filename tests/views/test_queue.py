"""The queue and its head's verdict, in words for every rule."""

from typing import Any

import pytest

from kvtop.protocol import Queue, RequestChange, Verdict
from kvtop.state import EngineState
from kvtop.views.queue import oldest_wait, queue_rows, queue_title
from kvtop.views.verdict import verdict_rows, verdict_sentence
from tests.views.scene import LATER, MONO, check_rows, gauges_only, iteration, scene


def said(code: str, **facts: Any) -> str:
    verdict = Verdict(request=4, request_id="B-0042", code=code, **facts)
    return verdict_sentence(scene(verdict=verdict))


def test_golden_at_80() -> None:
    assert check_rows(queue_rows(scene(), 80, 5, LATER), 80, 5).split("\n") == [
        "B-0042 waits: needs 60 blocks, 51 available (48 free + 5 cached − 2 reserved),  ",
        "capacity=guaranteed_no_evict                                                    ",
        "  1 B-0042 · waits 16.4s · 640+800 tokens · priority 1 · long                   ",
        "  2 A-0005 · waits 6.0s · preempted 2x · 200+50 tokens · priority 0 · chat      ",
        " " * 80,
    ]


def test_golden_at_200_on_one_line() -> None:
    text = check_rows(queue_rows(scene(), 200, 4, LATER), 200, 4).split("\n")
    assert text[0].rstrip() == verdict_sentence(scene())
    assert text[1].startswith("  1 B-0042")


@pytest.mark.parametrize(
    ("code", "facts", "sentence"),
    [
        ("needs_blocks", {"need_blocks": 1, "available_blocks": 0}, "B-0042 waits: needs 1 block, 0 available"),
        (
            "needs_blocks",
            {"need_blocks": 60, "available_blocks": 50, "reserved_blocks": 2, "watermark_blocks": 1},
            "B-0042 waits: needs 60 blocks, 50 available (48 free + 5 cached − 2 reserved − 1 watermark)",
        ),
        (
            "needs_blocks",
            {"need_blocks": 60, "available_blocks": 9, "reserved_blocks": 2},
            "B-0042 waits: needs 60 blocks, 9 available (2 reserved)",
        ),
        ("needs_blocks", {}, "B-0042 waits: needs more blocks, not enough available"),
        ("never_fits", {"need_blocks": 90}, "B-0042 can never run: needs 90 blocks, the pool has 64"),
        (
            "max_running",
            {"limit": 16, "rule": "max_running=16"},
            "B-0042 waits: 16 requests run, the most allowed, max_running=16",
        ),
        ("token_budget", {"limit": 256}, "B-0042 waits: the token budget of this iteration is used up (256 tokens)"),
        (
            "needs_blocks",
            {"need_blocks": 9, "available_blocks": 1, "detail": "B-0042 needs 9 and can have 1"},
            "B-0042 waits: needs 9 blocks, 1 available",
        ),
        ("batch_running", {}, "B-0042 waits: the running batch must finish first"),
        (
            "after_preemption",
            {},
            "B-0042 waits: memory ran short and a request was preempted in this iteration, so none is admitted",
        ),
        ("paused", {"detail": "by uid 1000"}, "B-0042 waits: scheduling is paused; by uid 1000"),
        ("draining", {}, "B-0042 waits: draining until what runs fits the new policy"),
        ("solar_flare", {"detail": "the sun is [bold]up"}, "B-0042 waits: the sun is [bold]up"),
        ("solar_flare", {}, "B-0042 waits: solar_flare"),
    ],
)
def test_every_verdict_is_a_sentence(code: str, facts: dict[str, Any], sentence: str) -> None:
    assert said(code, **facts) == sentence


def test_the_head_is_named_even_where_the_verdict_does_not() -> None:
    assert verdict_sentence(scene(verdict=Verdict(request=4, code="paused"))).startswith("B-0042 waits")
    assert verdict_sentence(scene(verdict=Verdict(request=99, code="paused"))).startswith("#99 waits")


def test_nothing_held_back() -> None:
    state = scene(verdict=None)
    assert verdict_sentence(state) == "nothing is held back; the queue is being admitted"
    state.apply(iteration(15, MONO + 5, queue=Queue(order=[], total=0)), LATER)
    assert verdict_sentence(state) == "nothing waits"


def test_a_long_queue_is_counted_to_its_end() -> None:
    waiting = [RequestChange(num=n, id=f"w{n}", state="waiting", phase_since=MONO) for n in range(9)]
    state = scene(requests=waiting, queue=Queue(order=list(range(9)), total=500), verdict=None)
    text = check_rows(queue_rows(state, 60, 5, LATER), 60, 5).split("\n")
    assert [line.split(" ·")[0].strip() for line in text[1:4]] == ["1 w0", "2 w1", "3 w2"]
    assert text[4].strip() == "… and 497 more"


def test_the_title_counts_and_tells_the_longest_wait() -> None:
    assert queue_title(scene(), LATER) == "queue: 2 waiting (1 preempted), oldest 16.4s"
    assert oldest_wait(scene(), LATER + 1) == pytest.approx(17.4)
    assert queue_title(EngineState(), LATER) == "queue"


def test_a_gauges_only_engine_tells_how_many_and_no_more() -> None:
    state = gauges_only()
    assert queue_title(state, LATER) == "queue: 5 waiting"
    text = check_rows(queue_rows(state, 80, 4, LATER), 80, 4)
    assert "why the queue waits: not exposed by vllm" in text
    assert "order of the queue: not exposed by vllm" in text
    state.gauges.clear()
    assert check_rows(queue_rows(state, 80, 2, LATER), 80, 2).startswith("queue: not exposed by vllm")


@pytest.mark.parametrize("lines", [1, 2])
def test_a_verdict_takes_no_more_rows_than_given(lines: int) -> None:
    assert len(verdict_rows(scene(), 30, lines=lines)) == lines
