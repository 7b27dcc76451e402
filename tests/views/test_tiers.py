"""The table of tiers, and what the other views say of blocks and requests outside the device."""

from typing import Any

import pytest

from kvtop.protocol import Event, RequestChange, Status, TierLevel
from kvtop.state import EngineState
from kvtop.views.block_detail import block_detail_rows
from kvtop.views.block_map import BlockMap
from kvtop.views.block_table import block_table_rows
from kvtop.views.capacity import capacity_rows
from kvtop.views.events import event_sentence
from kvtop.views.glyphs import ASCII
from kvtop.views.header import header_rows
from kvtop.views.legend import legend_entries, legend_rows
from kvtop.views.queue import queue_rows
from kvtop.views.requests import RequestsView, request_rows, requests_title
from kvtop.views.tiers import has_tiers, table_height, tier_rows, tiers_title
from tests.state.test_tiers import frame, two_tiers
from tests.views.scene import LATER, check_rows, gauges_only, hello, keyframe, scene

HOST = TierLevel(
    tier="host", blocks_total=4, blocks_free=1, blocks_cached=2, blocks_held=1, blocks_transfer=0, bytes_in=0,
    bytes_out=0, ms_per_block_in=0.41, ms_per_block_out=0.3, hit_tokens=0, miss_tokens=0, stalls=0, stall_ms=0.0,
    drops=0, failures=0,
)  # fmt: skip


def flowing() -> EngineState:
    """Six seconds in which the host took in 3 MB/s, gave out 1 MB/s, and served one token in four."""
    state = two_tiers(tiers=[HOST, TierLevel(tier="disk", blocks_total=4)])
    for second in range(1, 7):
        host = HOST.model_copy(
            update={
                "bytes_in": 3_000_000 * second,
                "bytes_out": 1_000_000 * second,
                "hit_tokens": 10 * second,
                "miss_tokens": 30 * second,
                "stalls": 2,
                "stall_ms": 35.0,
                "failures": 1,
            }
        )
        levels = [host, TierLevel(tier="disk", blocks_total=4)]
        state.apply(frame(1 + second, 10.0 + second, tiers=levels), float(second))
    return state


NOW = 6.0


def test_golden_at_80() -> None:
    text = check_rows(tier_rows(flowing(), 80, 4, NOW), 80, 4).split("\n")
    assert text == [
        "tier    contents         filled    in   out  ms/block  hit    stalls drops fails",
        "host    ◇◇◇░░░░░░░···       3/4  3.00  1.00 0.41/0.30  25%    2 35ms     0     1",
        "disk    ?                   –/4     –     –       –/–    –         –     –     –",
        "░ cached  ◇ held for a swapped request  ⇄ being copied  in, out: MB/s           ",
    ]


def test_a_wide_screen_shows_what_was_brought_ahead_and_used_since() -> None:
    host = HOST.model_copy(update={"prefetched_blocks": 5, "prefetch_used_blocks": 3})
    text = check_rows(tier_rows(two_tiers(tiers=[host]), 140, 3, NOW), 140, 3).split("\n")
    assert text[0].rstrip().endswith("fails       ahead")
    assert text[1].rstrip().endswith("3/5")
    assert check_rows(tier_rows(flowing(), 140, 3, NOW), 140, 3).split("\n")[1].rstrip().endswith("–/–")


def test_without_room_for_titles_each_row_names_its_figures() -> None:
    text = check_rows(tier_rows(flowing(), 80, 2, NOW), 80, 2)
    assert "host 3/4 · in 3.00 out 1.00 MB/s · hit 25% · stalls 2 35ms · drops 0" in text
    assert "disk –/4 · in – out – MB/s" in text
    assert "… and 2 more" in check_rows(tier_rows(flowing(), 80, 1, NOW), 80, 1)


@pytest.mark.parametrize("width", [1, 20, 60, 120, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 9])
def test_it_fits_everywhere(width: int, height: int) -> None:
    check_rows(tier_rows(flowing(), width, height, NOW), width, height)
    ascii_only = check_rows(tier_rows(flowing(), width, height, NOW, ASCII), width, height)
    assert ascii_only.isascii()


def test_the_title_says_what_the_tiers_add() -> None:
    assert tiers_title(flowing()) == "tiers: 3 blocks kept below the device's 8 (+38%)"
    assert tiers_title(scene()) == "tiers"


def test_tiers_without_figures_are_not_exposed_and_one_tier_is_none() -> None:
    silent = two_tiers(tiers=[])
    assert has_tiers(silent)
    assert table_height(silent) == 4
    assert "contents and flow of tiers: not exposed by kvtop" in check_rows(tier_rows(silent, 80, 3, 0.0), 80, 3)
    for one in (scene(), gauges_only()):
        assert not has_tiers(one)
        assert table_height(one) == 0


