"""The demo's mix: seeded, scaled to the pool, with prefixes that are really shared."""

import itertools

import pytest

from engine.workload import MIX, MixWorkload, scale_for


def _encode(text: str) -> list[int]:
    return list(text.encode())


def _mix(seed: int, rate: float = 2.0) -> MixWorkload:
    return MixWorkload(_encode, scale_for(4096, 4096), rate=rate, seed=seed)


def test_the_same_seed_gives_the_same_arrivals_and_another_seed_gives_others() -> None:
    first, again, other = (list(itertools.islice(_mix(seed).arrivals(), 50)) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_every_request_fits_the_pool_and_the_context() -> None:
    for tokens, context in ((1024, 1024), (4096, 8192), (100_000, 8192)):
        mix = MixWorkload(_encode, scale_for(tokens, context), rate=1.0, seed=0)
        for arrival in itertools.islice(mix.arrivals(), 300):
            assert len(arrival.prompt) >= 1
            assert len(arrival.prompt) + arrival.max_tokens <= min(tokens, context)


def test_the_classes_keep_their_proportions() -> None:
    arrivals = list(itertools.islice(_mix(0).arrivals(), 2000))
    lengths = {kind.label: {len(a.prompt) for a in arrivals if a.label == kind.label} for kind in MIX}
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
