"""Lines of the requests table that are kept: never another one than would be drawn anew, and the same one where it can be."""

import random

from kvtop.protocol import RequestChange
from kvtop.state import EngineState
from kvtop.state.freeze import frozen
from kvtop.state.request_row import RequestRow
from kvtop.views.requests import RequestsView, request_rows
from tests.views.scene import LATER, scene

HEIGHT = 12


def change(rng: random.Random, num: int) -> RequestChange:
    state = rng.choice(("waiting", "prefill", "decode", "preempted", "swapped", "finished", None))
    since = None if state is None else 100.0 + rng.random() * 20
    return RequestChange(
        num=num,
        state=state,
        phase_since=since,
        tier="host" if state == "swapped" else None,
        output_tokens=rng.choice((None, 5, 12_345)),
        queue_s=rng.choice((None, 0.5, 3.0)),
        group=rng.choice((None, 1)),
        siblings=rng.choice((None, 4)),
        label=rng.choice((None, "chat")),
    )


def test_a_kept_line_says_what_one_drawn_anew_would() -> None:
    rng = random.Random(3)
    state = scene()
    view, held = RequestsView(), None
    assert state.requests is not None
    for step in range(400):
        for _ in range(rng.randrange(3)):
            state.requests.apply(change(rng, rng.randrange(1, 9)), 64, lambda _: None)
        if rng.random() < 0.1:
            state.requests.forget(rng.randrange(1, 9))
        if rng.random() < 0.1:
            held = frozen(state, LATER + step * 0.2) if held is None else None
        if rng.random() < 0.2:
            view.selected = rng.choice((None, 1, 2, 3))
        shown: EngineState = held or state
        width, now = rng.choice((6, 40, 80, 80, 200)), LATER + step * 0.2
        fresh = RequestsView(selected=view.selected)
        assert request_rows(shown, view, width, HEIGHT, now) == request_rows(shown, fresh, width, HEIGHT, now), step


def test_what_stands_still_is_not_drawn_again() -> None:
    state = scene()
    assert state.requests is not None
    view = RequestsView()
    before = request_rows(state, view, 80, 8, LATER)
    state.requests.apply(RequestChange(num=2, output_tokens=11), 64, lambda _: None)
    after = request_rows(state, view, 80, 8, LATER)
    assert [a is b for a, b in zip(before, after, strict=True)][1:7] == [True, False, True, True, True, True]


def test_a_stamp_is_never_that_of_another_row_or_time() -> None:
    one, other = RequestRow(1), RequestRow(1)
    seen = set()
    for row in (one, other, one, other):
        row.apply(RequestChange(num=1, output_tokens=1), None, lambda _: None)
        seen.add(row.stamp)
    assert len(seen) == 4
