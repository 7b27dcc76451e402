"""The demo's mix: seeded, scaled to the pool, with prefixes that are really shared."""

import hashlib
import itertools

import pytest

from engine.workload.arrivals import Arrival, MixWorkload
from kvtop.mixes import MIXES, SHARING, STANDARD, Mix, scale_for


def _encode(text: str) -> list[int]:
    return list(text.encode())


def _mix(seed: int, rate: float = 2.0, mix: Mix = STANDARD) -> MixWorkload:
    return MixWorkload(_encode, scale_for(4096, 4096, mix), rate=rate, seed=seed, mix=mix)


def _first(count: int, seed: int, mix: Mix) -> list[Arrival]:
    return list(itertools.islice(_mix(seed, mix=mix).arrivals(), count))


BOTH = pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES)


@BOTH
def test_the_same_seed_gives_the_same_arrivals_and_another_seed_gives_others(mix: Mix) -> None:
    first, again, other = (_first(50, seed, mix) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@BOTH
def test_every_request_fits_the_pool_and_the_context(mix: Mix) -> None:
    for tokens, context in ((1024, 1024), (4096, 8192), (100_000, 8192)):
        workload = MixWorkload(_encode, scale_for(tokens, context, mix), rate=1.0, seed=0, mix=mix)
        for arrival in itertools.islice(workload.arrivals(), 300):
            assert len(arrival.prompt) >= 1
            assert len(arrival.prompt) + arrival.max_tokens <= min(tokens, context)


def test_the_standard_mix_is_what_it_was() -> None:
    """Its figures and pictures are compared over time: no new kind of request may change what arrives, or when."""
    told = hashlib.sha256()
    for a in _first(200, 3, STANDARD):
        told.update(repr((a.after, a.label, a.prompt, a.max_tokens, a.priority, a.n, a.sampling, a.salt)).encode())
    assert told.hexdigest()[:16] == "9171db373220c510"


@BOTH
def test_only_what_a_class_shares_is_worth_keeping(mix: Mix) -> None:
    kinds = {kind.label: kind for kind in mix.classes}
    for arrival in _first(300, 2, mix):
        kind = kinds[arrival.label]
        if kind.keep is None:
            assert arrival.retention == ()
            continue
        (kept,) = arrival.retention
        assert (kept.start, kept.priority, kept.seconds) == (0, kind.keep, kind.keep_seconds)
        assert kept.end is not None
        alike = {tuple(a.prompt[: kept.end]) for a in _first(300, 2, mix) if a.label == arrival.label}
        assert len(alike) == 2, "as many as there are groups"
        assert len(arrival.prompt) > kept.end


def test_tenants_send_the_same_prompts_under_salts_of_their_own_and_samples_are_drawn_at_random() -> None:
    arrivals = _first(400, 1, SHARING)
    salts: dict[tuple[int, ...], set[str]] = {}
    for a in arrivals:
        if a.label == "T":
            salts.setdefault(tuple(a.prompt[:100]), set()).add(a.salt)
    assert [len(of) for of in salts.values()] == [3, 3]
    assert {a.salt for a in arrivals if a.label != "T"} == {""}
    assert {a.label: a.n for a in arrivals} == {"N": 3, "W": 1, "K": 1, "T": 1, "L": 1}
    assert {a.label: a.beam for a in arrivals if a.beam is not None} == {"W": 4}
    seeds = [a.sampling.seed for a in arrivals if a.sampling is not None]
    assert len(seeds) == len(set(seeds)) == sum(a.n > 1 for a in arrivals)


def test_the_classes_keep_their_proportions() -> None:
    arrivals = list(itertools.islice(_mix(0).arrivals(), 2000))
    lengths = {kind.label: {len(a.prompt) for a in arrivals if a.label == kind.label} for kind in STANDARD.classes}
    assert all(len(found) == 1 for found in lengths.values())
    a, d = lengths["A"].pop(), lengths["D"].pop()
    assert d / a == pytest.approx(16, rel=0.1)


def test_shared_chats_of_a_group_begin_alike_and_others_do_not() -> None:
    arrivals = list(itertools.islice(_mix(1).arrivals(), 400))
    shared = [a.prompt for a in arrivals if a.label == "S"]
    head = 100
    assert len({tuple(p[:head]) for p in shared}) == 2
    assert len({tuple(p) for p in shared}) > 10


def test_arrivals_come_at_the_stated_rate() -> None:
    last = list(itertools.islice(_mix(5, rate=4.0).arrivals(), 4000))[-1]
    assert last.after == pytest.approx(1000, rel=0.1)


def test_the_line_on_the_screen_states_the_scale() -> None:
    mix = _mix(7)
    assert mix.describe() == (
        "mix A 1k+100, B 8k+800, C 2k+50, D 16k+200, S 5k+300 (S: shared prefix); "
        "prompts x1/20, outputs x1/2; 2 requests/s, seed 7"
    )


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="rate 0"):
        _mix(0, rate=0)
