"""KV groups: how layers are cut into them, where their tokens lie, what is found again after a window has passed it."""

import pytest

from engine.build import build
from engine.config import EngineConfig
from engine.memory.groups import KVGroups
from engine.memory.places import complete_places, places, tail_places
from engine.memory.pool import BlockPool
from engine.memory.prefix import NO_HASH, extend_hashes, hashes_of, of_group
from engine.memory.window import Windows
from engine.requests.request import NULL_BLOCK, Request
from engine.scheduling.admission import find_prefix
from kvtop.state import EngineState
from kvtop.state.ledger import check as contradictions
from kvtop.views.block_table import block_table_rows
from tests.engine.driving import BLOCK, Drive, make_request
from tests.engine.fake_model import make_engine
from tests.engine.fake_model import request as new_request
from tests.views.scene import check_rows


@pytest.mark.parametrize(
    ("windows", "layers", "by_group", "planes"),
    [
        ((), 3, [(None, (0, 1, 2))], 3),
        ((8, 8), 2, [(8, (0, 1))], 2),
        ((8, None, 8, None), 4, [(8, (0, 2)), (None, (1, 3))], 2),
        # As large as the rarest type; the last group of the commonest is padded.
        ((8, 8, None, 8, 8, None, 8), 7, [(8, (0, 4)), (8, (1, 6)), (8, (3,)), (None, (2, 5))], 2),
        # As many groups as types where that costs less than a quarter.
        ((8, None) * 5 + (8,), 11, [(8, (0, 2, 4, 6, 8, 10)), (None, (1, 3, 5, 7, 9))], 6),
        ((11, 3), 2, [(11, (0,)), (3, (1,))], 1),
    ],
)
def test_layers_are_cut_into_groups_of_equal_size(
    windows: Windows, layers: int, by_group: list[tuple[int | None, tuple[int, ...]]], planes: int
) -> None:
    groups = KVGroups.of(windows, layers)
    assert list(zip(groups.windows, groups.layers, strict=True)) == by_group
    assert groups.planes == planes
    assert len(groups) == len(by_group)
    assert groups.padding == len(by_group) * planes - layers
    assert groups.padding_share == pytest.approx(1 - layers / (len(by_group) * planes))
    assert sorted(groups.by_layer) == list(range(layers))
    assert len(set(groups.by_layer.values())) == layers
    assert all(plane < planes for _, plane in groups.by_layer.values())


def test_places_are_those_of_all_groups() -> None:
    for windows in ((None,), (None, 9, 9)):
        pool, groups = BlockPool(12, 4, windows=windows), len(windows)
        assert list(places(pool, 3, 9)) == list(range(3 * groups))
        assert list(places(pool, 4, 8)) == list(range(groups, 2 * groups))
        assert list(places(pool, 5, 5)) == []
        assert complete_places(pool, 11) == 2 * groups
        assert list(tail_places(pool, 8)) == []
        assert list(tail_places(pool, 9)) == list(range(2 * groups, 3 * groups))
        assert pool.blocks_for(9) == 3 * groups
        assert pool.tokens_in(3 * groups + groups - 1) == 12


def test_groups_have_hashes_of_their_own_and_the_first_has_the_chain() -> None:
    request = make_request(1, list(range(12)))
    plain = list(extend_hashes(make_request(2, list(range(12))), 3, 4))
    hashes = extend_hashes(request, 9, 4, 3)
    assert hashes[::3] == plain
    assert len(set(hashes)) == 9
    assert NO_HASH not in hashes
    assert hashes_of(list(range(12)), "", 4, 3) == hashes
    assert of_group(of_group(77, 5) ^ 77, 5) != NO_HASH  # even of the one block whose mark cancels out


def drive_with(windows: Windows, blocks: int, **policies: object) -> Drive:
    """A drive whose pool has these groups."""
    drive = Drive(blocks, windows=windows, **policies)
    assert drive.pool.groups == len(windows)
    return drive


def _group(request: Request, group: int, groups: int) -> list[int]:
    return request.block_table[group::groups]


def test_what_slides_out_of_one_group_is_freed_though_the_other_sees_all() -> None:
    drive = drive_with((None, 6), 32)
    request = drive.add(1, prompt=10, max_tokens=20)
    drive.steps(15)
    assert request.computed_tokens == 24
    assert NULL_BLOCK not in _group(request, 0, 2)
    # Position 24 sees 19 … 24: four blocks of 4 lie before.
    assert _group(request, 1, 2)[:4] == [NULL_BLOCK] * 4
    assert NULL_BLOCK not in _group(request, 1, 2)[4:]
    assert request.holes == drive.scheduler.totals.dropped_blocks == 4
    assert drive.pool.tokens_in_use == 24
    assert drive.pool.group_tokens == [24, 8]