def test_a_block_of_a_lower_tier_says_where_it_is_and_whose_kv_it_holds() -> None:
    state = two_tiers(requests=[RequestChange(num=1, id="a-1", state="swapped", tier="disk", table_at=0, table=[])])
    text = check_rows(block_detail_rows(state, 12, 100, 0.0), 100)
    assert "block 12 reserved" in text
    assert "tier disk" in text
    assert "holds KV of a-1, which is swapped out" in text
    assert "tier host" in check_rows(block_detail_rows(state, 8, 100, 0.0), 100)
    table = check_rows(block_table_rows(state, 1, 100, 4, 0.0), 100, 4)
    assert "KV in disk" in table
    assert "no blocks in its table; its KV is in 2 blocks of disk: 12, 13" in table


def test_a_table_names_the_tier_of_each_block() -> None:
    state = two_tiers(requests=[RequestChange(num=1, table_at=0, table=[0, 8], siblings=3, group=1, pinned_blocks=2)])
    rows = check_rows(block_table_rows(state, 1, 100, 5, 0.0), 100, 5).split("\n")
    assert "output 1 of 3 · 2 pinned" in rows[0]
    assert "tier    state" in rows[1]
    assert "device  active" in rows[2]
    assert "host    cached" in rows[3]


def swapped() -> EngineState:
    return scene(
        requests=[
            RequestChange(num=4, id="B-0042", state="swapped", tier="host", blocks=0, queue_s=1.0),
            RequestChange(num=5, id="A-0005", state="loading", tier="disk", blocks=3),
            RequestChange(num=6, id="A-0006", state="decode", blocks=9, pinned_blocks=4),
        ]
    )


def test_requests_show_where_their_kv_is() -> None:
    text = check_rows(request_rows(swapped(), RequestsView(), 80, 5, LATER), 80, 5)
    assert "B-0042   swap host" in text
    assert "A-0005   loading" in text
    assert "  9 4p" in text
    assert requests_title(swapped(), RequestsView()).startswith(
        "requests: 1 running, 2 waiting (1 swapped out), 0 done"
    )
    queue = check_rows(queue_rows(swapped(), 80, 4, LATER), 80, 4)
    assert "swapped to host" in queue
    assert "loading its KV" in queue


def test_pinned_and_moving_blocks_are_in_the_capacity_when_there_are_any() -> None:
    assert "pinned" not in check_rows(capacity_rows(scene(), 120), 120)
    blocks = [(0, 3, 6, -1, 0, 16, 0, 0), (3, 2, 5, -1, 0, 16, 0, 0), (5, 59, 0, -1, 0, 0, 0, 0)]
    text = check_rows(capacity_rows(scene(blocks=blocks), 120), 120)
    assert "pinned 3" in text
    assert "transfer 2" in text
    assert "◆" in text
    assert "⇄" in text


def test_the_legend_of_a_lower_tier_names_what_occurs_there() -> None:
    shown = BlockMap(two_tiers())
    shown.next_tier()
    shown.next_tier()
    shown.layout(len(shown.shown), 4, 3)
    legend = check_rows(legend_rows(legend_entries(shown), 80), 80, 1)
    assert "◇ reserved" in legend
    assert "active" not in legend


def test_a_standing_still_engine_is_on_the_screen_at_once_in_the_place_of_the_notice() -> None:
    status = Status(state="running", warning="iterations go on but nobody gets a token", warning_since=988.0)
    state = scene(hello(notice="a notice"), status=status)
    (*_, last) = header_rows(state, LATER, 80)
    assert last.text.startswith("! STUCK for ")
    assert "iterations go on but nobody gets a token" in last.text
    assert "a notice" not in last.text
    state.apply(keyframe(seq=99, status=Status(state="running")), LATER)
    assert "a notice" in header_rows(state, LATER, 80)[-1].text


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (
            {"kind": "swap_out", "request_id": "a-1", "tier": "host", "blocks": 2, "tokens": 30, "detail": "slow"},
            "swap out a-1 to host: 2 blocks, 30 tokens kept; slow",
        ),
        (
            {"kind": "swap_in", "request_id": "a-1", "tier": "host", "blocks": 2, "seconds": 1.5},
            "swap in a-1 from host: 2 blocks, after 1.5s",
        ),
        (
            {"kind": "watchdog", "cause": "no_tokens", "seconds": 12.0, "detail": "iterations go on"},
            "watchdog after 12.0s: iterations go on",
        ),
        ({"kind": "tier_drop", "tier": "host", "detail": "host is full"}, "tier drop: host is full"),
        ({"kind": "compact", "detail": "4 blocks moved"}, "compact: 4 blocks moved"),
    ],
)
def test_events_of_tiers_are_sentences(facts: dict[str, Any], says: str) -> None:
    assert event_sentence(Event(id=1, iteration=1, wall=0.0, **facts)) == says
