"""The filter's language: what passes, what is no filter and where, and that its spelling says what it is."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.protocol import RequestChange
from kvtop.state import RequestRow, RequestTable
from kvtop.views.columns import NAMES
from kvtop.views.filter_line import hint_row, mistake_row
from kvtop.views.request_fields import COUNT, FIELDS, NAMED, STATE, STATES
from kvtop.views.request_filter import (
    EVERYTHING,
    LONGEST,
    MOST_TERMS,
    FilterError,
    RequestFilter,
    Term,
    hint,
    keeper,
    parse,
    while_typed,
)
from kvtop.views.request_order import RequestOrder
from tests.views.scene import LATER, check_rows, scene
from tests.views.test_request_order import changes


def passing(text: str, clock: float = 5004.0) -> list[int]:
    keep = keeper(parse(text))
    requests = scene().requests
    assert requests is not None
    return [num for num, row in requests.items() if keep(row, clock)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [1, 2, 3, 4, 5, 6]),
        ("CHAT", [1, 2, 5]),
        ("b-00 wait", [4]),
        ("state:waiting", [4, 5]),
        ("state:preempted", [5]),
        ("state:running,done", [1, 2, 3, 6]),
        ("state != done class=long", [3, 4]),
        ("class:CHAT", [1, 2, 5]),
        ("id~-000", [1, 2, 3, 5, 6]),
        ('id:A-0001,"b-0003"', [1, 3]),
        ("prompt>640", [3]),
        ("prompt >= 640", [3, 4]),
        ("prompt>12k", [3]),
        ("out<10", [3, 4, 5]),
        ("preempt>=2 | prio==1", [3, 4, 5]),
        ("state:waiting prompt>100 preempt>=2", [5]),
        ("wait>16s", [4]),
        ("wait>16399ms", [4]),
        ("wait<1m", [1, 2, 3, 4, 5, 6]),
        ("!id~a !state:running", [4, 6]),
        ("!!chat", [1, 2, 5]),
    ],
)
def test_who_passes(text: str, expected: list[int]) -> None:
    assert passing(text) == expected


def test_what_is_unknown_matches_neither_a_condition_nor_its_opposite() -> None:
    """Of four of the six the cached tokens are known, of one alone why it ended."""
    assert passing("cached>0") == [2]
    assert passing("!cached>0") == [1, 3]
    assert passing("!end:stop") == [6]
    assert passing("lost>=0 | !lost>=0") == []


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("chat promt>4", 5, "did you mean prompt?"),
        ("a bananas:3", 2, 'as a text: "bananas:3"'),
        ("prompt>", 7, "a number is missing: tokens in the prompt"),
        ("prompt>4000 | wait>5parsecs", 19, "5parsecs is no number; units: s ms m min h d"),
        ("prompt~4", 6, "prompt takes > >= < <= =, not ~"),
        ("wait=5s", 4, "wait takes > >= < <=, not ="),
        ("state:waitng", 6, "no state waitng: waiting, running, done"),
        ("state:waiting,", 14, "a text is missing"),
        ("prompt>1e999", 7, "beyond all measure"),
        ("prompt>nan", 7, "nan is no number"),
        ("| a", 0, "before this |"),
        ("a |", 2, "after this |"),
        ("a || b", 2, "after this |"),
        ("a !", 2, "after this !"),
        (">5", 0, "no field stands before >"),
        ('id:"a b', 3, "not closed"),
        ('"a"b', 3, "a blank is missing"),
        ('""', 0, "between these quotes"),
        ("a\x1b[31m", 1, "U+001B cannot be part of a filter"),
        ("x" * 10_000, LONGEST, "1,000 characters at most"),
        ("a " * (MOST_TERMS + 1), 2 * MOST_TERMS, "32 conditions at most"),
    ],
)
def test_what_is_no_filter_is_said_with_its_place(text: str, at: int, said: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert caught.value.at == at
    assert said in caught.value.message


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(), max_size=40) | st.text('|!:~<>="\\,ab 1.', max_size=20) | st.text(max_size=2 * LONGEST))
def test_any_text_is_a_filter_or_has_a_place_that_is_wrong(text: str) -> None:
    try:
        found = parse(text)
    except FilterError as error:
        found, mistake = while_typed(text, EVERYTHING)
        assert (found, mistake and mistake.at) == (EVERYTHING, error.at)  # noqa: PT017
        assert 0 <= error.begun <= error.at <= len(text)  # noqa: PT017
        check_rows([mistake_row(error, error.at + 20, EVERYTHING, 60)], 60)
    else:
        assert parse(found.printed) == found
        assert while_typed(text + " ", EVERYTHING) == (found, None)
        keeper(found)(RequestRow(1), 0.0)
    check_rows([hint_row(text, len(text), 60)], 60)


texts = st.text(st.characters(exclude_categories=("C", "Z")) | st.just(" "), min_size=1).map(str.lower)
numbers = st.floats(-1e15, 1e15).map(lambda number: number + 0.0) | st.integers(-1000, 1000).map(float)


def terms() -> st.SearchStrategy[Term]:
    kinds = [st.builds(Term, st.just(""), st.just(""), st.tuples(texts), st.booleans())]
    for field in FIELDS:
        for sign in field.operators:
            value: Any = numbers
            if not field.compared:
                words = st.sampled_from(list(STATES)) if field.kind == STATE else texts
                value = st.tuples(words) if sign == "~" else st.lists(words, min_size=1, max_size=3).map(tuple)
            kinds.append(st.builds(Term, st.just(field.name), st.just(sign), value, st.booleans()))
    return st.one_of(kinds)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(terms(), min_size=1, max_size=4).map(tuple), max_size=4).map(tuple))
def test_a_printed_filter_is_read_as_the_same(alternatives: tuple[tuple[Term, ...], ...]) -> None:
    made = RequestFilter(alternatives)
    assert parse(made.printed) == made


def plainly(row: RequestRow, clock: float) -> bool:
    """``wait>3s prompt<2 | decode<=9s !state:done | age>=8.5s``, said as plainly as can be."""
    wait, decode = row.queue_time(clock), row.decode_time(clock)
    age = None if wait is None else wait + (row.prefill_time(clock) or 0) + (row.decode_time(clock) or 0)
    return (
        (wait is not None and wait > 3 and row.prompt_tokens is not None and row.prompt_tokens < 2)
        or (decode is not None and decode <= 9 and row.state is not None and row.state != "finished")
        or (age is not None and age >= 8.5)
    )


@settings(max_examples=120, deadline=None)
@given(
    steps=st.lists(
        st.one_of(changes(), st.integers(0, 12), st.floats(0, 4).map(lambda s: round(s * 4) / 4)), max_size=60
    )
)
def test_who_passes_follows_the_clock_too(steps: list[Any]) -> None:
    """A wait grows over a bound without a word from the engine."""
    table, order, clock = RequestTable(), RequestOrder(), 11.0
    chosen = parse("wait>3s prompt<2 | decode<=9s !state:done | age>=8.5s")
    for step in steps:
        if isinstance(step, RequestChange):
            table.apply(step, None, lambda _: None)
        elif isinstance(step, int):
            table.forget(step)
        else:
            clock = clock + step if step < 3 else 11.0 + step
        got = order.of(table, "arrival", False, chosen, clock)
        assert {row.num for row in got.rows(0, len(got))} == {n for n, row in table.items() if plainly(row, clock)}


def test_a_filter_by_time_asks_again_only_whose_time_has_come() -> None:
    table, order, asked = RequestTable(), RequestOrder(), 0
    for num in range(1000):
        table.apply(RequestChange(num=num, state="waiting", phase_since=float(num), queue_s=0.0), None, lambda _: None)
    chosen = parse("wait>5s")
    assert len(order.of(table, "wait", False, chosen, 1000.0)) == 995
    keep = order._passing._keep

    def counted(row: RequestRow, clock: float) -> bool:
        nonlocal asked
        asked += 1
        return keep(row, clock)

    order._passing._keep = counted
    assert len(order.of(table, "wait", False, chosen, 1002.5)) == 998
    assert asked <= 6
    for turn in range(1000):  # a request that changes phases all the time is kept once
        table.apply(RequestChange(num=999, state="waiting", phase_since=2000.0 + turn), None, lambda _: None)
        order.of(table, "wait", False, chosen, 1002.5)
    assert len(order._passing._heap) < 200


def test_a_half_typed_name_of_a_field_hides_nothing() -> None:
    force = EVERYTHING
    seen = []
    for end in range(1, len("chat | x promt>4") + 1):
        force, mistake = while_typed("chat | x promt>4"[:end], force)
        seen.append((force.printed, mistake is not None))
    assert seen == [
        ("", False), ("ch", False), ("cha", False), ("chat", False), ("chat", False), ("chat", True), ("chat", True),
        ("chat | x", False), ("chat | x", False), ("chat | x", False), ("chat | x", False), ("chat | x", False),
        ("chat | x", False), ("chat | x promt", False), ("chat | x", True), ("chat | x", True),
    ]  # fmt: skip
    # A mistake in the midst changes nothing.
    assert while_typed("cha:t | x", parse("chat | x"))[0] == parse("chat | x")


def test_the_hint_names_what_could_come_next() -> None:
    assert "prompt" in hint("", 0)
    assert "prompt" in hint("state:waiting ", 14)
    assert hint("chat pr", 7) == "fields: prompt preempt prio prefill"
    assert hint("a !prompt>4", 11) == "prompt > >= < <= = tokens in the prompt · 4k = 4000"
    assert "running" in hint("state:", 6)
    assert hint("chatcmpl-7", 10) == "a text in id, class or state"


def test_every_column_that_can_be_compared_can_be_filtered_by_its_name() -> None:
    assert set(NAMES) - set(NAMED) == {"sample", "score", "life"}
    assert {field.kind for field in FIELDS if field.moving} <= {"seconds"}
    assert NAMED["output"].kind == COUNT
    assert passing("age>20s", 5004.0) == []
    assert passing("age>16s", LATER - 100 + 5000) == [4]
