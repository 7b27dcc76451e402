"""Written slots, tail waste and runs of blocks to be had."""

from kvtop.protocol import RequestChange
from kvtop.state import EngineState
from kvtop.views.slack import slack_of, slack_row
from tests.views.scene import check_rows, gauges_only, scene


def told(state: EngineState, width: int = 200) -> str:
    return check_rows([slack_row(state, slack_of(state), width)], width, 1).strip()


def uneven() -> EngineState:
    """Two requests that share block 0; the first wrote 4 of the 16 tokens of its last block, the second 9."""
    blocks = [
        (0, 1, 3, 1, 2, 16, 0, 0),
        (1, 1, 2, 1, 1, 4, 0, 0),
        (2, 3, 0, -1, 0, 0, 0, 0),
        (5, 1, 2, 2, 1, 9, 0, 0),
        (6, 2, 1, -1, 0, 16, 0, 0),
        (8, 56, 0, -1, 0, 0, 0, 0),
    ]
    tables = {1: [0, 1], 2: [0, 5]}
    return scene(blocks=blocks, requests=[RequestChange(num=n, state="decode", table=t) for n, t in tables.items()])


def test_tails_are_what_last_blocks_have_room_for_and_shared_blocks_count_once() -> None:
    slack = slack_of(uneven())
    assert slack is not None
    assert (slack.slots, slack.written, slack.tail) == (48, 29, 19)
    assert (slack.spare, slack.runs, slack.longest) == (61, 2, 58)
    assert told(uneven()).startswith(
        "held slots written 29 of 48 60% · unwritten in last blocks 19 tokens 40% · free + cached 61 in 2 runs, longest 58"
    )
    assert "paging needs none" in told(uneven())


def test_no_number_is_cut_where_there_is_little_room() -> None:
    for width in (30, 40, 60, 80, 120):
        assert "…" not in told(uneven(), width)
    assert told(uneven(), 60).startswith("written 29 of 48 60% · tail 19 ·")


def test_what_is_not_exposed_is_said() -> None:
    assert slack_of(gauges_only()) is None
    assert told(gauges_only()) == "blocks: not exposed by vllm"
    state = uneven()
    assert state.hello is not None
    geometry = state.hello.geometry.model_copy(update={"block_size": None})
    state.hello = state.hello.model_copy(update={"geometry": geometry})
    assert "not exposed" in told(state)
    assert "unwritten in last blocks – tokens" in told(state)


def test_an_empty_pool_of_no_requests_wastes_nothing() -> None:
    state = scene(blocks=[(0, 64, 0, -1, 0, 0, 0, 0)], requests=[])
    slack = slack_of(state)
    assert slack is not None
    assert (slack.slots, slack.tail, slack.longest, slack.runs) == (0, 0, 64, 1)
    assert "written 0 of 0 –" in told(state)
