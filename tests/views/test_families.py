"""Prefix families: told where block tables and hashes tell them, else unknown."""

import numpy as np

from kvtop.protocol import KVGroup, RequestChange
from kvtop.state import Changes, EngineState
from kvtop.views.families import LETTERS, UNTOLD, Families
from tests.views.scene import LATER, MONO, hello, iteration, scene
from tests.views.test_block_map import drawn, text


def tables(*of: list[int]) -> list[RequestChange]:
    return [RequestChange(num=num, state="decode", table=table) for num, table in enumerate(of, 1)]


def codes(state: EngineState, *nums: int) -> list[int]:
    families = Families()
    families.read(state)
    return families.codes(state, np.array(nums, dtype=np.int32)).tolist()


def test_requests_whose_tables_begin_alike_are_a_family() -> None:
    state = scene(requests=tables([3, 5], [3, 6], [8]), hashes=[])
    assert codes(state, 1, 2, 3) == [3 + LETTERS, 3 + LETTERS, 8]


def test_blocks_of_the_same_hash_are_the_same_root() -> None:
    state = scene(requests=tables([3], [4], [5]), hashes=[(3, "aa"), (4, "aa"), (5, "bb")])
    assert codes(state, 1, 2, 3) == [3 + LETTERS, 3 + LETTERS, 5]


def test_what_nothing_tells_is_unknown() -> None:
    state = scene(requests=tables([], [-1, 4]), hashes=[])
    assert codes(state, 1, 2, 77, -1) == [UNTOLD] * 4


def test_of_several_groups_that_which_keeps_all_tokens_has_the_root() -> None:
    plain = hello()
    groups = [KVGroup(layers=2, window=32), KVGroup(layers=2)]
    told = plain.model_copy(update={"geometry": plain.geometry.model_copy(update={"groups": groups})})
    # The windowed group of the first request has given its first block up.
    state = scene(told, requests=tables([-1, 7, 2, 8], [6, 7, 9, 10]), hashes=[])
    assert codes(state, 1, 2) == [7 + LETTERS, 7 + LETTERS]


def test_far_numbers_of_requests_take_no_memory() -> None:
    first, *_ = tables([3])
    state = scene(requests=[first, RequestChange(num=2_000_000_000, state="decode", table=[3])], hashes=[])
    families = Families()
    families.read(state)
    assert families._table.size == 0
    assert families.codes(state, np.array([[1, 2_000_000_000], [7, -1]], dtype=np.int32)).tolist() == [
        [3 + LETTERS, 3 + LETTERS],
        [UNTOLD, UNTOLD],
    ]


def test_on_the_map_capitals_are_families_and_a_cached_block_is_of_none_that_is_known() -> None:
    blockmap = drawn(scene(), 32, 2, "prefix")
    assert text(blockmap)[0] == "AAAAAAAAiii" + "░" * 5 + "·" * 16


def test_a_request_that_came_since_has_its_letter_at_once() -> None:
    state = scene()
    blockmap = drawn(state, 32, 2, "prefix")
    frame = iteration(
        15,
        MONO + 5,
        blocks=[(20, 2, 2, 9, 1, 16, 0, 0)],
        requests=[RequestChange(num=9, state="prefill", table=[20, 21])],
    )
    assert blockmap.update(state.apply(frame, LATER), LATER) == {0}
    assert text(blockmap)[0][20:22] == "uu"
    assert blockmap.update(Changes(full=True), LATER) == set()
