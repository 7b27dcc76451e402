"""The block under the cursor, and a request's table from logical to physical blocks."""

import pytest

from kvtop.protocol import Geometry, PoolFacts, RequestChange
from kvtop.state import EngineState
from kvtop.views.block_detail import block_detail_rows
from kvtop.views.block_table import block_table_rows, table_length
from tests.views.scene import LATER, check_rows, gauges_only, hello, scene


def detail(
    block: int | None, width: int = 120, state: EngineState | None = None, cell: range | None = None
) -> list[str]:
    rows = block_detail_rows(state or scene(), block, width, LATER, cell=cell)
    return [row.rstrip() for row in check_rows(rows, width, 2).split("\n")]


def test_a_shared_block_names_all_its_owners_and_places() -> None:
    assert detail(1) == [
        "block 1 shared · fill 16/16 tokens · 2 references · touched 4.1s ago · hash 0123456789abcdef",
        "shared by A-0001 logical 1 (tokens 16…31), A-0002 logical 1 (tokens 16…31)",
    ]


def test_a_block_of_one_owner() -> None:
    assert detail(7)[1] == "owned by A-0002 logical 3 (tokens 48…63)"
    assert detail(7)[0].startswith("block 7 active · fill 2/16 tokens · 1 reference · ")
    assert "hash none" in detail(7)[0]


def test_a_cached_block_says_that_it_can_be_found_again() -> None:
    assert detail(11)[1] == "no owner; its content can be found by its hash"
    assert detail(40)[1] == "no owner"


def test_a_cell_of_several_says_so() -> None:
    assert detail(20, cell=range(20, 24))[0].endswith("cell of blocks 20…23")


def test_at_80_columns_nothing_is_cut_in_half() -> None:
    assert detail(1, 80) == [
        "block 1 shared · fill 16/16 tokens · 2 references · age 4.1s · hash 01234567…",
        "shared by A-0001 logical 1 (tokens 16…31), A-0002 logical 1 (tokens 16…31)",
    ]
    assert detail(1, 42)[1] == "shared by A-0001 logical 1 and 1 more"


def test_unknown_age_is_unknown() -> None:
    assert "touched – ago" in detail(1, state=scene(ages=[]))[0]


def test_tier_and_group_show_where_there_are_several() -> None:
    pools = [PoolFacts(tier="device", blocks=32), PoolFacts(tier="host", group=1, blocks=32)]
    state = scene(hello(geometry=Geometry(block_size=16, pools=pools)))
    assert "tier device · group 0" in detail(1, 200, state)[0]
    assert "tier" not in detail(1, 200)[0]


@pytest.mark.parametrize("block", [None, -1, 64])
def test_no_block_chosen(block: int | None) -> None:
    assert detail(block)[0].startswith("no block chosen")


def test_blocks_or_owners_not_exposed() -> None:
    assert detail(1, state=gauges_only())[0] == "blocks: not exposed by vllm"
    assert detail(1, state=scene(requests=None))[1] == "owners: not exposed by kvtop"


def test_golden_table_at_80() -> None:
    assert check_rows(block_table_rows(scene(), 2, 80, 7, LATER), 80, 7).split("\n") == [
        "A-0002 · decode · 4 blocks · 2 shared · 50 tokens computed                      ",
        "logical  tokens           block  state      fill  refs  hash      shared with   ",
        "      0  0…15                 0  shared    16/16     2  00000000  A-0001        ",
        "      1  16…31                1  shared    16/16     2  01234567  A-0001        ",
        "      2  32…47                6  active    16/16     1  –                       ",
        "      3  48…63                7  active     2/16     1  –                       ",
        " " * 80,
    ]


def test_a_wide_table_has_whole_hashes() -> None:
    text = check_rows(block_table_rows(scene(), 1, 120, 4, LATER), 120, 4)
    assert "0123456789abcdef  A-0002" in text


def test_a_long_table_scrolls() -> None:
    table = [RequestChange(num=1, table_at=0, table=list(range(64)))]
    state = scene(requests=table)
    assert table_length(state, 1) == 64
    rows = check_rows(block_table_rows(state, 1, 80, 5, LATER, offset=999), 80, 5).split("\n")
    assert [row.split()[0] for row in rows[2:]] == ["61", "62", "63"]


def test_a_request_that_is_gone_or_has_nothing() -> None:
    assert "request #99 is gone" in check_rows(block_table_rows(scene(), 99, 80, 4, LATER), 80, 4)
    assert table_length(scene(), 99) == 0
    assert "no blocks in its table" in check_rows(block_table_rows(scene(), 4, 80, 4, LATER), 80, 4)
    assert "requests: not exposed by vllm" in check_rows(block_table_rows(gauges_only(), 1, 80, 4, LATER), 80, 4)


def test_a_table_without_a_pool_still_names_its_blocks() -> None:
    text = check_rows(block_table_rows(scene(blocks=None), 2, 80, 4, LATER), 80, 4)
    assert "blocks: not exposed by kvtop" in text