def test_a_block_is_taken_for_the_group_of_its_place() -> None:
    drive = drive_with((None, 6, 9), 30)
    request = drive.add(1, prompt=13, max_tokens=4)
    drive.step()
    assert [int(drive.pool.group[block]) for block in request.held] == [
        place % 3 for place, block in enumerate(request.block_table) if block != NULL_BLOCK
    ]


def test_a_hit_needs_of_a_window_only_what_is_seen() -> None:
    """The window's first blocks are evicted; the prefix is found all the same, with holes from the start."""
    drive = drive_with((None, 6), 32)
    tokens = list(range(100, 121))
    drive.add(1, prompt=tokens, max_tokens=1)
    drive.run_out()
    for hash_ in hashes_of(tokens, "", BLOCK, 2)[1:7:2]:
        block = drive.pool.lookup(hash_)
        assert block is not None
        _evict(drive.pool, block)
    second = drive.add(2, prompt=tokens, max_tokens=2)
    plan = drive.step()
    # 20 tokens are complete; position 20 sees 15 … 20, so of the windows' blocks the first three are not needed.
    assert plan.admitted[0].cached == 20
    assert _group(second, 1, 2)[:3] == [NULL_BLOCK] * 3
    assert NULL_BLOCK not in _group(second, 0, 2)
    drive.run_out()


def test_a_hit_ends_before_a_window_that_is_not_whole() -> None:
    drive = drive_with((None, 6), 32)
    tokens = list(range(100, 121))
    drive.add(1, prompt=tokens, max_tokens=1)
    drive.run_out()
    block = drive.pool.lookup(hashes_of(tokens, "", BLOCK, 2)[3 * 2 + 1])
    assert block is not None
    _evict(drive.pool, block)
    drive.add(2, prompt=tokens, max_tokens=2)
    # Behind the missing block, the fourth of its group, every position up to 20 sees into it.
    assert drive.step().admitted[0].cached == 12
    drive.run_out()


def _evict(pool: BlockPool, block: int) -> None:
    """This cached block, whatever the order of eviction says."""
    pool.evictable.remove(block)
    pool.forget(block)
    pool._rest(block)


def test_all_layers_sliding_find_the_end_of_a_prefix_alone() -> None:
    drive = drive_with((6,), 8)
    tokens = list(range(100, 121))
    drive.add(1, prompt=tokens, max_tokens=1)
    drive.run_out()
    for hash_ in hashes_of(tokens, "", BLOCK)[:3]:
        block = drive.pool.lookup(hash_)
        assert block is not None
        _evict(drive.pool, block)
    second = drive.add(2, prompt=tokens, max_tokens=2)
    assert drive.step().admitted[0].cached == 20
    assert second.block_table[:3] == [NULL_BLOCK] * 3
    drive.run_out()


def test_an_early_miss_costs_no_hashing_of_the_rest() -> None:
    drive = drive_with((None, 6), 64)
    request = make_request(2, 60)
    assert find_prefix(request, drive.pool) == []
    assert len(request.hashes) == 2


def test_nothing_after_a_reset_is_found_though_what_came_before_slid_out() -> None:
    """The block before is gone from the table when the next is complete: whether that continues the chain is known
    all the same, and not read from any block."""
    drive = drive_with((5,), 16, max_model_len=200)
    last = drive.add(7, prompt=64, max_tokens=1)  # whose blocks fill the pool with hashes, the last block included
    drive.run_out()
    assert last.finish_reason is not None
    request = drive.add(1, prompt=6, max_tokens=40)
    drive.steps(6)
    assert request.chained == 2
    drive.scheduler.reset_prefix_cache()
    drive.steps(20)
    assert request.block_table[:5] == [NULL_BLOCK] * 5
    assert request.chained == 0
    assert all(drive.pool.hash_of(block) == NO_HASH for block in request.held)


def test_a_window_of_one_token_is_found_without_a_block_of_its_own() -> None:
    drive = drive_with((None, 1), 32)
    tokens = list(range(100, 113))
    drive.add(1, prompt=tokens, max_tokens=1)
    drive.run_out()
    second = drive.add(2, prompt=tokens, max_tokens=2)
    assert drive.step().admitted[0].cached == 12
    assert _group(second, 1, 2)[:3] == [NULL_BLOCK] * 3
    drive.run_out()


