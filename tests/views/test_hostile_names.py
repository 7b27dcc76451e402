"""Whatever an engine calls things, rows keep their width and nothing reaches the terminal but text."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.protocol import EngineIdentity, Event, Fault, ModelFacts, Queue, RequestChange, Status, Verdict
from kvtop.state import EngineState
from kvtop.views.block_detail import block_detail_rows
from kvtop.views.block_map import BlockMap
from kvtop.views.block_table import block_table_rows
from kvtop.views.capacity import brief_row, capacity_rows
from kvtop.views.event_tally import tally_row
from kvtop.views.events import event_rows
from kvtop.views.glyphs import ASCII, UNICODE, Glyphs
from kvtop.views.header import header_rows
from kvtop.views.latency import latency_rows
from kvtop.views.legend import legend_entries, legend_rows
from kvtop.views.policy_effects import policy_rows
from kvtop.views.queue import queue_rows, queue_title
from kvtop.views.request_detail import request_detail_rows
from kvtop.views.request_filter import RequestFilter, parse
from kvtop.views.request_page import request_page_rows
from kvtop.views.requests import RequestsView, request_rows, requests_title
from kvtop.views.rows import Row
from kvtop.views.scheduler import scheduler_rows
from kvtop.views.trends import trend_row
from tests.views.scene import LATER, MONO, cells_drawn, check_rows, hello, keyframe, scene

names = st.one_of(
    st.text(max_size=32),
    st.sampled_from(
        [
            "\x1b[2J\x1b]0;gotcha\x07",
            "[bold red]x[/]",
            "漢字かな",
            "e\u0301\u0301\u0301",
            "👩‍👩‍👧",
            "a\nb\tc\r",
            "\u202edrawkcab",
            "한국어 대화",
            "नमस्ते",
            "שלום-\u200f1",
            "❤️🏳️‍🌈🇩🇪1️⃣👍🏽",
            "a" + "\u0335" * 31,
            "\u3000\u00a0x\ue000",
            "\x00\x9b31m",
        ]
    ),
)
numbers = st.one_of(st.none(), st.integers(0, 2**60))


def everything(state: EngineState, width: int, glyphs: Glyphs) -> list[Row]:
    blockmap = BlockMap(state, glyphs)
    blockmap.layout(state.blocks.total if state.blocks else 0, width, 3)
    view = RequestsView(selected=1)
    return [
        *header_rows(state, LATER, width, glyphs),
        *capacity_rows(state, width, glyphs),
        *blockmap.rows(),
        *legend_rows(legend_entries(blockmap, glyphs), width, glyphs),
        *request_rows(state, view, width, 6, LATER, glyphs),
        *queue_rows(state, width, 5, LATER, glyphs),
        *event_rows(state, width, 5, glyphs),
        *block_detail_rows(state, 1, width, LATER, glyphs),
        *block_table_rows(state, 1, width, 6, LATER, glyphs),
        *request_page_rows(state, 1, width, 30, LATER, glyphs)[0],
        brief_row(state, width, glyphs),
        trend_row(state, width, LATER, glyphs),
        *scheduler_rows(state, width, 10, LATER, glyphs),
        *latency_rows(state, width, 16, LATER, glyphs),
        *policy_rows(state, width, 20, LATER, glyphs),
        *request_detail_rows(state, state.request(1), width, 5, LATER, glyphs),
        tally_row(state, width, LATER, glyphs),
    ]


def named(name: str, number: int | None) -> EngineState:
    engine = EngineIdentity(name=name, kind=name, version=name, run="r1")
    greeting = hello(
        engine=engine, model=ModelFacts(name=name, weight_dtype=name, random_weights=True), device=name, attention=name,
        notice=name, block_states=["free", "cached", "active", name],
    )  # fmt: skip
    requests = [
        RequestChange(
            num=n, id=name, label=name, state=state, prompt_tokens=number, cached_tokens=number, computed_tokens=number,
            output_tokens=number, max_tokens=number, blocks=number, reserved_blocks=number, preemptions=number,
            table_at=0, table=[0, 1, 2], queue_s=number, prefill_s=number, phase_since=MONO, finish_reason=name,
            attention_mode=name, cache_dtype=name,
        )
        for n, state in enumerate(("decode", "prefill", "waiting", "finished", name))
    ]  # fmt: skip
    event = Event(
        id=1, kind=name[:32], iteration=number or 0, wall=float(number or 0), request=number, request_id=name, by_id=name,
        cause=name, need_blocks=number, tokens=number, seconds=number, blocks=number, axis=name, old=name, new=name,
        uid=number, pid=number, detail=name,
    )  # fmt: skip
    events = [
        event,
        event.model_copy(update={"id": 2, "kind": "preempt"}),
        event.model_copy(update={"id": 3, "kind": "policy"}),
    ]
    verdict = Verdict(
        request=number or 0, request_id=name, code=name, rule=name, need_blocks=number, detail=name, limit=number
    )
    policy = {name: name, "capacity": name, "watermark": number or 0.5}
    state = scene(
        greeting, requests=requests, events=events, verdict=verdict, policy=policy,
        status=Status(state=name, detail=name), queue=Queue(order=[0, 2, number or 7], total=number or 0),
    )  # fmt: skip
    state.apply(Fault(code="x", message=name), LATER)
    return state


@settings(max_examples=50, deadline=None)
@given(name=names, number=numbers, width=st.integers(1, 210), glyphs=st.sampled_from([UNICODE, ASCII]))
def test_every_row_of_every_view_has_its_width(name: str, number: int | None, width: int, glyphs: Glyphs) -> None:
    state = named(name, number)
    rows = everything(state, width, glyphs)
    text = check_rows(rows, width)
    if glyphs is ASCII:
        assert text.isascii()
    state.link_down(name, True, LATER)
    check_rows(everything(state, width, glyphs), width)
    for title in (
        queue_title(state, LATER),
        requests_title(state, RequestsView(filter=RequestFilter(parse("x").alternatives, name))),
    ):
        assert cells_drawn(title) == len(title)


@settings(max_examples=30, deadline=None)
@given(width=st.integers(1, 100), height=st.integers(1, 6))
def test_nothing_known_draws_too(width: int, height: int) -> None:
    state = EngineState()
    check_rows(everything(state, width, UNICODE), width)
    state.apply(keyframe(blocks=None, requests=None), 0.0)
    check_rows(everything(state, width, UNICODE), width)
    check_rows(queue_rows(state, width, height, 0.0), width, height)
    check_rows(event_rows(state, width, height), width, height)
    check_rows(request_rows(state, RequestsView(), width, height, 0.0), width, height)


def test_markup_is_text() -> None:
    state = scene(requests=[RequestChange(num=1, id="[bold]x", state="decode")])
    assert "[bold]x" in check_rows(request_rows(state, RequestsView(), 80, 2, LATER), 80)
