"""The order that is kept from frame to frame is the one that sorting all of them from scratch gives."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.protocol import RequestChange
from kvtop.state import RequestRow, RequestTable
from kvtop.views.columns import COLUMNS, Column
from kvtop.views.request_filter import parse
from kvtop.views.request_order import RequestOrder
from kvtop.views.requests import SORTS

STATES = ("waiting", "preempted", "prefill", "decode", "finished", "swapped")
quarters = st.integers(0, 40).map(lambda n: n / 4)
"""Binary fractions, so that both ways of adding them up give the same."""


def changes() -> st.SearchStrategy[RequestChange]:
    return st.builds(
        lambda num, facts: RequestChange.model_validate({"num": num} | facts),
        st.integers(0, 12),
        st.fixed_dictionaries(
            {},
            optional={
                "state": st.sampled_from(STATES),
                "phase_since": quarters,
                "id": st.sampled_from(["a-1", "B-2", "a-3", "Ä", "c"]),
                "label": st.sampled_from(["chat", "long"]),
                "prompt_tokens": st.integers(0, 3),
                "queue_s": quarters,
                "prefill_s": quarters,
                "decode_s": quarters,
                "blocks": st.integers(0, 3),
                "table_at": st.just(0),
                "table": st.lists(st.integers(0, 5), max_size=3, unique=True),
                "group": st.integers(0, 3),
                "siblings": st.integers(0, 4),
                "score": quarters,
            },
        ),
    )


def plainly(table: RequestTable | dict[int, RequestRow], sort: str, reverse: bool, text: str, mono: float) -> list[int]:
    """What the table is to show, said as plainly as can be."""
    text = text.strip().lower()
    rows = sorted(table.values(), key=lambda row: row.num)
    rows = [r for r in rows if any(text in value.lower() for value in (r.name, r.label, r.state) if value) or not text]
    column: Column | None = next((column for column in COLUMNS if column.name == sort), None)
    if column is None:
        rows = rows[::-1] if reverse else rows
    else:
        value = {row.num: column.key(row, mono) for row in rows}
        known = [row for row in rows if value[row.num] is not None]
        known.sort(key=lambda row: value[row.num], reverse=reverse)  # type: ignore[arg-type, return-value]
        rows = known + [row for row in rows if value[row.num] is None]
    return [r.num for r in rows if not r.finished] + [r.num for r in rows if r.finished]


step = st.one_of(
    changes(),
    st.integers(0, 12),
    st.tuples(st.sampled_from(SORTS), st.booleans(), st.sampled_from(["", "a", "a-", " CHAT ", "wait", "zz", "ä"])),
    st.just("hold"),
    st.just("let go"),
)


@settings(max_examples=400, deadline=None)
@given(steps=st.lists(step, max_size=60), clock=st.integers(11, 30))
def test_a_kept_order_is_that_of_sorting_from_scratch(steps: list[Any], clock: int) -> None:
    live, shown, order = RequestTable(), None, RequestOrder()
    sort, reverse, text = "arrival", False, ""
    for item in steps:
        if isinstance(item, RequestChange):
            live.apply(item, None, lambda _: None)
        elif isinstance(item, int):
            live.forget(item)
        elif isinstance(item, tuple):
            sort, reverse, text = item
        else:
            shown = live.held_still() if item == "hold" else None
        table = live if shown is None else shown
        got = order.of(table, sort, reverse, parse(text), float(clock))
        expected = plainly(table, sort, reverse, text, float(clock))
        assert [row.num for row in got.rows(0, len(got))] == expected
        for place, num in enumerate(expected):
            assert got.place_of(num) == place
            assert [row.num for row in got.rows(place, 2)] == expected[place : place + 2]
        assert got.place_of(99) is None


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(st.tuples(st.one_of(changes(), st.integers(0, 12)), st.sets(st.integers(0, 5))), max_size=60),
    clock=st.integers(11, 30),
)
def test_what_is_kept_of_all_requests_is_what_counting_them_gives(steps: list[Any], clock: int) -> None:
    table = RequestTable()
    for item, blocks in steps:
        if isinstance(item, RequestChange):
            table.apply(item, None, lambda _: None)
        else:
            table.forget(item)
        rows = list(table.values())
        assert table.states == {s: n for s in (*STATES, None) if (n := sum(row.state == s for row in rows))}
        assert table.siblings == sum(row.sibling is not None for row in rows)
        assert table.scored == sum(row.score is not None for row in rows)
        waits = [t for row in rows if row.waits and (t := row.queue_time(float(clock))) is not None]
        assert table.longest_wait(float(clock)) == max(waits, default=None)
        holders = sorted(
            (r for r in rows if r.block_count and not r.finished), key=lambda r: (-(r.block_count or 0), r.num)
        )
        assert table.holders(3) == holders[:3]
        in_order = sorted(rows, key=lambda row: row.num)
        held = {block: found for block in blocks if (found := [row for row in in_order if block in row.table])}
        assert table.holding(blocks) == held


def test_a_copy_that_is_held_still_shares_its_rows_until_they_change() -> None:
    live = RequestTable()
    for num in range(100):
        live.apply(RequestChange(num=num, state="decode", table_at=0, table=[num]), None, lambda _: None)
    still = live.held_still()
    live.apply(RequestChange(num=3, state="finished", table=[1000]), None, lambda _: None)
    live.apply(RequestChange(num=3, output_tokens=5, table=[1001]), None, lambda _: None)
    live.forget(4)
    assert (still[3].state, still[3].table, still[3].output_tokens) == ("decode", [3], None)
    assert (live[3].state, live[3].table) == ("finished", [3, 1000, 1001])
    assert 4 in still
    assert all(still[num] is live[num] for num in range(100) if num not in (3, 4))
    assert (still.states["decode"], live.states["decode"]) == (100, 98)


def test_a_few_changes_among_many_requests_look_at_few() -> None:
    table, order = RequestTable(), RequestOrder()
    looked_at = 0

    for num in range(10_000):
        table.apply(RequestChange(num=num, id=f"r{num:05d}", state="decode", queue_s=num % 7), None, lambda _: None)
    order.of(table, "wait", False, parse(""), 1.0)
    places = order._all._place

    def counted(row: RequestRow) -> object:
        nonlocal looked_at
        looked_at += 1
        return places(row)

    order._all._place = counted  # type: ignore[assignment]
    for num in range(64):
        table.apply(RequestChange(num=num * 100, queue_s=3.5), None, lambda _: None)
    assert len(order.of(table, "wait", False, parse(""), 1.0)) == 10_000
    assert looked_at == 64
    # A filter is looked for in the order there is, and leaving it is no work at all.
    assert len(order.of(table, "wait", False, parse("r0001"), 1.0)) == 10
    assert len(order.of(table, "wait", False, parse("r"), 1.0)) == 10_000
    assert len(order.of(table, "wait", False, parse(""), 1.0)) == 10_000
    assert looked_at == 64


def test_the_journal_of_a_long_run_is_bounded() -> None:
    table = RequestTable()
    for num in range(50_000):
        table.apply(RequestChange(num=num, state="decode"), None, lambda _: None)
        if num >= 10:
            table.forget(num - 10)
    assert len(table) == 10
    assert len(table.journal._latest) <= 4096
    assert table.journal.since(0) is None
    assert table.journal.since(table.version) == []
    order = RequestOrder()
    assert [row.num for row in order.of(table, "arrival", False, parse(""), 1.0).rows(0, 20)] == list(
        range(49_990, 50_000)
    )


def test_the_tables_of_all_are_read_once_for_the_same_blocks() -> None:
    table = RequestTable()
    for num in range(1000):
        table.apply(RequestChange(num=num, table_at=0, table=[num, num + 1]), None, lambda _: None)
    assert [row.num for row in table.holding({7, 8})[8]] == [7, 8]
    read = []
    sharers = table._sharers
    look = sharers._of
    sharers._of = lambda row: (read.append(row.num), look(row))[1]  # type: ignore[method-assign, func-returns-value]
    table.apply(RequestChange(num=500, table=[8]), None, lambda _: None)
    assert [row.num for row in table.holding({8})[8]] == [7, 8, 500]
    assert read == [500]
