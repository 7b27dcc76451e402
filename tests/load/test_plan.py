"""Prompts have the length that was asked for, and have in common what they are meant to."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.load.plan import Plan, Session, chats, mixed, synthetic, traced
from kvtop.load.prompts import WORDS, Segment, Writer, estimated_costs, prompt_tokens
from kvtop.load.traces import MOONCAKE_BLOCK, Trace, TraceRow
from kvtop.mixes import MIXES, Mix, scale_for

EXACT = Writer({word: 1.0 + index % 3 for index, word in enumerate(WORDS)}, exact=True)
ESTIMATED = Writer(estimated_costs(), exact=False)


def take(plan: Plan, count: int) -> list[Session]:
    return list(itertools.islice(plan.sessions(), count))


@given(st.lists(st.builds(Segment, st.text(max_size=5), st.integers(0, 400)), max_size=4))
def test_a_prompt_costs_what_its_segments_say(segments: list[Segment]) -> None:
    prompt = tuple(segments)
    assert EXACT.cost(EXACT.text(prompt)) == prompt_tokens(prompt)
    assert ESTIMATED.cost(ESTIMATED.text(prompt)) == pytest.approx(prompt_tokens(prompt), abs=1 + len(prompt))
    assert all(word for word in EXACT.text(prompt).split(" ")[1:])


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_a_prompt_that_is_shorter_than_any_word_is_one_word_and_not_nothing(tokens: int) -> None:
    letters = Writer({word: len(word) + 1.0 for word in WORDS}, exact=False)
    texts = [letters.text((Segment("", 0), Segment(f"{key}", tokens))) for key in range(9)]
    assert {len(text.split()) for text in texts} == {1}
    assert letters.text(()) == letters.text((Segment("", 0),)) == "", "no system prompt was asked for"


@given(st.text(max_size=5), st.integers(20, 300), st.integers(0, 200))
def test_a_shorter_piece_of_a_block_is_how_it_begins(key: str, tokens: int, more: int) -> None:
    short, long = (EXACT.text((Segment(key, size),)).split() for size in (tokens, tokens + more))
    # The last word may be a filler instead of one that did not fit.
    assert long[: len(short) - 3] == short[: len(short) - 3]


def test_prompts_differ_from_their_first_words_on() -> None:
    texts = [
        EXACT.text(session.turns[0].user)
        for session in take(synthetic((40, 40), (4, 4), shared=0, groups=1, seed=0), 50)
    ]
    assert len({tuple(text.split()[:4]) for text in texts}) == len(texts)


def test_what_a_group_shares_is_the_same_and_inside_the_length() -> None:
    sessions = take(synthetic((100, 200), (1, 9), shared=60, groups=3, seed=0), 200)
    assert {session.head for session in sessions} == {(Segment(f"0 head {group}", 60),) for group in range(3)}
    lengths = [prompt_tokens(session.head) + prompt_tokens(session.turns[0].user) for session in sessions]
    assert min(lengths) >= 100
    assert max(lengths) <= 200
    assert {session.turns[0].output for session in sessions} == set(range(1, 10))


@pytest.mark.parametrize("mix", MIXES.values(), ids=lambda mix: mix.name)
def test_a_mix_has_its_classes_as_often_as_it_says_at_its_scale(mix: Mix) -> None:
    sessions = take(mixed(mix, scale_for(1e9, 4096, mix), seed=5), 4000)
    for kind in mix.classes:
        of_kind = [session for session in sessions if session.label == kind.label]
        assert len(of_kind) / len(sessions) == pytest.approx(kind.weight, abs=0.04)
        assert all(
            (session.extensions.priority, session.samples) == (kind.priority, kind.samples) for session in of_kind
        )
        assert len({session.extensions.cache_salt for session in of_kind}) == max(1, kind.tenants)
    assert max(session.most_tokens for session in sessions) <= 4096


@pytest.mark.parametrize(
    "plan",
    [
        synthetic((1, 50), (1, 50), shared=0, groups=1, seed=4),
        chats((2, 5), (5, 9), (5, 9), shared=30, groups=2, think=2.0, seed=4),
        mixed(MIXES["sharing"], scale_for(1e9, 2048, MIXES["sharing"]), seed=4),
    ],
)
def test_a_plan_is_the_same_each_time(plan: Plan) -> None:
    assert take(plan, 100) == take(plan, 100)
    assert plan.digest() == plan.digest()


def test_chats_think_between_turns_and_not_before_the_first() -> None:
    sessions = take(chats((2, 4), (5, 5), (6, 6), shared=30, groups=2, think=2.0, seed=4), 500)
    assert {len(session.turns) for session in sessions} == {2, 3, 4}
    assert {session.turns[0].think for session in sessions} == {0.0}
    later = [turn.think for session in sessions for turn in session.turns[1:]]
    assert sum(later) / len(later) == pytest.approx(2.0, rel=0.15)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.sampled_from((1.0, 0.1, 0.013)), st.integers(1, 512))
def test_equal_hash_ids_are_equal_text(ids: list[int], scale: float, last: int) -> None:
    length = MOONCAKE_BLOCK * (len(ids) - 1) + last
    plan, times = traced(Trace("t", "mooncake", (TraceRow(0.0, length, 7, tuple(ids)),)), scale, context=None, seed=0)
    (session,) = plan.sessions()
    user = session.turns[0].user
    assert times == [0.0]
    assert [segment.key for segment in user] == [f"0 block {each}" for each in ids]
    assert [segment.tokens for segment in user[:-1]] == [round(MOONCAKE_BLOCK * scale)] * (len(ids) - 1)


def test_requests_that_the_context_cannot_hold_are_left_out_and_counted() -> None:
    rows = (TraceRow(0.0, 100, 10), TraceRow(1.0, 1000, 10), TraceRow(2.0, 90, 11))
    plan, times = traced(Trace("t", "azure-2023", rows), 1.0, context=110, seed=0)
    assert (plan.left_out, times) == (1, [0.0, 2.0])
    assert [session.turns[0].output for session in plan.sessions()] == [10, 11]
