"""A command reaches what was pointed at, or nobody: engines restart, requests end, and views are held meanwhile."""

from pathlib import Path

from kvtop.protocol import Reply, RequestChange
from kvtop.sources.base import LinkDown, LinkUp
from panels.dialogs.dialog import Dialog
from panels.dialogs.pager import PagerScreen
from tests.app.harness import Bench, bench, in_loop
from tests.app.live_engine import LiveEngine
from tests.app.sources import HandFedSource

ON_REQUESTS = ("x", "X", "I", "u")
ON_ENGINE = ("E", "R", "C")


async def restart(b: Bench, run: str = "run-2") -> None:
    """The engine is gone and comes back; its requests have the numbers of the old ones."""
    engine = LiveEngine(seed=99, run=run)
    for _ in range(300):
        engine.step()
    b.source.engine = engine
    b.source.put(LinkDown("the engine left: shutting down", True), LinkUp(), engine.hello(), engine.keyframe())
    await b.tick()


def said(b: Bench) -> str:
    return " ".join(line.strip("│ ") for line in b.text("card").splitlines())


@in_loop
async def test_a_dialog_opened_before_a_restart_says_so_and_does_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        for number, key in enumerate(ON_REQUESTS + ON_ENGINE):
            await b.press("2", "g", key)
            assert isinstance(b.app.screen, Dialog), key
            await restart(b, f"run-again-{number}")
            assert "The engine has been restarted: the run that this was about is over" in said(b), key
            assert "> Close <" in said(b)
            await b.press("tab", "enter")
            assert not isinstance(b.app.screen, Dialog)
        assert b.control.sent == []


@in_loop
async def test_every_command_carries_the_run_that_was_shown(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        for key in ON_REQUESTS + ON_ENGINE:
            await b.press("2", "g", key, "tab", "enter")
            await b.until(lambda: "took effect" in b.text("card"))
            await b.press("enter")
        assert [command.run for command in b.control.sent] == ["run-1"] * 7


@in_loop
async def test_the_policy_dialog_shows_the_new_runs_policies(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("P", "enter", "k", "enter")
        await b.until(lambda: "what it will do" in b.text("card"))
        await restart(b)
        assert "the engine has been restarted; these are its policies now" in said(b)
        await b.press("enter", "k", "enter")
        await b.until(lambda: "what it will do" in b.text("card"))
        await b.press("tab", "enter")
        await b.until(lambda: "took effect" in b.text("card"))
        assert [command.run for command in b.control.sent] == ["run-1", "run-2", "run-2"]


@in_loop
async def test_the_policy_dialog_follows_what_others_set(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("P")
        b.screen.feed.live.policy["victim"] = "most_blocks"
        await b.tick()
        assert "victim                    most_blocks" in b.text("card")
        await b.press("enter", "k", "enter")
        await b.until(lambda: "what it will do" in b.text("card"))
        b.screen.feed.live.policy = {**b.screen.feed.live.policy, "capacity": "guaranteed_no_evict"}
        await b.tick()
        assert "capacity is guaranteed_no_evict by now: it was changed elsewhere" in said(b)
        assert "● guaranteed_no_evict  now" in b.text("card")


@in_loop
async def test_nothing_stays_selected_over_a_restart(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("2", "j", "j")
        assert b.screen.requests.view.selected is not None
        await restart(b)
        assert b.screen.requests.view.selected is None
        for key in (*ON_REQUESTS, "enter"):
            await b.press(key)
            assert not isinstance(b.app.screen, Dialog | PagerScreen)
        assert "select a request first" in b.text()


@in_loop
async def test_a_held_view_of_the_old_run_asks_nothing_of_the_new_one(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("2", "g", "p")
        shown = b.screen.requests.view.selected
        await restart(b)
        assert b.screen.requests.view.selected == shown, "what is held stands still"
        await b.press("x")
        await b.tick()
        assert "the run that this was about is over" in said(b)
        await b.press("tab", "enter")
        assert b.control.sent == []
        await b.press("p")
        assert b.screen.requests.view.selected is None


@in_loop
async def test_a_block_table_of_the_old_run_does_not_become_another_requests(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("2", "g", "enter")
        assert isinstance(b.app.screen, PagerScreen)
        await restart(b)
        assert "the engine has been restarted: the run that this request was in is over" in b.text("page")
        assert "0…15" not in b.text("page")


@in_loop
async def test_what_was_wanted_of_a_request_is_not_done_to_its_namesake(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("2", "g")
        # The key is handled, and the engine restarts before its message is.
        b.screen.requests.action_abort()
        await restart(b)
        assert not isinstance(b.app.screen, Dialog)
        await b.until(lambda: "that request is gone" in b.text())


@in_loop
async def test_a_dialog_without_a_connection_waits_for_it(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=LiveEngine()) as b:
        await b.press("E")
        b.source.put(LinkDown("the engine closed the connection", True))
        await b.tick()
        assert "No connection to the engine: the engine closed the connection" in said(b)
        assert "Pause ]" not in said(b)
        b.source.put(LinkUp(), b.engine.hello(), b.engine.keyframe())
        await b.tick()
        await b.press("tab", "enter")
        await b.until(lambda: "took effect" in b.text("card"))
        assert len(b.control.sent) == 1


@in_loop
async def test_of_an_engine_that_has_left_that_is_said_and_not_that_its_control_socket_is_missing(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, control_path=tmp_path / "gone.ctl.sock") as b:
        b.source.put(LinkDown("the engine left: engine stopped", True))
        await b.tick()
        await b.press("E")
        assert not isinstance(b.app.screen, Dialog)
        await b.until(lambda: "No connection to the engine: the engine left" in b.text())
        assert not any("read-only" in note for note in b.notes())


@in_loop
async def test_a_request_that_ended_under_its_dialog_is_left_alone(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        for key in ("x", "X"):
            await b.press("2", "g", key)
            row = b.screen.feed.live.request(b.screen.requests.view.selected or 0)
            assert row is not None
            assert b.screen.feed.live.requests is not None
            b.screen.feed.live.requests.apply(RequestChange(num=row.num, state="finished"), None, print)
            await b.tick()
            assert f"{row.name} has ended meanwhile." in said(b)
            await b.press("tab", "enter")
        assert b.control.sent == []


@in_loop
async def test_somebody_else_has_paused_it(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=LiveEngine()) as b:
        await b.press("E")
        b.engine.pause()
        await b.iterate(1)
        assert "The engine is paused already" in said(b)
        await b.press("tab", "enter")
        assert b.control.sent == []


@in_loop
async def test_the_engines_refusal_names_the_runs(tmp_path: Path) -> None:
    def refusing(command: object) -> Reply:
        return Reply(id="1", ok=False, message="this was meant for run old of the engine, which is over")

    async with bench(tmp_path, answer=refusing) as b:
        await b.press("E", "tab", "enter")
        await b.until(lambda: "refused: this was meant for run old of the engine, which is over" in said(b))


@in_loop
async def test_what_is_asked_before_the_engine_said_who_it_is_reaches_nobody(tmp_path: Path) -> None:
    """It would go to whichever run answers: the dialog took over none, and so fitted all."""
    async with bench(tmp_path, source=HandFedSource()) as b:
        for key in ON_ENGINE:
            await b.press(key)
            assert not isinstance(b.app.screen, Dialog), key
            await b.until(lambda: "no engine has said yet who it is" in b.text())