def test_a_request_that_fits_with_what_it_gives_up_goes_on() -> None:
    """It outgrows the pool by its table, not by what it holds."""
    drive = drive_with((6, 9), 16, max_model_len=200)
    request = drive.add(1, prompt=10, max_tokens=100)
    drive.run_out()
    assert request.output_tokens == 100
    assert drive.pool.blocks_for(request.total_limit) > drive.pool.total


def test_a_pin_keeps_what_a_hit_needs() -> None:
    drive = drive_with((None, 6), 32)
    tokens = list(range(100, 121))
    request = drive.add(1, prompt=tokens, max_tokens=1)
    drive.run_out()
    pin = drive.scheduler.pin(request)
    # Five blocks of the group that sees all, and of the other those that hold 15 … 19.
    assert len(pin.blocks) == 5 + 2
    assert [drive.pool.lookup(hash_) for hash_ in pin.hashes] == pin.blocks
    assert drive.scheduler.ledger_violations() == []


def test_compaction_takes_the_group_along() -> None:
    drive = drive_with((None, 6), 40, compaction="continuous")
    first = drive.add(1, prompt=14, max_tokens=3)
    second = drive.add(2, prompt=14, max_tokens=20)
    drive.run_out()
    assert first.finish_reason == second.finish_reason is not None
    assert drive.scheduler.compaction is None


def test_viewers_see_groups_and_what_slid_out_of_one() -> None:
    engine, telemetry = make_engine(blocks=32, block_size=4, windows=(None, 9))
    request = new_request(1, list(range(10)), 30)
    engine.scheduler.add(request, 100.0)
    telemetry.touch(request)
    viewer = EngineState()
    viewer.apply(telemetry.keyframe(), 0.0)
    for _ in range(25):
        step = engine.step()
        assert step is not None
        viewer.apply(telemetry.frame(step), 0.0)
        assert viewer.requests is not None
        assert viewer.requests[1].table == request.block_table
        assert contradictions(viewer) == []
    assert request.computed_tokens == 34
    assert viewer.gauges["kv_tokens"] == 34
    assert viewer.gauges["kv_bytes_used"] == len(request.held) * 4 * 8
    assert viewer.blocks is not None
    assert [int(viewer.blocks.group[block]) for block in request.held] == [
        place % 2 for place, block in enumerate(request.block_table) if block != NULL_BLOCK
    ]


def test_padding_is_published_and_shown() -> None:
    config = EngineConfig(name="hybrid", model="random", blocks=16, block_size=8, device="cpu", window="16,full")
    greeting = build(config, lambda *_: None, lambda _: None).publisher.hello
    geometry = greeting.geometry
    assert [(group.window, group.layers, group.padding_layers) for group in geometry.groups] == [
        (16, 1, 0),
        (None, 1, 0),
    ]
    assert geometry.padding_share == 0
    # A block holds one of the two layers.
    assert geometry.bytes_per_token == 2 * 2 * 16 * 4
    assert greeting.limits["max_model_len"] == 16 * 8 // 2
    padded = geometry.model_copy(
        update={
            "groups": [
                group.model_copy(update={"padding_layers": 1 - place}) for place, group in enumerate(geometry.groups)
            ]
        }
    )
    assert padded.padding_share == pytest.approx(1 / 3)
    assert padded.padding_bytes_per_token == round(2 * 256 / 3)
    engine, telemetry = make_engine(blocks=16, block_size=8, windows=(16, None))
    request = new_request(1, list(range(20)), 8)
    engine.scheduler.add(request, 100.0)
    telemetry.touch(request)
    viewer = EngineState()
    viewer.apply(greeting.model_copy(update={"geometry": padded}), 0.0)
    viewer.apply(telemetry.keyframe(), 0.0)
    step = engine.step()
    assert step is not None
    viewer.apply(telemetry.frame(step), 0.0)
    rows = check_rows(block_table_rows(viewer, 1, 160, 12, 0.0), 160, 12).split("\n")
    assert "g0 window 16, 1 layer · g1 sees all, 1 layer · 33% of KV is padding (171 B a token)" in rows[1]
    assert rows[3].split()[:3] == ["0", "g0", "0…7"]
    assert rows[4].split()[:3] == ["0", "g1", "0…7"]
    assert rows[5].split()[:3] == ["1", "g0", "8…15"]
