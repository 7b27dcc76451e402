"""Ids that have much in common at their beginning are told apart wherever they stand."""

from collections.abc import Callable

import pytest

from kvtop.app.dialogs import request_form
from kvtop.protocol import Event, RequestChange, Verdict
from kvtop.state import EngineState
from kvtop.views.block_detail import block_detail_rows, block_line_row
from kvtop.views.block_table import block_table_rows
from kvtop.views.events import event_rows
from kvtop.views.header import header_rows as top_rows
from kvtop.views.holders import holder_rows
from kvtop.views.queue import queue_rows
from kvtop.views.requests import RequestsView, request_rows, why_not_in_sight
from kvtop.views.rows import Row
from kvtop.views.verdict import verdict_rows
from tests.views.scene import LATER, WALL, hello, requests, scene

COMMON = "eval-harness-nightly-run-2026-12-01-" * 2


def long(num: int | None) -> str:
    return f"{COMMON}{num}x"


def named_at_length() -> EngineState:
    def event(id: int, kind: str, **more: object) -> Event:
        facts = {
            "id": id,
            "kind": kind,
            "iteration": 9,
            "wall": WALL,
            "request": 5,
            "request_id": long(5),
            "cause": "c",
        }
        return Event.model_validate(facts | more)

    kinds = ("preempt", "admit", "finish", "abort", "error", "evict", "swap_out", "notice")
    known: list[RequestChange] = [change.model_copy(update={"id": long(change.num)}) for change in requests()]
    verdict = Verdict(request=4, request_id=long(4), code="needs_blocks", rule="capacity=x", need_blocks=60)
    return scene(
        hello().model_copy(update={"engine": hello().engine.model_copy(update={"name": f"{COMMON}e"})}),
        requests=known,
        verdict=verdict,
        events=[event(n, kind, by=3, by_id=long(3)) for n, kind in enumerate(kinds)],
    )


VIEWS: dict[str, tuple[Callable[[EngineState, int], list[Row]], int]] = {
    "header": (lambda s, w: top_rows(s, LATER, w)[:1], 1),
    "events": (lambda s, w: event_rows(s, w, 8), 8),
    "queue": (lambda s, w: queue_rows(s, w, 5, LATER)[1:], 2),
    "verdict": (lambda s, w: verdict_rows(s, w, lines=2), 1),
    "holders": (lambda s, w: holder_rows(s, w, 2), 2),
    "requests": (lambda s, w: request_rows(s, RequestsView(), w, 7, LATER), 6),
    "block": (lambda s, w: block_detail_rows(s, 0, w, LATER)[1:], 2),
    "block in a line": (lambda s, w: [block_line_row(s, 0, w, LATER)], 1),
    "block table": (lambda s, w: block_table_rows(s, 1, w, 8, LATER), 3),
}


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("name", VIEWS)
def test_the_end_of_a_long_name_is_shown(name: str, width: int) -> None:
    """``eval-harness-nightly-run…`` stood in every row of the events."""
    view, least = VIEWS[name]
    text = "\n".join(row.text for row in view(named_at_length(), width))
    marks = sum(text.count(f"-{n}x") for n in range(1, 7)) + text.count("-e ")
    assert marks >= least, text
    assert "…" in text


@pytest.mark.parametrize("what", ["abort", "preempt", "pin", "unpin"])
def test_a_dialog_names_the_request_by_its_end_and_then_in_full(what: str) -> None:
    state = named_at_length()
    row = state.request(1)
    assert row is not None
    form = request_form(what, state, row)
    assert len(form.title) <= 60
    assert "-1x?" in form.title
    assert what == "unpin" or any(long(1) in sentence for sentence in form.sentences)


def test_a_note_about_the_selected_request_names_its_end_and_fits() -> None:
    state = named_at_length()
    reason = why_not_in_sight(state, RequestsView(selected=4, offset=0), 3, LATER, str)
    assert reason is not None
    assert "-4x" in reason
    assert len(reason) < 79
