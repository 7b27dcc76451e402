"""A plan was run: KV is where it should be, tokens were sampled, and the books say so from now on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from engine.memory.partial import PartialIndex
from engine.memory.pins import Pins
from engine.requests.batch import BatchItem
from engine.requests.beam import Beam
from engine.requests.logprobs import TokenLogprob
from engine.requests.request import Request
from engine.scheduling import tiering
from engine.scheduling.beam_steps import go_on, report
from engine.scheduling.drawn import Drawn
from engine.scheduling.failing import fail
from engine.scheduling.forking import take_tokens
from engine.scheduling.progress import append_token, count_recomputed, drop_unseen, write_kv
from engine.scheduling.roster import RUNNING_STATES, Roster


def commit_items(
    roster: Roster,
    pins: Pins,
    partial: PartialIndex,
    drawn: Iterable[Drawn],
    failures: Mapping[int, str],
    now: float,
) -> list[Request]:
    """Book what was computed and sampled; requests whose rows came to nothing (``failures``: why, by num) end with an
    error. Returns the requests that end with it."""
    finished: list[Request] = []
    searches: dict[int, Beam[Request]] = {}
    totals, pool = roster.totals, roster.pool
    for item, tokens, logprobs, candidates in drawn:
        request = item.request
        if request.state not in RUNNING_STATES or request.computed_tokens != item.start:
            continue
        if request.num in failures:
            finished += fail(roster, pins, request, failures[request.num], now)
            continue
        totals.recomputed_tokens += count_recomputed(item)
        if not item.decodes:
            totals.prefill_tokens += item.count
        _computed(roster, partial, request, item.start + item.known, now)
        if tokens:
            request.proposed = []
        if item.proposed:
            finished += _take_proposed(roster, partial, item, tokens, logprobs, now)
        elif tokens:
            finished += take_tokens(roster, item, tokens, logprobs, now)
        beam = request.beam
        if beam is not None:
            searches[beam.leader.num] = beam
            if item.candidates:
                report(request, candidates)
        if pool.slides and request.state in RUNNING_STATES and not (beam and beam.asleep):
            totals.dropped_blocks += drop_unseen(request, pool, now)
    return finished + go_on(roster, searches.values(), now)


def _computed(roster: Roster, partial: PartialIndex, request: Request, end: int, now: float) -> None:
    """The KV of its next positions, up to ``end-1``, is there."""
    start, policies = request.computed_tokens, roster.regime.policies
    hashing = policies.prefix_cache
    write_kv(request, start, end, roster.pool, now, hashing=hashing)
    if roster.tiers is not None:
        tiering.filled(roster, roster.tiers, request, start, end, now)
    if hashing and policies.partial_reuse != "off":
        partial.filled(request, start, end)


def _take_proposed(
    roster: Roster,
    partial: PartialIndex,
    item: BatchItem,
    tokens: Sequence[int],
    logprobs: Sequence[TokenLogprob | None],
    now: float,
) -> list[Request]:
    """The sampled tokens count up to the first behind a proposed one that was not sampled itself; the KV of that one and
    of those behind it is given back. Returns the request if it ends with them."""
    request = item.request
    for (token, accepted), told in zip(_agreed(tokens, item.proposed), logprobs, strict=False):
        roster.totals.decode_tokens += 1
        if (ending := append_token(request, token, roster.max_model_len, now, told)) is not None:
            roster.end(request, ending.reason, now, ending.detail)
            return [request]
        if accepted:
            request.computed_ever = max(request.computed_ever, request.computed_tokens + 1)
            _computed(roster, partial, request, request.computed_tokens + 1, now)
    roster.give_back_tail(request, now)
    return []


def _agreed(tokens: Sequence[int], proposed: Sequence[int]) -> Iterator[tuple[int, bool]]:
    """The sampled tokens that count, and of each whether its KV was computed, because it had been proposed."""
    for place, token in enumerate(tokens):
        accepted = place < len(proposed) and proposed[place] == token
        yield token, accepted
        if not accepted:
            return
