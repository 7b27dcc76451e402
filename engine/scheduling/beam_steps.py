"""What a beam search does with the requests that are its beams: it forks, reorganises, wakes, is preempted, and ends.

When all beams of a search have reported what may follow them, those that go on are chosen (`engine.requests.hypotheses`). A parent
that survives keeps its lane with its best child; the other lanes take over their parents' tokens and tables: they share
the blocks that are new to them first and then let go of their old ones, so that nothing is lost in between. No block is
taken or copied for that. As with samples (`engine.scheduling.forking`), the last block may be shared while it is incomplete, and
whoever writes it first gets a copy of that block alone.

A search is preempted as one. Its tokens and scores are kept. When the leader is computed again, the others wake one after
the other, as soon as the beam with which they begin alike for longest is computed: they share its complete blocks and
compute the rest. So a search never needs more blocks than before, with or without a prefix cache.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from engine.memory.places import tail_places
from engine.memory.prefix import extend_hashes
from engine.requests.beam import Beam
from engine.requests.hypotheses import Candidate, Child, Hypothesis, Search, with_logprob
from engine.requests.request import FinishReason, Request, RequestState
from engine.scheduling.forking import add_samples
from engine.scheduling.progress import append_token
from engine.scheduling.roster import Roster
from engine.words import one_line


def add_beams(request: Request, nums: list[int], length_penalty: float = 1.0) -> None:
    """Make ``request``, not queued yet, a beam search of width ``1 + len(nums)``; the other beams get these ``nums``.

    Raises ValueError for a width or a penalty outside the limits.
    """
    search = Search(1 + len(nums), length_penalty, request.stop_ids, tops=request.sampling.logprobs)
    add_samples(request, nums)
    beam = Beam(search, [request, *request.samples])
    for member in beam.members:
        member.beam = beam


def report(request: Request, candidates: Sequence[Candidate]) -> None:
    """A beam was computed to its end; it waits until all of its search have been."""
    beam = request.beam
    assert beam is not None
    beam.reported[beam.lane_of(request)] = candidates


def go_on(roster: Roster, beams: Iterable[Beam[Request]], now: float) -> list[Request]:
    """Beams of these searches were computed: whoever can wakes, and searches that have all reported take a step. Returns the
    requests that end with it."""
    finished: list[Request] = []
    for beam in beams:
        if beam.ended or beam.leader.state is RequestState.PREEMPTED:
            continue
        if beam.asleep:
            _wake(roster, beam, now)
        elif all(lane in beam.reported for lane in beam.order):
            finished += _step(roster, beam, now)
    return finished


def _step(roster: Roster, beam: Beam[Request], now: float) -> list[Request]:
    parents, leader, search = beam.live, beam.leader, beam.search
    outputs = [parent.token_ids[parent.prompt_tokens :] for parent in parents]
    logprobs = [parent.logprobs or () for parent in parents]
    reported = [beam.reported[lane] for lane in beam.order]
    totals = [parent.score or 0.0 for parent in parents]
    texts = [parent.text for parent in parents]

    def stops(parent: int, token: int) -> bool:
        text = texts[parent]
        return text is not None and text.would_stop(token)

    try:
        children = search.advance(outputs, totals, reported, stops, logprobs)
    except Exception as error:
        why = f"its next tokens could not be made text: {one_line(error)}"
        return end_beams(roster, beam, FinishReason.ERROR, now, why)
    beam.reported.clear()
    roster.totals.decode_tokens += max(1, len(children))
    grown = [child.total for child in children]
    if search.over(grown, leader.output_tokens + 1, leader.max_tokens):
        best = search.best(
            [(*outputs[child.parent], child.token) for child in children],
            grown,
            [with_logprob(logprobs[child.parent], child) for child in children],
        )
        return end_beams(roster, beam, None, now, best=best)
    if (failed := _reorganise(roster, beam, children, now)) is not None:
        return end_beams(roster, beam, FinishReason.ERROR, now, failed)
    return []


def _place(beam: Beam[Request], children: Sequence[Child]) -> dict[int, Child]:
    """The children by lane, best first: each parent's best keeps its lane, others go where no parent survives."""
    lanes: dict[int, Child] = {}
    homeless = []
    for child in children:
        lane = beam.order[child.parent]
        if lane in lanes:
            homeless.append(child)
        else:
            lanes[lane] = child
    free = (lane for lane in range(beam.width) if lane not in lanes)
    lanes.update(zip(free, homeless, strict=False))
    if 0 not in lanes:
        # There are fewer beams than before; the leader stands for the search, so it is one of them.
        lanes[0] = lanes.pop(max(lanes))
    rank = {id(child): place for place, child in enumerate(children)}
    return dict(sorted(lanes.items(), key=lambda pair: rank[id(pair[1])]))


