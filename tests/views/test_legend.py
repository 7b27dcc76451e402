"""The legend of the map: what every glyph on it means and how many blocks have it, at any width."""

import re

import pytest

from kvtop.protocol import Hello, KVGroup
from kvtop.state import EngineState
from kvtop.views.block_map import BlockMap
from kvtop.views.cells import MODES
from kvtop.views.glyphs import ASCII, UNICODE, Glyphs
from kvtop.views.legend import legend_entries, legend_line, legend_rows
from tests.state.test_tiers import two_tiers
from tests.views.scene import check_rows, gauges_only, hello, scene
from tests.views.test_block_map import drawn

EVERY_STATE = [(8 * code, 8, code, 1 if code in (2, 3) else -1, code, 3 * code, 0, 0) for code in range(8)]


def grouped() -> Hello:
    plain = hello()
    groups = [KVGroup(layers=2), KVGroup(layers=2, window=128)]
    return plain.model_copy(update={"geometry": plain.geometry.model_copy(update={"groups": groups})})


def legend(blockmap: BlockMap, width: int, glyphs: Glyphs = UNICODE) -> str:
    rows = legend_rows(legend_entries(blockmap, glyphs), width, glyphs)
    assert len(rows) <= 2
    return " ".join(check_rows(rows, width, len(rows)).split())


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("mode", MODES)
def test_no_number_is_cut_at_any_width_and_all_blocks_are_counted(mode: str, glyphs: Glyphs) -> None:
    for state in (scene(blocks=EVERY_STATE), scene(grouped(), blocks=EVERY_STATE), scene(), two_tiers()):
        blockmap = drawn(state, 32, 2, mode, glyphs)
        entries = legend_entries(blockmap, glyphs)
        for width in (60, 80, 120, 200):
            told = legend(blockmap, width, glyphs)
            at = 0
            for entry in entries:
                at = told.index(f" {entry.number}", at) + 1
            if glyphs is ASCII:
                assert told.isascii()
        counted = [0 if " of " in entry.number else int(entry.number) for entry in entries]
        if mode == "tier":
            counted = [int(entry.number.split(" of ")[-1]) for entry in entries[:-1]]
        assert sum(counted) == blockmap.total


@pytest.mark.parametrize("mode", MODES)
def test_whatever_stands_on_the_map_is_in_the_legend(mode: str) -> None:
    for state in (scene(blocks=EVERY_STATE), scene(), two_tiers(), scene(ages=[])):
        blockmap = drawn(state, 32, 3, mode)
        sampled = {glyph for entry in legend_entries(blockmap) for text, _ in entry.sample for glyph in text}
        shown = {glyph for row in blockmap.rows() for glyph in row.text} - {" "}
        letters = {glyph for glyph in shown if glyph.isalpha()} if mode in ("owner", "prefix") else set()
        assert shown - letters <= sampled


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("state", ("▓ shared 2", "█ active 9", "░ cached 5", "· free 48")),
        ("owner", ("one owner 9", "its shared blocks 2", "cached 5")),
        ("recency", ("under 0.5s 0", "over 60s 48")),
        ("sharing", ("1 reference 9", "2 references 2")),
        ("fill", ("full", "in part", "nothing written 0", "free 48")),
        ("tier", ("D device 16 of 64",)),
        ("group", ("0 the only KV group 16", "free 48")),
        ("prefix", ("alone with its prefix", "1 families that share one", "cached, family unknown 5")),
    ],
)
def test_it_names_what_a_mode_shows(mode: str, says: tuple[str, ...]) -> None:
    told = legend(drawn(scene(), 32, 2, mode), 200)
    for words in says:
        assert words in told


def test_names_give_way_before_numbers_do() -> None:
    blockmap = drawn(scene(blocks=EVERY_STATE), 32, 2)
    entries = legend_entries(blockmap)
    assert len(legend_rows(entries, 120)) == 1
    assert len(legend_rows(entries, 60)) == 2
    assert legend_line(entries, 60) is None
    assert all(re.search(r"\b8\b", row.text) for row in legend_rows(entries, 40))
    # Where not even two rows do, there are more.
    assert sum(row.text.count("8") for row in legend_rows(entries, 12)) == 8


def test_groups_say_what_their_layers_see() -> None:
    blocks = [(0, 3, 2, 1, 1, 16, 0, 0), (3, 4, 2, 1, 1, 16, 0, 1), (7, 57, 0, -1, 0, 0, 0, 0)]
    told = legend(drawn(scene(grouped(), blocks=blocks), 32, 2, "group"), 200)
    assert "0 sees all tokens 3" in told
    assert "1 window of 128 tokens 4" in told


def test_there_is_none_without_blocks() -> None:
    for state in (gauges_only(), EngineState()):
        assert legend_entries(drawn(state, 10, 1)) == []
        assert legend_rows([], 40) == []
