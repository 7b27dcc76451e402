"""The capacity bar: is memory the limit?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.protocol import Gauges
from kvtop.state import EngineState
from kvtop.views.block_states import role_of
from kvtop.views.capacity import bar_cells, capacity_rows
from kvtop.views.glyphs import ASCII
from kvtop.views.rows import Role
from tests.views.scene import check_rows, gauges_only, hello, scene


def test_golden_at_80() -> None:
    assert check_rows(capacity_rows(scene(), 80), 80, 2).split("\n") == [
        "███████████▓▓▓░░░░░░◇◇··························································",
        "KV used 11/64 17% · shared 2 · cached 5 · free 48 · reserved 2 · 3.9 of 22.5 MiB",
    ]


def test_golden_at_200() -> None:
    rows = capacity_rows(scene(), 200)
    numbers = check_rows(rows, 200, 2).split("\n")[1].rstrip()
    assert numbers == "KV used 11/64 17% · shared 2 3% · cached 5 8% · free 48 75% · reserved 2 3% · 3.9 of 22.5 MiB"
    assert rows[0].roles.count(role_of("active")) == 28
    assert rows[0].roles.count(role_of("shared")) == 6
    assert rows[0].roles.count(role_of("reserved")) == 6


def test_states_differ_by_shape_in_ascii() -> None:
    assert capacity_rows(scene(), 64, ASCII)[0].text == "#" * 9 + "SS" + "ccccc" + "~~" + "." * 46


@pytest.mark.parametrize(("used", "role"), [(10, Role.STRONG), (52, Role.WARN), (62, Role.BAD)])
def test_a_full_pool_stands_out(used: int, role: int) -> None:
    blocks = [(0, used, 2, 1, 1, 16, 0, 0), (used, 64 - used, 0, -1, 0, 0, 0, 0)]
    row = capacity_rows(scene(blocks=blocks), 80)[1]
    assert row.roles[row.text.index(f"{used}/64")] == role


def test_bytes_are_left_out_where_the_geometry_is_not_exposed() -> None:
    bare = hello().geometry.model_copy(update={"bytes_per_token": None})
    assert "MiB" in capacity_rows(scene(hello(geometry=bare)), 120)[1].text
    text = capacity_rows(scene(hello(geometry=bare), gauges=Gauges(kv_blocks_total=64)), 120)[1].text
    assert "MiB" not in text


def test_gauges_alone_make_the_same_bar() -> None:
    gauges = Gauges(
        kv_blocks_total=100, kv_blocks_free=50, kv_blocks_cached=20, kv_blocks_active=20, kv_blocks_shared=10
    )
    text = check_rows(capacity_rows(scene(blocks=None, requests=None, gauges=gauges), 100), 100, 2)
    assert text.startswith("█" * 20 + "▓" * 10 + "░" * 20 + "·" * 50)
    assert "KV used 30/100 30%" in text


def test_a_share_alone_is_shown_as_a_share() -> None:
    text = check_rows(capacity_rows(gauges_only(), 100), 100, 2)
    assert text.startswith("█" * 42 + "·" * 58)
    assert "KV used 42% · blocks by state: not exposed by vllm" in text


def test_nothing_known_is_not_an_empty_pool() -> None:
    assert check_rows(capacity_rows(EngineState(), 60), 60, 2).startswith("KV memory: waiting for the engine")
    state = gauges_only()
    state.gauges.clear()
    assert "KV memory: not exposed by vllm" in check_rows(capacity_rows(state, 60), 60, 2)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(sum), st.integers(1, 200))
def test_the_bar_is_full_and_shows_whatever_is_there(counts: list[int], width: int) -> None:
    cells = bar_cells(counts, sum(counts), width)
    assert sum(cells) == width
    if width >= 8 * len(counts):
        assert [cell > 0 for cell in cells] == [count > 0 for count in counts]
        for cell, count in zip(cells, counts, strict=True):
            assert abs(cell - count * width / sum(counts)) < len(counts)