def _reorganise(roster: Roster, beam: Beam[Request], children: Sequence[Child], now: float) -> str | None:
    """The lanes hold ``children`` from now on. Returns why the search cannot go on, None where it can."""
    leader = beam.leader
    lanes = _place(beam, children)
    # As they are before anything changes.
    parents = {lane: _Lineage(beam.members[beam.order[child.parent]]) for lane, child in lanes.items()}
    gone = [lane for lane in beam.order if lane not in lanes]
    movers = [lane for lane in lanes if parents[lane].request is not beam.members[lane]]
    for lane in movers:
        _share_new(roster, beam.members[lane], parents[lane], now)
    for lane in movers:
        member = beam.members[lane]
        _release_old(roster, member, parents[lane], now)
        if member in leader.samples:
            _join(roster, beam, member, now)
        parents[lane].give(member)
    for lane in gone:
        _leave(roster, beam, beam.members[lane], now)
        beam.members[lane].enter(RequestState.WAITING, now)
        beam.members[lane].score = None
    failed = None
    for lane, child in lanes.items():
        ending = append_token(beam.members[lane], child.token, roster.max_model_len, now, child.logprob)
        if ending is not None and ending.reason is FinishReason.ERROR:
            failed = ending.detail
        beam.members[lane].score = child.total
    beam.order = list(lanes)
    _promise(roster, beam)
    return failed


def _share_new(roster: Roster, member: Request, parent: "_Lineage", now: float) -> None:
    held = set(member.held)
    for block in parent.blocks:
        if block not in held:
            roster.pool.share(block, member.num, now, fork=True)


def _release_old(roster: Roster, member: Request, parent: "_Lineage", now: float) -> None:
    kept = set(parent.blocks)
    roster.release_blocks(member, [block for block in member.held if block not in kept], now)


class _Lineage:
    """What a child takes over from its parent."""

    def __init__(self, parent: Request) -> None:
        self.request = parent
        self.tokens, self.hashes, self.table = list(parent.token_ids), list(parent.hashes), list(parent.block_table)
        self.holes, self.chained, self.computed_tokens = parent.holes, parent.chained, parent.computed_tokens
        self.blocks = list(parent.held)
        self.text = None if parent.text is None else parent.text.copy()
        self.logprobs = None if parent.logprobs is None else list(parent.logprobs)

    def give(self, child: Request) -> None:
        child.token_ids, child.hashes, child.block_table = list(self.tokens), list(self.hashes), list(self.table)
        child.holes, child.chained, child.computed_tokens = self.holes, self.chained, self.computed_tokens
        child.computed_ever = max(child.computed_ever, self.computed_tokens)
        child.takeovers += 1
        child.text = self.text
        child.logprobs = self.logprobs


def _promise(roster: Roster, beam: Beam[Request]) -> None:
    """Of those that share an incomplete block all but the last to write it will need a copy, and are promised one."""
    pool = roster.pool
    awake = [request for request in roster.running if request.beam is beam]
    written: set[int] = set()
    for member in reversed(awake):
        tail = tail_places(pool, member.computed_tokens)
        # Blocks of all KV groups are shared alike: the first tells of the others.
        member.forked_tail = bool(tail) and member.block_table[tail.start] in written
        if tail:
            written.add(member.block_table[tail.start])
    for member in awake:
        if roster.regime.capacity.reserves:
            roster.promised.make(member)


def _join(roster: Roster, beam: Beam[Request], member: Request, now: float) -> None:
    """A parked member runs from now on, behind the others of its search."""
    leader = beam.leader
    leader.samples.remove(member)
    if not member.admissions:
        member.times = replace(leader.times)
        member.state = RequestState.PREFILL
    else:
        member.enter(RequestState.PREFILL, now)
    member.started, member.max_tokens = now, leader.max_tokens
    if member.first_token is None:
        member.first_token = leader.first_token
    member.admissions += 1
    roster.fork(member, behind=[request for request in roster.running if request.beam is beam][-1])


def _leave(roster: Roster, beam: Beam[Request], member: Request, now: float) -> None:
    """A member gives up what it holds and is parked; its state is the caller's."""
    roster.park(member, now)
    parked = [*beam.leader.samples, member]
    beam.leader.samples = [each for each in beam.members if each in parked]


