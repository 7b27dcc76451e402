"""All about one request: life, cost, relatives, events, and its block table below."""

from typing import Any

import pytest

from kvtop.protocol import Event, RequestChange
from kvtop.state import EngineState
from kvtop.views.request_page import MOST_EVENTS, MOST_RELATIVES, request_page_rows
from tests.views.scene import LATER, MONO, TOTAL, WALL, check_rows, gauges_only, iteration, scene


def page(state: EngineState, num: int, width: int = 80, height: int = 40, first: int = 0) -> list[str]:
    rows, total, fixed = request_page_rows(state, num, width, height, LATER, first=first)
    check_rows(rows, width)
    assert len(rows) <= height
    assert fixed < total + 3
    return [row.text.rstrip() for row in rows]


def test_all_about_a_request_at_80() -> None:
    lines = page(scene(), 2)
    assert lines[0].startswith("A-0002 · decode · 4 blocks · 2 shared")
    assert lines[1].startswith("last 2 min")
    assert lines[1].endswith("█")
    assert lines[2].split("  ")[-1] == "█ decode"
    assert lines[3] == "waited 200ms · prefill 100ms · decode 5.0s · ttft 400ms · class chat"
    assert lines[4] == "preempted 1 time · – tokens computed again · – since its admissions given up"
    assert lines[5] == "prefix: 32 tokens were there when it was admitted last; blocks shared with"
    assert lines[6] == "  A-0001 · 2 blocks · logical 0…1, tokens 0…31 · arrived before it · decode"
    assert lines[7] == "its events: none that is still known"
    assert lines[8].startswith("logical  tokens")
    assert lines[9].split()[:3] == ["0", "0…15", "0"]


def test_the_titles_of_the_table_stay_on_top_once_it_is_scrolled_to() -> None:
    state = scene()
    _, total, fixed = request_page_rows(state, 2, 80, 22, LATER)
    assert (total, fixed) == (6 + 1 + 4, 2)
    assert [line.split()[0] for line in page(state, 2, height=5, first=6)] == ["A-0002", "last", "logical", "0", "1"]
    rows, total, fixed = request_page_rows(state, 2, 80, 4, LATER, first=8)
    assert [row.text.split()[0] for row in rows] == ["A-0002", "logical", "1", "2"]
    assert (total, fixed) == (11, 2)
    every = page(state, 2)[2:]
    for first in range(9):
        assert page(state, 2, height=5, first=first)[2:] == every[first : first + 3]


def test_its_events_are_those_it_suffered_and_caused() -> None:
    lines = page(scene(), 3)
    assert any("preempt A-0005 by B-0003" in line for line in lines)
    assert any("preempt A-0005 by B-0003" in line for line in page(scene(), 5))
    assert not any("policy" in line for line in lines)
    assert "prefill at 48/12.3k tokens" in lines[3]
    many = [
        Event(id=10 + n, kind="admit", iteration=n, wall=WALL + n, request=3, request_id="B-0003") for n in range(30)
    ]
    lines = page(scene(events=many), 3, height=60)
    assert sum("admit B-0003" in line for line in lines) == MOST_EVENTS
    assert f"its events, the latest {MOST_EVENTS}" in lines


def test_many_relatives_are_counted_and_samples_of_one_prompt_said_to_be() -> None:
    sharing = [
        RequestChange(num=n, id=f"r{n}", state="decode", table_at=0, table=[0, n], group=1 if n < 4 else None)
        for n in range(1, 14)
    ]
    blocks = [(0, 1, 3, 1, 13, 16, 0, 0), (1, TOTAL - 1, 2, 1, 1, 16, 0, 0)]
    lines = page(scene(requests=sharing, blocks=blocks), 2)
    assert "  r1 · 1 block · logical 0, tokens 0…15 · of the same prompt · decode" in lines
    assert "  r4 · 1 block · logical 0, tokens 0…15 · arrived after it · decode" in lines
    assert f"  and {12 - MOST_RELATIVES} other requests" in lines


def test_it_goes_on_while_one_looks() -> None:
    state = scene()
    event = Event(id=2, kind="preempt", iteration=9, wall=WALL, request=2, request_id="A-0002", tokens=50, seconds=3.0)
    change = RequestChange(
        num=2, state="preempted", phase_since=MONO + 4.5, preemptions=2, lost_s=3.0, recomputed_tokens=0, blocks=0,
        table_at=0, decode_s=5.5,
    )  # fmt: skip
    state.apply(iteration(15, MONO + 5, requests=[change], events=[event]), LATER + 1)
    lines = page(state, 2)
    assert lines[1].endswith("×")
    assert lines[4] == "preempted 2 times · 0 tokens computed again · 3.0s since its admissions given up"
    assert any("lost 50 tokens (3.0s)" in line for line in lines)
    assert any("no blocks in its table" in line for line in lines)


@pytest.mark.parametrize("facts", [{"blocks": None}, {"events": []}, {"requests": []}, {"requests": None}])
@pytest.mark.parametrize("width", [20, 80, 200])
def test_what_is_not_told_is_said(facts: dict[str, Any], width: int) -> None:
    state = scene(**facts)
    for height in (2, 3, 9, 50):
        for first in (0, 3, 99):
            page(state, 2, width, height, first)
    if "blocks" in facts and width == 80:
        assert "shares blocks with: blocks: not exposed by kvtop" in page(state, 2)
    if facts.get("requests") == []:
        assert page(state, 5, 80)[0] == "request #5 is gone"
        assert any("preempt A-0005" in line for line in page(state, 5, 80))


def test_an_engine_that_exposes_nothing() -> None:
    assert page(gauges_only(), 1)[0].startswith("requests: not exposed by vllm")
