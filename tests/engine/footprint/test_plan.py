"""The arithmetic of memory: sums that come out, pools that fit, refusals that say the sum."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.footprint.plan import DoesNotFit, Needs, blocks_for_fraction, blocks_in, footprint, gib
from engine.footprint.room import Room

GIB = 2**30

sizes = st.integers(0, 2**44)


@st.composite
def rooms(draw: st.DrawFn) -> Room:
    """As measured: one figure after the other, so that they need not add up."""
    total = draw(st.integers(1, 2**44))
    return Room(total, draw(st.integers(0, total)), draw(st.integers(0, total)), "this machine's memory")


needs = st.builds(
    Needs,
    weights=sizes,
    workspace=st.integers(0, 2**30),
    block=st.integers(1, 2**28),
    host=st.integers(0, 2**30),
    books=st.integers(0, 2**12),
    least=st.integers(1, 8),
)


@given(rooms(), needs, st.integers(1, 2**24))
def test_what_fits_adds_up_and_what_does_not_is_refused(room: Room, need: Needs, blocks: int) -> None:
    wanted = blocks * (need.block + need.books) + need.workspace + need.host
    if wanted > room.available:
        with pytest.raises(DoesNotFit, match=r"^needs .* GiB: weights .* \+ runtime .* \+ KV "):
            footprint(room, need, blocks)
        return
    found = footprint(room, need, blocks)
    parts = (found.weights, found.runtime, found.kv, found.host, found.others, found.headroom)
    assert min(parts) >= 0
    assert found.kv == blocks * need.block
    if room.own + room.available <= room.total:
        assert sum(parts) == found.total
        assert found.headroom == room.available - wanted


def _asked(room: Room, need: Needs, fraction: float) -> int:
    """0 where it is refused."""
    try:
        return blocks_for_fraction(room, need, fraction)
    except DoesNotFit:
        return 0


@given(rooms(), needs, st.floats(0.01, 0.95))
def test_a_fraction_is_kept_and_used(room: Room, need: Needs, fraction: float) -> None:
    blocks = _asked(room, need, fraction)
    taken = room.own + need.workspace + need.host
    asked = min(fraction * room.total - room.own, fraction * room.available) - need.workspace - need.host
    each = need.block + need.books
    assert blocks == 0 or taken + blocks * each <= fraction * room.total
    assert asked < (max(blocks, need.least - 1) + 1) * each
    if blocks:
        assert blocks >= need.least
        assert footprint(room, need, blocks).headroom >= 0


@given(rooms(), needs, st.floats(0.01, 0.5))
def test_a_larger_fraction_never_makes_a_smaller_pool(room: Room, need: Needs, fraction: float) -> None:
    assert _asked(room, need, fraction * 1.5) >= _asked(room, need, fraction)


@given(needs, st.floats(1, 2**40))
def test_a_size_in_bytes_is_kept_and_used(need: Needs, size: float) -> None:
    try:
        blocks = blocks_in(size, need)
    except DoesNotFit:
        assert size < need.least * need.block
        return
    assert blocks * need.block <= size < (blocks + 1) * need.block + 1


def test_a_refusal_says_the_sum() -> None:
    room = Room(total=2 * GIB, available=GIB, own=GIB, what="the container's limit")
    need = Needs(weights=GIB // 2, workspace=GIB // 4, block=GIB // 10)
    with pytest.raises(DoesNotFit) as refused:
        footprint(room, need, 23)
    assert str(refused.value) == (
        "needs 3.5 GiB: weights 0.5 + runtime 0.75 + KV 2.3, of the 2.0 GiB of the container's limit, 0 of which others have"
    )
    assert "fewer blocks" in refused.value.hint
    with pytest.raises(
        DoesNotFit, match=r"^needs 1\.3 GiB: .*, of 0\.5 of the 2\.0 GiB of the container's limit, 1\.0 GiB free$"
    ) as refused:
        blocks_for_fraction(room, need, 0.5)
    assert "larger share" in refused.value.hint
    with pytest.raises(
        DoesNotFit, match=r"^0\.05 GiB of KV has room for 0 blocks of 107374182 bytes; the least is 1$"
    ) as refused:
        blocks_in(0.05 * GIB, need)
    assert refused.value.hint == "give more"


def test_the_sum_is_one_line() -> None:
    room = Room(total=4 * GIB, available=2 * GIB, own=GIB, what="the container's limit")
    found = footprint(room, Needs(weights=GIB // 2, workspace=0, block=GIB // 16, host=GIB // 4), 8)
    assert str(found) == (
        "weights 0.5 + runtime 0.5 + KV 0.5 + host tier 0.25 + others 1.0 + headroom 1.2 = 4.0 GiB, the container's limit"
    )


@given(st.integers(0, 2**50))
def test_sizes_are_short_and_what_is_there_is_not_nothing(size: int) -> None:
    text = gib(size)
    assert (text == "0") == (size == 0)
    assert re.fullmatch(r"\d+\.\d|0\.0{0,2}\d\d?|1|0|<0\.001", text), text
