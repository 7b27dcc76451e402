"""Changing something: asks first, Cancel by default, then says what the engine said."""

import threading
from pathlib import Path
from typing import Any

import pytest

from engine.policies.policy_set import protocol_axes
from kvtop.protocol import Command, Reply, SetPolicy
from kvtop.sources.base import LinkUp
from kvtop.sources.control import ControlError
from panels.dialogs.dialog import Dialog
from tests.app.harness import Bench, agreeing, bench, in_loop
from tests.app.live_engine import LiveEngine
from tests.app.sources import HandFedSource

TO_RESERVING = ("P", "enter", "k", "enter")
"""Opens the policies, takes the first axis (capacity), goes one up from max_utilization."""

AXES = [axis.name for axis in protocol_axes()]
TO_PREFIX_CACHE, TO_MAX_RUNNING = (
    ("P", *["j"] * AXES.index(axis), "enter") for axis in ("prefix_cache", "max_running")
)


def _card(b: Bench) -> str:
    """The dialog's text as if it were on one line."""
    return " ".join(line.strip("│ ") for line in b.text("card").splitlines())


def _sent(b: Bench) -> list[dict[str, Any]]:
    return [command.model_dump() for command in b.control.sent]


@in_loop
async def test_a_policy_change_is_previewed_confirmed_and_dated(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("P")
        assert "▸ capacity" in b.text("card")
        assert "victim" in b.text("card")
        await b.press("enter")
        assert "● max_utilization  now" in b.text("card")
        await b.press("k", "enter")
        await b.until(lambda: "b-0003 would be preempted" in b.text("card"))
        assert "> Cancel <" in b.text("card")
        assert "max_utilization → guaranteed_no_evict" in b.text("card")
        assert [(c["dry_run"], c["transition"]) for c in _sent(b)] == [(True, "drain")]
        await b.press("tab", "enter")
        await b.until(lambda: "took effect at iteration 4,711" in b.text("card"))
        assert _sent(b)[-1]["changes"] == {"capacity": "guaranteed_no_evict"}
        assert _sent(b)[-1]["dry_run"] is False
        # The header shows the new policy when the engine says so, not before.
        await b.tick()
        assert "guaranteed_no_evict" not in b.text("header")
        await b.press("enter")
        assert not isinstance(b.app.screen, Dialog)


@in_loop
async def test_enter_all_the_way_changes_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press(*TO_RESERVING)
        await b.until(lambda: "> Cancel <" in b.text("card"))
        await b.press("enter")
        assert not isinstance(b.app.screen, Dialog)
        assert all(c["dry_run"] for c in _sent(b))


@in_loop
async def test_the_transition_is_offered_where_the_present_may_break_the_rule(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press(*TO_RESERVING)
        await b.until(lambda: "what it will do" in b.text("card"))
        assert "● drain" in b.text("card")
        await b.press("t")
        await b.until(lambda: "● preempt" in b.text("card") and "what it will do" in b.text("card"))
        await b.press("tab", "enter")
        await b.until(lambda: "took effect" in b.text("card"))
        assert [(c["dry_run"], c["transition"]) for c in _sent(b)] == [
            (True, "drain"),
            (True, "preempt"),
            (False, "preempt"),
        ]


@in_loop
async def test_a_switch_has_no_transition_and_the_value_in_force_asks_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press(*TO_PREFIX_CACHE, "enter")
        assert "prefix_cache is on already" in b.text("card")
        assert _sent(b) == []
        await b.press("j", "enter")
        await b.until(lambda: "what it will do" in b.text("card"))
        assert "drain" not in b.text("card")
        assert _sent(b)[0]["changes"] == {"prefix_cache": False}
        await b.press("t")
        assert "there is no transition to choose" in b.text("card")
        assert len(_sent(b)) == 1


@pytest.mark.parametrize(
    ("typed", "says"),
    [("", "type a whole number"), ("0", "at least 1"), ("70000", "at most 65536"), ("1.5", "whole number")],
)
def test_numbers_out_of_bounds_are_refused_in_words(typed: str, says: str, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with bench(tmp_path) as b:
            await b.press(*TO_MAX_RUNNING, *[{".": "full_stop"}.get(c, c) for c in typed], "enter")
            assert says in b.text("card")
            assert _sent(b) == []

    run()


@in_loop
async def test_a_bound_of_seven_digits_is_written_out(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("P", *["j"] * AXES.index("token_budget"), "enter", *"9999999", "enter")
        assert "at most 1048576" in b.text("card").split("token_budget", 1)[1]
        assert "e+06" not in b.text("card")


@in_loop
async def test_lowering_a_limit_offers_the_transition_and_raising_it_does_not(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press(*TO_MAX_RUNNING, "4", "enter")
        await b.until(lambda: "what it will do" in b.text("card"))
        assert "● drain" in b.text("card")
        await b.press("escape", "backspace", "2", "0", "enter")
        await b.until(lambda: "12 → 20" in b.text("card") and "what it will do" in b.text("card"))
        assert "drain" not in b.text("card")
        assert [c["changes"] for c in _sent(b)] == [{"max_running": 4}, {"max_running": 20}]


@in_loop
async def test_a_refused_preview_cannot_be_applied(tmp_path: Path) -> None:
    def refusing(command: Command) -> Reply:
        return Reply(id=command.id, ok=False, message="the pool has 240 blocks and S-0001 reserves 400")

    async with bench(tmp_path, answer=refusing) as b:
        await b.press(*TO_RESERVING)
        await b.until(lambda: "refused: the pool has 240 blocks" in b.text("card"))
        await b.press("tab", "enter")
        assert len(_sent(b)) == 1
        await b.press("q")
        assert not isinstance(b.app.screen, Dialog)


@in_loop
async def test_no_answer_is_said_in_words(tmp_path: Path) -> None:
    def silent(command: Command) -> Reply:
        if isinstance(command, SetPolicy) and command.dry_run:
            return agreeing(command)
        raise ControlError("no answer within 15 s; the engine may be busy and still do it")

    async with bench(tmp_path, answer=silent) as b:
        await b.press(*TO_RESERVING)
        await b.until(lambda: "what it will do" in b.text("card"))
        await b.press("tab", "enter")
        await b.until(lambda: "no answer within 15 s" in b.text("card"))
        assert "took effect" not in b.text("card")


@in_loop
async def test_the_screen_goes_on_while_the_engine_thinks(tmp_path: Path) -> None:
    thinking = threading.Event()

    def slow(command: Command) -> Reply:
        thinking.wait(10)
        return agreeing(command)

    async with bench(tmp_path, answer=slow) as b:
        await b.press("E", "tab", "enter")
        await b.until(lambda: "waiting for its answer" in b.text("card"))
        before = b.screen.feed.live.iteration
        await b.iterate(5)
        assert b.screen.feed.live.iteration == (before or 0) + 5
        # Closing the dialog takes nothing back, and the late answer finds nobody.
        await b.press("escape")
        assert not isinstance(b.app.screen, Dialog)
        thinking.set()
        await b.iterate(2)
        assert b.app.is_running


@pytest.mark.parametrize("key", ["E", "R", "C"])
def test_cancel_comes_first(key: str, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with bench(tmp_path) as b:
            for way_out in ("enter", "escape", "q"):
                await b.press(key)
                assert isinstance(b.app.screen, Dialog)
                assert "> Cancel <" in b.text("card")
                await b.press(way_out)
                assert not isinstance(b.app.screen, Dialog)
            assert _sent(b) == []

    run()


@in_loop
async def test_a_paused_engine_is_offered_to_go_on(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=LiveEngine()) as b:
        b.engine.pause()
        await b.iterate(1)
        assert "PAUSED" in b.text("header")
        await b.press("E", "tab", "enter")
        await b.until(lambda: "took effect" in b.text("card"))
        assert _sent(b)[0]["type"] == "resume"


@in_loop
async def test_without_a_control_socket_the_reason_is_said(tmp_path: Path) -> None:
    async with bench(tmp_path, control_path=tmp_path / "gone.ctl.sock") as b:
        await b.press("E")
        assert not isinstance(b.app.screen, Dialog)
        await b.until(lambda: "read-only: no gone.ctl.sock" in b.text())
        # The policies can be read all the same.
        await b.press("P", "enter")
        assert "read-only" in b.text("card")
        assert _sent(b) == []


@in_loop
async def test_a_forbidden_control_socket_names_the_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(tmp_path) as b:
        # Root may write anywhere, so the answer of the system is pretended.
        monkeypatch.setattr("kvtop.app.commander.os.access", lambda path, mode: False)
        await b.press("R")
        await b.until(lambda: "read-only: no permission for" in b.text())


@in_loop
async def test_ctrl_c_leaves_from_a_dialog_too(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("P", "ctrl+c")
        assert b.app.return_value == 0


@in_loop
async def test_dialogs_fit_the_smallest_terminal(tmp_path: Path) -> None:
    async with bench(tmp_path, size=(60, 16)) as b:
        await b.press(*TO_RESERVING)
        await b.until(lambda: "> Cancel <" in b.text())
        assert "guaranteed_no_evict" in b.text()
        await b.pilot.resize_terminal(200, 50)
        await b.until(lambda: len(b.text().splitlines()) == 50 and "> Cancel <" in b.text())


@in_loop
async def test_a_command_the_engine_does_not_take_is_not_offered(tmp_path: Path) -> None:
    engine = LiveEngine()
    for _ in range(100):
        engine.step()
    source = HandFedSource()
    source.put(LinkUp(), engine.hello().model_copy(update={"commands": ["set_policy"]}), engine.keyframe())
    async with bench(tmp_path, source=source) as b:
        for keys, command in ((("E",), "pause"), (("C",), "compact"), (("2", "j", "I"), "pin"), (("u",), "unpin")):
            await b.press(*keys)
            assert not isinstance(b.app.screen, Dialog)
            await b.until(lambda: f"this engine takes no command {command}" in b.text())  # noqa: B023


@in_loop
async def test_compaction_names_whose_blocks_would_move(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        blocks = b.screen.feed.live.blocks
        assert blocks is not None
        blocks.state[:], blocks.owner[:] = 0, -1
        await b.press("C")
        assert "Nothing would move" in _card(b)
        await b.press("escape")
        rows = list((b.screen.feed.live.requests or {}).values())
        # 5 blocks with content, 4 of them higher than the fifth place.
        for block, row in ((1, rows[0]), (100, rows[0]), (101, rows[0]), (102, rows[1])):
            blocks.state[block], blocks.owner[block] = 2, row.num
        blocks.state[103] = 1
        await b.press("C")
        card = _card(b)
        assert f"4 blocks would move: 2 of {rows[0].name}, 1 of {rows[1].name}, 1 without an owner." in card
        assert "> Cancel <" in card


@in_loop
async def test_pinning_says_what_is_pinned_already_and_how_much_may_be(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        # Not in place: frames of a recording are shared by all tests that show it.
        b.screen.feed.live.policy = {**b.screen.feed.live.policy, "pin_limit": 0.25}
        b.screen.feed.live.gauges["kv_blocks_pinned"] = 7
        await b.press("2", "g")
        row = (b.screen.feed.live.requests or {})[b.screen.requests.view.selected or 0]
        row.pinned_blocks = 3
        await b.press("I")
        card = _card(b)
        assert "3 blocks of it are pinned already" in card
        assert "Pinned blocks that no request holds now: 7. pin_limit allows 25% of the pool to be pinned." in card
        await b.press("escape", "u")
        card = _card(b)
        assert "3 blocks of it are pinned now." in card


@in_loop
async def test_ending_one_of_several_outputs_says_who_ends_with_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("2", "g")
        row = (b.screen.feed.live.requests or {})[b.screen.requests.view.selected or 0]
        await b.press("x")
        assert "with it" not in _card(b)
        row.group, row.siblings, row.output_tokens = row.num, 4, 0
        await b.press("escape", "x")
        assert "The other 3 outputs of its prompt, which are not begun, end with it." in _card(b)
        row.output_tokens = 5
        await b.press("escape", "x")
        assert "with it" not in _card(b), "samples go their own ways once they are drawn"
        row.score = -2.0
        await b.press("escape", "x")
        assert "All 4 beams of its search end with it." in _card(b)
        await b.press("escape", "X")
        assert "All 4 beams of its search are preempted with it." in _card(b)
