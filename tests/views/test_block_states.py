"""One table of block states: complete, told apart without colour, and the only one."""

import ast
from pathlib import Path

from kvtop.protocol import BLOCK_STATES, BlockRun, Gauges
from kvtop.state import EngineState
from kvtop.state.ledger import check
from kvtop.views.block_map import BlockMap
from kvtop.views.block_states import ALL, STATES, UNKNOWN_ROLE, in_bar, role_of, state_of, taken, used
from kvtop.views.capacity import capacity_rows
from kvtop.views.legend import legend_entries, legend_rows
from kvtop.views.rows import Role
from tests.views.scene import hello, scene

ROOT = Path(__file__).resolve().parents[2]


def test_every_state_of_the_wire_has_an_entry() -> None:
    assert {state.name for state in STATES} == set(BLOCK_STATES)


def test_states_differ_by_shape_and_each_takes_one_cell() -> None:
    for shapes in ([s.glyph for s in ALL], [s.ascii for s in ALL]):
        assert len(set(shapes)) == len(ALL)
        assert all(len(shape) == 1 for shape in shapes)
    assert all(s.ascii.isascii() for s in ALL)


def test_there_is_room_for_their_roles_and_map_codes() -> None:
    assert role_of("free") == Role.STATE0
    assert role_of("unknown") == UNKNOWN_ROLE < Role.STATE0 + 16 <= Role.OWNER0


def test_each_has_a_place_of_its_own_in_a_bar_and_free_ends_it() -> None:
    assert len({s.bar for s in STATES}) == len(STATES)
    assert in_bar([s.name for s in STATES])[-1] == "free"


def test_sums() -> None:
    counts = {"free": 1, "cached": 2, "active": 4, "shared": 8, "copying": 16, "transfer": 32, "pinned": 64}
    assert used({**counts, "reserved": 128}) == 4 + 8, "in block tables"
    assert taken({**counts, "reserved": 128}) == 4 + 8 + 16 + 32 + 64, "not to be had"


def newer() -> EngineState:
    """An engine with a state that this version does not know: 8 blocks of 64 are in it."""
    names = [*BLOCK_STATES, "of_tomorrow"]
    runs: list[BlockRun] = [(0, 8, len(BLOCK_STATES), -1, 0, 16, 0, 0), (8, 56, 0, -1, 0, 0, 0, 0)]
    gauges = Gauges(kv_blocks_total=64, kv_blocks_free=56, kv_blocks_cached=0, kv_blocks_active=0, kv_blocks_shared=0)
    return scene(hello(block_states=names), blocks=runs, requests=[], gauges=gauges)


def test_a_state_of_a_newer_engine_is_shown_under_its_own_name_and_not_taken_for_used() -> None:
    state = newer()
    bar, numbers = capacity_rows(state, 80)
    assert bar.text.count("?") == 10
    assert "KV used 0/64 0%" in numbers.text
    assert "of_tomorrow 8" in numbers.text
    blockmap = BlockMap(state)
    blockmap.layout(64, 16, 4)
    assert "? of_tomorrow" in legend_rows(legend_entries(blockmap), 80)[0].text
    assert state_of("of_tomorrow").name == "unknown"
    assert check(state) == []


def _literals(path: Path) -> list[tuple[int, set[str]]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            parts = node.keys if isinstance(node, ast.Dict) else node.elts
            names = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
            found.append((node.lineno, names))
    return found


def test_no_other_list_of_states_grows_beside_the_table() -> None:
    known = {s.name for s in STATES}
    beside = {
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ("kvtop/views", "kvtop/term", "kvtop/app", "panels")
        for path in (ROOT / folder).rglob("*.py")
        for line, names in _literals(path)
        if len(names & known) > 3
    }
    # `kvtop.views.tiers.contents` turns the fields of a `TierLevel` into counts by state.
    assert {place.partition(":")[0] for place in beside} <= {"kvtop/views/tiers.py"}
