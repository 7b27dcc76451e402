"""Log-probabilities come with their tokens, whatever of the text is held back, and whoever reads when."""

import pytest

from engine.requests.sampling import Sampling
from engine.requests.stopping import StopRules
from engine.requests.stream import Output
from engine.serving.handle import RequestHandle
from tests.engine.serving.faulty import LETTERS, Served

PROMPT = [1, 2, 3]


def check(it: Served, output: Output, tops: int, before: tuple[int, ...] = ()) -> None:
    """Each of its tokens came with what the runner said of it behind the prompt and ``before``."""
    ids = [*PROMPT, *before, *output.token_ids]
    first = len(ids) - len(output.token_ids)
    expected = [it.runner.told(ids[:place], ids[place], tops) for place in range(first, len(ids))]
    assert list(output.logprobs) == expected


def by_turns(it: Served, handle: RequestHandle) -> list[Output]:
    """What a reader gets who reads after each turn."""
    pieces: list[Output] = []
    for _ in range(200):
        it.turn()
        if handle.stream._unread and (output := handle.get(0.0)) is not None:
            pieces.append(output)
        if handle.ended:
            return pieces
    raise AssertionError("it never ends")


def spelled(tokens: tuple[int, ...]) -> str:
    assert LETTERS.token_bytes is not None
    return b"".join(map(LETTERS.token_bytes, tokens)).decode()


@pytest.mark.parametrize("tops", [0, 3])
def test_text_that_is_held_back_holds_no_logprobs_back(tops: int) -> None:
    it = Served()
    free = it.submit(PROMPT, 12)
    it.run_out()
    whole = spelled(free.result(0.0)[0].token_ids)
    # Lies across four tokens, and is followed by what only might have been it.
    stop, near = whole[4:8], whole[:3] + "~"
    handle = it.submit(PROMPT, 12, stop=StopRules(strings=(stop, near)), sampling=Sampling(logprobs=tops))
    pieces = by_turns(it, handle)
    before: tuple[int, ...] = ()
    for piece in pieces:
        assert len(piece.token_ids) == 1
        check(it, piece, tops, before)
        before += piece.token_ids
    assert [piece.text for piece in pieces[:4]] == ["", "", "", whole[:4]], "held back, then said at once"
    assert "".join(piece.text for piece in pieces) == whole[:4]
    assert len(before) == 8
    assert pieces[-1].detail == f"stop string {stop!r}"


def test_what_was_told_is_kept_by_its_reader_alone() -> None:
    """Twenty of them take two kilobytes a token: for an engine with many streams more than all else that a request has."""
    it = Served(64)
    handle = it.submit(PROMPT, 100, sampling=Sampling(logprobs=20), n=2)
    members = [handle.request, *handle.request.samples]
    sums = [0.0, 0.0]
    while not handle.ended:
        it.turn()
        assert all(request.logprobs == [] for request in members)
        while handle.stream._unread and (output := handle.get(0.0)) is not None:
            sums[output.index] += sum(each.logprob for each in output.logprobs)
            if output.usage is not None:
                assert output.usage.log_probability == pytest.approx(sums[output.index])


def test_a_reader_who_comes_late_gets_all_in_one_piece() -> None:
    it = Served()
    handle = it.submit(PROMPT, 9, sampling=Sampling(logprobs=2))
    it.run_out()
    output = handle.get(0.0)
    assert output is not None
    assert len(output.logprobs) == 9
    check(it, output, 2)
    assert output.usage is not None
    assert output.usage.log_probability == pytest.approx(sum(each.logprob for each in output.logprobs))


def test_a_result_joins_them_and_who_asks_for_none_gets_none() -> None:
    it = Served()
    asked = it.submit(PROMPT, 6, n=3, sampling=Sampling(logprobs=1))
    other = it.submit(PROMPT, 6)
    it.run_out()
    outputs = asked.result(0.0)
    assert len({output.token_ids for output in outputs}) == 3
    for output in outputs:
        check(it, output, 1)
    (plain,) = other.result(0.0)
    assert plain.logprobs == ()
    assert plain.usage is not None
    assert plain.usage.log_probability is None


def test_a_result_that_came_in_pieces_has_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Served()
    handle = it.submit(PROMPT, 6, sampling=Sampling(logprobs=1))
    pieces = by_turns(it, handle)
    assert len(pieces) == 6
    coming = iter([*pieces, None])
    monkeypatch.setattr(RequestHandle, "get", lambda *_: next(coming))
    (output,) = handle.result(0.0)
    check(it, output, 1)
    assert (len(output.token_ids), output.finish_reason, output.usage) == (6, "length", pieces[-1].usage)


def test_pieces_read_at_any_time_join_to_the_whole() -> None:
    it = Served(14, max_running=4)
    handles = [it.submit(PROMPT, 20, sampling=Sampling(logprobs=1), label=str(i)) for i in range(4)]
    it.turn(7)
    early = [handle.get(0.0) for handle in handles if handle.stream._unread]
    it.run_out()
    assert it.engine.scheduler.totals.preemptions
    for handle, first in zip(handles, [*early, *[None] * 4], strict=False):
        before = () if first is None else first.token_ids
        if first is not None:
            check(it, first, 1)
        (rest,) = handle.result(0.0)
        check(it, rest, 1, before)
        assert len(before) + len(rest.token_ids) == 20


@pytest.mark.parametrize("stop", [None, "ab"])
def test_beams_are_told_with_theirs_when_the_search_is_over(stop: str | None) -> None:
    it = Served(128)
    rules = StopRules(strings=(stop,)) if stop else None
    handle = it.submit(PROMPT, 8, beam=3, sampling=Sampling(logprobs=2), stop=rules)
    it.run_out()
    for output in handle.result(0.0):
        check(it, output, 2)
        assert output.usage is not None
        assert output.usage.log_probability == pytest.approx(sum(each.logprob for each in output.logprobs))


def test_a_beam_has_its_sum_without_being_asked() -> None:
    it = Served(128)
    handle = it.submit(PROMPT, 8, beam=2)
    it.run_out()
    sums = [output.usage.log_probability for output in handle.result(0.0) if output.usage]
    assert len(sums) == 2
    assert sums[0] is not None
    assert sums[1] is not None
    assert 0.0 > sums[0] > sums[1]


@pytest.mark.parametrize("ended", ["abort", "error"])
def test_who_ends_early_keeps_what_was_told(ended: str) -> None:
    it = Served()
    handle = it.submit(PROMPT, 30, sampling=Sampling(logprobs=1))
    it.turn(6)
    if ended == "abort":
        handle.cancel()
    else:
        it.runner.bad = frozenset({handle.num})
    it.run_out()
    (output,) = handle.result(0.0)
    assert output.finish_reason == ended
    assert len(output.token_ids) >= 5
    check(it, output, 1)


def test_no_stop_string_cuts_the_first_tokens_that_were_asked_for() -> None:
    it = Served()
    free = it.submit(PROMPT, 12)
    it.run_out()
    whole = spelled(free.result(0.0)[0].token_ids)
    stops = tuple(dict.fromkeys(whole[place] for place in range(12)))
    handle = it.submit(PROMPT, 12, stop=StopRules(strings=stops), sampling=Sampling(min_tokens=5))
    it.run_out()
    (output,) = handle.result(0.0)
    assert (output.text, output.finish_reason, len(output.token_ids)) == (whole[:5], "stop", 6)
