"""The table of requests: columns by width, sorting, filtering, a selection that stays on its request."""

from typing import Any

import pytest

from kvtop.protocol import RequestChange
from kvtop.state import EngineState
from kvtop.views.columns import COLUMNS, columns_for
from kvtop.views.request_filter import parse
from kvtop.views.requests import (
    SORTS,
    RequestsView,
    found,
    move_selection,
    request_rows,
    requests_title,
    row_at,
)
from kvtop.views.rows import HIGHLIGHT, Role
from tests.views.scene import LATER, check_rows, gauges_only, scene


def order(view: RequestsView, state: EngineState | None = None) -> list[int]:
    those = found(state or scene(), view, LATER)
    return [row.num for row in those.rows(0, len(those))]


def many(count: int) -> EngineState:
    return scene(requests=[RequestChange(num=n, id=f"r{n:03d}", state="decode", output_tokens=n) for n in range(count)])


def test_golden_at_80() -> None:
    assert check_rows(request_rows(scene(), RequestsView(), 80, 8, LATER), 80, 8).split("\n")[:7] == [
        "id       state     pri prompt cached  computed    output blocks  wait decode pre",
        "A-0001   decode      0     64      0        90     26/50      6 100ms   6.5s   0",
        "A-0002   decode      0     40     32        50     10/50    4+2 200ms   5.0s   1",
        "B-0003   prefill     1  12.3k      0  48/12.3k     0/800      3  3.0s    0ms   0",
        "B-0042   waiting     1    640      –         0     0/800      0 16.4s      –   0",
        "A-0005   preempted   0    200      –         0      7/50      0  6.0s      –   2",
        "C-0006   done        0     32      –        81     50/50      0 100ms   1.5s   0",
    ]


def test_golden_at_200() -> None:
    rows = check_rows(request_rows(scene(), RequestsView(), 200, 3, LATER), 200, 3).split("\n")
    titles = [column.title for column in COLUMNS if column.name not in ("sample", "score")]
    assert rows[0].split() == " ".join(titles).split()
    assert rows[1].split() == [
        "A-0001",
        "decode",
        "0",
        "64",
        "0",
        "90",
        "26/50",
        "6",
        "100ms",
        "850ms",
        "6.5s",
        "0",
        "▄█",
        "950ms",
        "–",
        "–",
        "–",
        "–",
        "chat",
    ]


@pytest.mark.parametrize("width", [10, 40, 80, 120, 200])
def test_columns_fit_and_the_id_is_always_there(width: int) -> None:
    columns = columns_for(width)
    assert sum(size + 1 for _, size in columns) - 1 <= width
    assert columns[0][0].name == "id"


def test_times_of_the_running_phase_go_on() -> None:
    state = scene()
    assert "16.4s" in request_rows(state, RequestsView(), 80, 8, LATER)[4].text
    assert "26.4s" in request_rows(state, RequestsView(), 80, 8, LATER + 10)[4].text
    state.link_down("gone", True, LATER + 1)
    assert "17.4s" in request_rows(state, RequestsView(), 80, 8, LATER + 60)[4].text


@pytest.mark.parametrize(
    ("sort", "reverse", "expected"),
    [
        ("arrival", False, [1, 2, 3, 4, 5, 6]),
        ("arrival", True, [5, 4, 3, 2, 1, 6]),
        ("id", False, [1, 2, 5, 3, 4, 6]),
        ("prompt", True, [3, 4, 5, 1, 2, 6]),
        ("wait", True, [4, 5, 3, 2, 1, 6]),
        ("cached", True, [2, 1, 3, 4, 5, 6]),
        ("cached", False, [1, 3, 2, 4, 5, 6]),
    ],
)
def test_sorting_keeps_the_unknown_then_the_finished_last(sort: str, reverse: bool, expected: list[int]) -> None:
    assert order(RequestsView(sort=sort, reverse=reverse)) == expected


def test_every_column_sorts_and_is_marked() -> None:
    view = RequestsView()
    seen = set()
    for _ in SORTS:
        seen.add(view.cycle_sort())
        assert sorted(order(view)) == [1, 2, 3, 4, 5, 6]
    assert seen == set(SORTS)
    view.sort = "wait"
    assert "▲wait" in request_rows(scene(), view, 80, 3, LATER)[0].text
    view.flip()
    assert "▼wait" in request_rows(scene(), view, 80, 3, LATER)[0].text
    assert view.cycle_sort(-1) == "blocks"


@pytest.mark.parametrize(
    ("text", "expected"), [("b-00", [3, 4]), ("CHAT", [1, 2, 5]), ("preempt", [5]), (" ", [1, 2, 3, 4, 5, 6])]
)
def test_the_filter_looks_at_id_label_and_state(text: str, expected: list[int]) -> None:
    assert order(RequestsView(filter=parse(text))) == expected


def test_nothing_found_is_said() -> None:
    text = check_rows(request_rows(scene(), RequestsView(filter=parse("[red]x")), 80, 4, LATER), 80, 4)
    assert "no request matches '[red]x'" in text
    assert "no requests" in check_rows(request_rows(scene(requests=[]), RequestsView(), 80, 4, LATER), 80, 4)