def _wake(roster: Roster, beam: Beam[Request], now: float) -> None:
    """Those whose nearest kin are computed, as far as they are alike, share that part and compute the rest."""
    pool, leader = roster.pool, beam.leader
    for lane in beam.asleep:
        member = beam.members[lane]
        kin, tokens = beam.kin(lane, pool.block_size)
        if kin in leader.samples or kin.computed_tokens < tokens:
            continue
        _join(roster, beam, member, now)
        shared = kin.block_table[: pool.blocks_for(tokens)]
        for block in shared:
            pool.share(block, member.num, now, fork=True)
        member.block_table, member.chained = shared, min(kin.chained, tokens // pool.block_size)
        # It may have been parked with fewer hashes than its kin has made since.
        extend_hashes(member, member.chained * pool.groups, pool.block_size, pool.groups)
        member.computed_tokens = member.cached = tokens
        if roster.regime.capacity.reserves:
            roster.promised.make(member)
            roster.promised.make(leader)


def park_beams(roster: Roster, beam: Beam[Request], now: float) -> None:
    """The search is preempted: all give up their blocks, the leader waits in the queue, for all of them."""
    for member in beam.awake[1:]:
        _leave(roster, beam, member, now)
        member.enter(RequestState.PREEMPTED, now)
    beam.reported.clear()
    roster.requeue(beam.leader, now)


def end(roster: Roster, request: Request, reason: FinishReason, now: float, detail: str | None = None) -> None:
    """A live request is finished, wherever it is; with a beam its whole search."""
    if request.beam is None:
        roster.end(request, reason, now, detail)
    else:
        end_beams(roster, request.beam, reason, now, detail)


def end_beams(
    roster: Roster,
    beam: Beam[Request],
    reason: FinishReason | None,
    now: float,
    detail: str | None = None,
    *,
    best: Sequence[Hypothesis] | None = None,
) -> list[Request]:
    """The search ends with its ``best`` hypotheses, by default those so far: lane 0 gets the best, and so on.

    ``reason``: None, or length, for stop or length as each deserves. Returns the members that ever had a token.
    """
    leader, live = beam.leader, beam.live
    if best is None:
        outputs = [member.token_ids[member.prompt_tokens :] for member in live]
        best = beam.search.best(outputs, [member.score or 0.0 for member in live], [m.logprobs or () for m in live])
    beam.ended = True
    found = [best[lane] if lane < len(best) else None for lane in range(beam.width)]
    reasons = [_reason(each, reason) for each in found]
    awake, parked = beam.awake, list(leader.samples)
    # The leader last: it ends those that are parked.
    for member in reversed(awake):
        roster.end(member, reasons[beam.lane_of(member)], now, detail)
    prompt = leader.token_ids[: leader.prompt_tokens]
    for member, hypothesis, its_reason in zip(beam.members, found, reasons, strict=True):
        member.token_ids = [*prompt, *(hypothesis.output if hypothesis else ())]
        member.hashes, member.score = [], hypothesis.total if hypothesis else None
        if member.logprobs is not None:
            member.logprobs = list(hypothesis.logprobs) if hypothesis else []
        member.finish_reason, member.max_tokens = its_reason, leader.max_tokens
        _retell(member)
        member.finish_detail = _stopped_by(member) if its_reason is FinishReason.STOP else detail
        if hypothesis and member.first_token is None:
            member.first_token, member.last_token = leader.first_token or now, now
    for member in beam.seen:
        if member in parked:
            roster.totals.count_end(member.finish_reason)
    return beam.seen


def _retell(member: Request) -> None:
    """Its text is that of the output it ends with."""
    if member.text is None:
        return
    output = member.token_ids[member.prompt_tokens :]
    if output and output[-1] in member.stop_ids:
        output.pop()
    try:
        member.text = member.text.of(output)
    except Exception:
        # Only where the tokenizer failed before, and the search ends because of that.
        member.text = member.text.fresh()


def _stopped_by(member: Request) -> str:
    """What ended the output of a beam that was stopped."""
    last = member.token_ids[-1]
    if last in member.stop_ids or member.text is None or member.text.matched is None:
        return member.stop.name(last)
    return f"stop string {member.text.matched!r}"


def _reason(found: Hypothesis | None, reason: FinishReason | None) -> FinishReason:
    if reason in (FinishReason.ABORT, FinishReason.ERROR):
        return reason
    return FinishReason.STOP if found is not None and found.stopped else FinishReason.LENGTH
