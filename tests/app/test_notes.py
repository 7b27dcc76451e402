"""What the screen has to say stands in the footer, and hides nothing that one looks at."""

from pathlib import Path

from tests.app.harness import bench, in_loop


@in_loop
async def test_a_note_hides_no_row_of_a_small_screen(tmp_path: Path) -> None:
    """Boxes in the corner lay on the events, and several on the queue's verdict and the header."""
    async with bench(tmp_path) as b:
        before = b.text().splitlines()
        for text in ("the disk is full", "there is no shell here to go back to", "that request is gone"):
            b.screen.say(text, "error")
            await b.pilot.pause(0.1)
        after = b.text().splitlines()
        assert after[:-1] == before[:-1]
        assert after[-1].strip() == "that request is gone"
        b.time += 60
        await b.tick()
        assert "? help" in b.text().splitlines()[-1]


@in_loop
async def test_the_same_note_again_is_counted(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        for _ in range(3):
            b.screen.say("that request is gone", "warning")
        assert b.text("footer").strip() == "that request is gone ×3"
        b.screen.say("x" * 200)
        b.screen.say("x" * 200)
        assert b.text("footer").rstrip().endswith("x… ×2")


@in_loop
async def test_a_note_outlasts_a_change_of_focus_and_a_keys_answer_does_not(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        b.screen.say("no snapshot: the disk is full", "error")
        await b.press("tab")
        assert "no snapshot: the disk is full" in b.text("footer")
        await b.press("z")
        assert "z does nothing here" in b.text("footer")
        await b.press("tab")
        assert "? help" in b.text("footer")


@in_loop
async def test_what_was_said_of_a_key_is_gone_with_the_next_one_and_counted_where_that_says_it_too(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as b:
        await b.press("2", "G", "j")
        assert b.text("footer").strip() == "this is the last request"
        await b.press("j")
        assert b.text("footer").strip() == "this is the last request ×2"
        await b.press("k")
        assert "? help" in b.text("footer")
        await b.press("j", "j")
        assert b.text("footer").strip() == "this is the last request"
        b.screen.say("no snapshot: the disk is full", "error")
        await b.press("k")
        assert "no snapshot: the disk is full" in b.text("footer")


@in_loop
async def test_what_is_said_while_the_help_covers_the_screen_is_seen_there_and_gone_with_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("question_mark")
        b.screen.say("that request is gone", "warning")
        await b.until(lambda: "that request is gone" in b.text())
        await b.press("q")
        await b.until(lambda: "that request is gone" not in b.text())