def test_the_selection_stays_on_its_request_when_rows_move() -> None:
    view = RequestsView()
    state = scene()
    move_selection(state, view, 1, 8, LATER)
    assert view.selected == 1
    move_selection(state, view, 2, 8, LATER)
    assert view.selected == 3
    view.sort, view.reverse = "prompt", True
    rows = request_rows(state, view, 80, 8, LATER)
    lit = [y for y, row in enumerate(rows) if row.roles[0] & HIGHLIGHT]
    assert lit == [1]
    assert rows[1].text.startswith("B-0003")
    move_selection(state, view, 100, 8, LATER)
    assert view.selected == 6
    move_selection(state, view, -100, 8, LATER)
    assert view.selected == 3


def test_scrolling_keeps_the_selection_in_sight() -> None:
    state, view = many(100), RequestsView()
    for _ in range(31):
        move_selection(state, view, 1, 11, LATER)
    assert (view.selected, view.offset) == (30, 21)
    rows = request_rows(state, view, 80, 11, LATER)
    assert rows[10].text.startswith("r030")
    assert row_at(state, view, 10, 11, LATER) == 30
    assert row_at(state, view, 0, 11, LATER) is None
    move_selection(state, view, -15, 11, LATER)
    assert (view.selected, view.offset) == (15, 15)


def test_an_offset_beyond_the_end_shows_the_end() -> None:
    rows = request_rows(many(20), RequestsView(offset=500), 80, 6, LATER)
    assert [row.text[:4] for row in rows[1:]] == ["r015", "r016", "r017", "r018", "r019"]


def test_a_selection_that_is_gone_is_taken_up_at_the_top() -> None:
    view = RequestsView(selected=77)
    move_selection(scene(), view, 1, 8, LATER)
    assert view.selected == 1
    empty = scene(requests=[])
    move_selection(empty, view, 1, 8, LATER)
    assert view.selected is None


def test_what_is_finished_is_dim() -> None:
    rows = request_rows(scene(), RequestsView(), 80, 8, LATER)
    assert set(rows[6].roles) <= {Role.DIM, Role.TEXT}
    assert Role.GOOD in rows[1].roles


def test_requests_not_exposed() -> None:
    text = check_rows(request_rows(gauges_only(), RequestsView(), 80, 5, LATER), 80, 5)
    assert text.startswith("requests: not exposed by vllm")
    assert requests_title(gauges_only(), RequestsView()) == "requests"
    assert row_at(gauges_only(), RequestsView(), 1, 5, LATER) is None


def test_the_title_counts_and_names_sort_and_filter() -> None:
    title = requests_title(scene(), RequestsView(sort="wait", reverse=True, filter=parse("chat")))
    assert title == "requests: 3 running, 2 waiting, 1 done · by wait ▼ · filter 'chat'"


def test_numbers_too_long_for_a_column_are_left_out_not_cut() -> None:
    facts = [RequestChange(num=1, id="A", state="prefill", prompt_tokens=12_400, computed_tokens=12_399,
        output_tokens=12_345, max_tokens=67_890, blocks=8_888, reserved_blocks=7_777)]  # fmt: skip
    text = check_rows(request_rows(scene(requests=facts), RequestsView(), 80, 2, LATER), 80, 2).split("\n")[1]
    assert text.split()[:7] == ["A", "prefill", "–", "12.4k", "–", "12.4k/25k", "12.3k"]
    assert "8888 " in text


def test_a_request_of_which_nothing_is_known_is_a_row_of_unknowns() -> None:
    facts: list[Any] = [RequestChange(num=9)]
    text = check_rows(request_rows(scene(requests=facts), RequestsView(), 80, 2, LATER), 80, 2).split("\n")[1]
    assert text.split() == ["#9", *["–"] * 10]


def test_samples_and_beams_say_which_they_are_and_sort_by_group() -> None:
    beams = [
        RequestChange(num=3, id="c", state="decode"),
        *(RequestChange(num=n, id=f"b{n}", state="decode", group=4, siblings=2, score=-float(n)) for n in (4, 5)),
        *(RequestChange(num=n, id=f"s{n}", state="decode", group=1, siblings=2) for n in (1, 2)),
    ]
    state = scene(requests=beams)
    rows = check_rows(request_rows(state, RequestsView(sort="sample"), 200, 6, LATER), 200, 6).split("\n")
    assert "▲sample" in rows[0]
    assert [row[:24].strip() for row in rows[1:]] == ["s1", "s2", "b4", "b5", "c"]
    assert " 1/2 " in rows[1]
    assert "beam" not in rows[1]
    assert "  beam 2/2   -5.000" in rows[4]
    titles = check_rows(request_rows(state, RequestsView(), 110, 6, LATER), 110, 6).split("\n")[0]
    assert "sample    score" in titles
    assert "sample" not in check_rows(request_rows(scene(), RequestsView(), 200, 6, LATER), 200, 6)
    assert order(RequestsView(sort="score", reverse=True), state)[:2] == [4, 5]


def test_ids_that_begin_alike_are_told_apart_at_80_columns() -> None:
    """Each was cut to the same ``chatcmp…``."""
    ids = ["chatcmpl-7f3a-0041", "chatcmpl-7f3a-0042", "要求-要求-7"]
    state = scene(requests=[RequestChange(num=num, id=name, state="decode") for num, name in enumerate(ids)])
    rows = check_rows(request_rows(state, RequestsView(), 80, 6, LATER), 80, 6).split("\n")
    assert [row[:8] for row in rows[1:3]] == ["ch…-0041", "ch…-0042"]
    assert "-7" in rows[3][:10]
