"""Strips of lower tiers, and what is being copied."""

import pytest

from kvtop.protocol import RequestChange
from kvtop.state import Changes, EngineState
from kvtop.views.glyphs import ASCII, UNICODE
from kvtop.views.tier_strips import TierStrips
from tests.state.test_tiers import frame, two_tiers
from tests.views.scene import check_rows, scene


def told(strips: TierStrips, width: int = 120) -> list[str]:
    rows = strips.rows(width)
    return [line.rstrip() for line in check_rows(rows, width, len(rows)).split("\n")]


def of(state: EngineState, width: int = 120) -> TierStrips:
    strips = TierStrips(state)
    strips.update(state, Changes(full=True), width, 0.0)
    return strips


def test_each_lower_tier_has_a_strip_of_its_blocks_and_its_numbers() -> None:
    host, disk, flight = told(of(two_tiers()))
    assert host.split()[:2] == ["host", "░···"]
    assert "░ cached 1" in host
    assert "· free 3" in host
    assert disk.split()[:2] == ["disk", "◇◇··"]
    assert "◇ held 2" in disk
    assert flight == "⇄ in flight · none"


def test_what_is_in_flight_says_where_and_for_whom() -> None:
    state = two_tiers()
    strips = of(state)
    blocks = [(0, 2, 5, 1, 1, 4, 0, 0), (4, 1, 5, -1, 0, 4, 0, 0), (9, 2, 5, 1, 0, 4, 1, 0)]
    changes = state.apply(frame(2, 11.0, blocks=blocks, requests=[RequestChange(num=1, id="A-1")]), 1.0)
    strips.update(state, changes, 120, 1.0)
    host, _, flight = told(strips)
    assert host.split()[1] == "░⇄⇄·"
    assert "2 into device for A-1 2" in flight
    assert "1 out of device, or into it ahead of need" in flight
    assert "2 in host held for A-1 2" in flight


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_number_is_cut(width: int) -> None:
    state = two_tiers()
    for line in told(of(state, width), width)[:2]:
        assert "…" not in line
        assert "free" in line or "· " in line
    strips = TierStrips(state, ASCII)
    strips.update(state, Changes(full=True), width, 0.0)
    assert all(row.text.isascii() for row in strips.rows(width))


def test_there_is_none_where_all_is_on_the_device_or_blocks_are_not_told() -> None:
    assert TierStrips.height(scene()) == 0
    assert TierStrips.height(two_tiers(blocks=None)) == 0
    assert TierStrips(scene(), UNICODE).rows(80) == []
    assert TierStrips.height(two_tiers()) == 3
