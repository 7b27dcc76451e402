"""The block under the cursor, and a request's table from logical to physical blocks."""

import pytest

from kvtop.protocol import Geometry, KVGroup, PoolFacts, RequestChange
from kvtop.state import EngineState
from kvtop.views.block_detail import block_detail_rows, block_line_row
from kvtop.views.block_table import block_table_rows, header_rows, table_length
from tests.views.scene import LATER, check_rows, gauges_only, hello, requests, scene


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
        "A-0002 · decode · 4 blocks · 2 shared · 50 tokens computed · KV float32         ",
        "logical  tokens           block  state      fill  refs  hash      shared by     ",
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


def hybrid(**changes: object) -> EngineState:
    """Two KV groups, the second with a window of 16 tokens and room for 5 layers more than it has."""
    groups = [KVGroup(layers=15), KVGroup(window=16, layers=10, padding_layers=5)]
    geometry = Geometry(
        block_size=16,
        cache_dtype="int8",
        bytes_per_token=1024,
        groups=groups,
        pools=[PoolFacts(tier="device", blocks=64)],
    )
    # Of three logical blocks, the first of the second group slid out of its window.
    request = RequestChange(num=1, id="r-1", state="decode", computed_tokens=40, table_at=0, table=[0, -1, 1, 2, 3, 4])
    runs = [(0, 2, 2, 1, 1, 16, 0, 0), (2, 1, 2, 1, 1, 16, 0, 1), (3, 1, 2, 1, 1, 8, 0, 0), (4, 1, 2, 1, 1, 8, 0, 1)]
    return scene(hello(geometry=geometry), **{"requests": [request], "blocks": runs, "hashes": [], **changes})


def test_a_table_of_several_groups_names_them_and_what_slid_out_of_which_window() -> None:
    state = hybrid()
    rows = check_rows(block_table_rows(state, 1, 100, 9, LATER), 100, 9).split("\n")
    assert header_rows(state) == 3
    assert header_rows(scene()) == 2
    assert [row.rstrip() for row in rows] == [
        "r-1 · decode · 5 blocks · 1 given up before its window · 0 shared · 40 tokens computed · KV int8",
        "g0 sees all, 15 layers · g1 window 16, 10 layers · 17% of KV is padding (341 B a token)",
        "logical  tokens           block  state      fill  refs  hash              shared by",
        "   0 g0  0…15                 0  active    16/16     1  –",
        "   0 g1  0…15                 –  given up: outside the window of 16 tokens",
        "   1 g0  16…31                1  active    16/16     1  –",
        "   1 g1  16…31                2  active    16/16     1  –",
        "   2 g0  32…47                3  active     8/16     1  –",
        "   2 g1  32…47                4  active     8/16     1  –",
    ]
    last = check_rows(block_table_rows(state, 1, 80, 5, LATER, offset=99), 80, 5).split("\n")
    assert [row[:7].strip() for row in last[3:]] == ["2 g0", "2 g1"]


def test_the_groups_fit_the_narrowest_screen() -> None:
    rows = check_rows(block_table_rows(hybrid(), 1, 42, 5, LATER), 42, 5).split("\n")
    assert rows[1].rstrip() == "g0 sees all · g1 window 16 · padding 17%"


def test_a_block_names_its_group_and_what_that_sees() -> None:
    state = hybrid()
    assert "group g0: sees all tokens" in detail(1, 120, state)[0]
    assert "group g1: window of 16 tokens" in detail(2, 120, state)[0]


def test_on_one_line_too_a_place_is_told_as_the_logical_block_it_belongs_to() -> None:
    state = hybrid()
    row = (state.requests or {})[1]
    for place, block in enumerate(row.table):
        if block >= 0:
            assert f" [{place // 2}] " in block_line_row(state, block, 120, LATER).text
    assert "g1 window 16" in detail(2, 60, state)[0]
    assert detail(2, 120, state)[1] == "owned by r-1 logical 1 (tokens 16…31)"


def summary(state: EngineState, num: int) -> str:
    return check_rows(block_table_rows(state, num, 160, 4, LATER), 160, 4).split("\n")[0]


def test_which_of_several_outputs_a_request_is() -> None:
    of_three = [
        RequestChange(num=7, id="S-7", state="decode", output_tokens=2, group=7, siblings=3),
        RequestChange(num=8, id="S-7.1", state="decode", output_tokens=2, group=7, siblings=3),
    ]
    state = scene(requests=of_three)
    assert "· sample 1 of 3 ·" in summary(state, 7)
    assert "· sample 2 of 3 of S-7 ·" in summary(state, 8)
    beams = [change.model_copy(update={"score": -1.5}) for change in of_three]
    assert "· beam 2 of 3 of S-7, log-probability -1.500 ·" in summary(scene(requests=beams), 8)
    # The first is not known any more, or nothing was drawn yet, or the numbers do not follow one another.
    assert "· sample 2 of 3 of #7 ·" in summary(scene(requests=of_three[1:]), 8)
    undrawn = of_three[1].model_copy(update={"output_tokens": 0})
    assert "· output 2 of 3 of #7 ·" in summary(scene(requests=[undrawn]), 8)
    apart = of_three[1].model_copy(update={"num": 99})
    assert "· one of 3 samples of #7 ·" in summary(scene(requests=[apart]), 99)


@pytest.mark.parametrize(("now", "says"), [("decode", True), ("finished", False)])
def test_a_request_that_has_ended_has_its_kv_nowhere(now: str, says: bool) -> None:
    state = scene(requests=[RequestChange(num=1, state=now, tier="device", table_at=0, table=[])])
    assert ("KV in device" in check_rows(block_table_rows(state, 1, 120, 4, LATER), 120, 4)) == says


@pytest.mark.parametrize("width", [80, 120])
def test_with_exposed_text_the_block_table_tells_what_each_block_says(width: int) -> None:
    told = requests()[0].model_copy(
        update={
            "prompt_text": "Tell me\na story of two kings.",
            "output_text": "\x1b[31mOnce there were two",
            "text_ends_at": 0,
            "text_ends": [8, 28, 36],
        }
    )
    rows = check_rows(block_table_rows(scene(requests=[told]), 1, width, 8, LATER), width, 8).split("\n")
    at = rows[1].index("text")
    shown = [row[at : at + 20].rstrip() for row in rows[2:]]
    assert shown == ["Tell me↵", "a story of two kings", ".?[31mOn", "ce there were two", "–", "–"]
    assert "hash" in rows[1] if width > 80 else "hash" not in rows[1]
    assert "text" not in check_rows(block_table_rows(scene(), 1, width, 8, LATER), width, 8)
