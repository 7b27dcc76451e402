"""Chained hashes and the index from hash to blocks."""

import pytest

from engine.memory.prefix import NO_HASH, HashIndex, chain, extend_hashes, seed
from tests.engine.driving import make_request


def test_equal_prefixes_have_equal_hashes_up_to_where_they_part() -> None:
    one = extend_hashes(make_request(1, [1, 2, 3, 4, 5, 6, 7, 8]), 2, 4)
    two = extend_hashes(make_request(2, [1, 2, 3, 4, 5, 6, 7, 9]), 2, 4)
    assert one[0] == two[0]
    assert one[1] != two[1]


def test_equal_tokens_after_another_beginning_have_another_hash() -> None:
    one = extend_hashes(make_request(1, [1, 2, 3, 4, 5, 6, 7, 8]), 2, 4)
    two = extend_hashes(make_request(2, [9, 2, 3, 4, 5, 6, 7, 8]), 2, 4)
    assert one[1] != two[1]


def test_the_salt_separates_tenants() -> None:
    prompt = [1, 2, 3, 4]
    mine = extend_hashes(make_request(1, prompt, cache_salt="mine"), 1, 4)
    yours = extend_hashes(make_request(2, prompt, cache_salt="yours"), 1, 4)
    assert mine != yours
    assert mine == extend_hashes(make_request(3, prompt, cache_salt="mine"), 1, 4)


def test_hashes_are_the_same_in_every_run_of_the_engine() -> None:
    # Recordings of different runs can be compared only if this holds; Python's own hash() would not do.
    assert f"{chain(seed(''), [1, 2, 3, 4]):016x}" == "a35a59bd4691bccd"


def test_hashes_are_64_bits_and_never_the_mark_for_none() -> None:
    values = [chain(seed(""), [i]) for i in range(1000)]
    assert NO_HASH not in values
    assert len(set(values)) == 1000
    assert all(value < 2**64 for value in values)


def test_hashes_grow_with_the_request_and_keep_what_is_known() -> None:
    request = make_request(1, [1, 2, 3, 4])
    first = list(extend_hashes(request, 1, 4))
    request.token_ids += [5, 6, 7, 8]
    assert extend_hashes(request, 2, 4)[:1] == first
    assert len(request.hashes) == 2


def test_the_index_finds_the_block_known_longest() -> None:
    index = HashIndex()
    index.add(7, 30)
    index.add(7, 10)
    index.add(7, 20)
    assert index.get(7) == 30
    assert len(index) == 3
    index.remove(7, 30)
    assert index.get(7) == 10
    index.remove(7, 10)
    index.remove(7, 20)
    assert index.get(7) is None
    assert list(index.pairs()) == []


def test_removing_what_the_index_does_not_hold_is_an_error() -> None:
    index = HashIndex()
    index.add(7, 30)
    with pytest.raises(KeyError):
        index.remove(7, 31)
    with pytest.raises(KeyError):
        index.remove(8, 30)


def test_any_salt_makes_a_seed() -> None:
    assert len({seed(""), seed("\0"), seed("é"), seed("\ud800")}) == 4
