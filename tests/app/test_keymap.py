"""Other keys for the same actions, and the list of all actions."""

from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.command import CommandPalette

from kvtop.app.keymap import DEFAULT, keymap, shown, written_keys
from kvtop.app.keys import SECTIONS
from kvtop.errors import UserError
from panels.dialogs.dialog import Dialog
from panels.dialogs.help_screen import HelpScreen
from tests.app.harness import Bench, bench, in_loop


def test_ids_are_words_and_name_one_action_each() -> None:
    ids = [action.id(place) for place, actions in SECTIONS for action in actions]
    assert len(set(ids)) == len(ids)
    assert all(id.replace("-", "").replace(".", "").isalpha() for id in ids)


def test_the_default_keys_do_not_conflict() -> None:
    assert keymap({}) == DEFAULT


def test_keys_are_spelled_as_textual_or_as_they_look() -> None:
    made = keymap(
        {"requests.abort": "d", "everywhere.pause-view": [" ", "f5"], "block-map.left": ",", "events.kinds": "~"}
    )
    assert made.bindings == {
        "requests.abort": "d",
        "everywhere.pause-view": "space,f5",
        "block-map.left": "comma",
        "events.kinds": "tilde",
    }
    (action,) = [a for a in made.actions("everywhere") if a.name == "pause_view"]
    assert action.shown == "Space f5"
    assert [shown(key) for key in ("ctrl+pageup", "question_mark", "left")] == ["ctrl+PgUp", "?", "←"]


def test_the_keys_there_are_can_be_written_down_and_mean_the_same() -> None:
    written = {action: keys for action, keys, _ in written_keys()}
    assert written["everywhere.help"] == ["?"]
    made = keymap(written)
    assert [[action.keys for action in actions] for _, actions in made.sections] == [
        [action.keys for action in actions] for _, actions in SECTIONS
    ]


def test_no_help_names_a_key_that_may_be_another() -> None:
    signs = {key for _, actions in SECTIONS for action in actions for key in action.shown.split() if not key.isalnum()}
    for _, actions in SECTIONS:
        for action in actions:
            assert not signs & {word.strip(",;:.") for word in action.help.split()}, action.help


def test_two_actions_may_change_places() -> None:
    assert keymap({"requests.abort": "X", "requests.preempt": "x"})


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ({"requests.abor": "d"}, "requests.abor: no such action; did you mean requests.abort?"),
        ({3: "d"}, "3: no such action"),
        (
            {"requests.abort": "q"},
            "requests.abort: q would mean both everywhere.quit and requests.abort; give one another key",
        ),
        (
            {"requests.abort": "X"},
            "requests.abort: X would mean both requests.abort and requests.preempt; give one another key",
        ),
        ({"dialogs.back": "q"}, "dialogs.back: q would mean both dialogs.close and dialogs.back; give one another key"),
        ({"requests.abort": ""}, "requests.abort: there is no key ''"),
        ({"requests.abort": []}, "requests.abort: needs a key or a list of keys, not []"),
        ({"requests.abort": 3}, "requests.abort: needs a key or a list of keys, not 3"),
        ({"requests.abort": ["d", 3]}, "requests.abort: 3 is no key"),
        ({"requests.abort": "hyperspace"}, "requests.abort: there is no key 'hyperspace'"),
        ({"requests.abort": "\x1b"}, "requests.abort: '\\x1b' is no key"),
        ({"requests.abort": "ctrl+c"}, "requests.abort: ctrl+c always does what it does"),
        ({"requests.abort": "d, d"}, "requests.abort: has the same key twice: 'd, d'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(mapping: dict[Any, Any], says: str) -> None:
    with pytest.raises(UserError) as caught:
        keymap(mapping)
    assert str(caught.value) == says
    assert caught.value.code == 2


@in_loop
async def test_other_keys_do_it_and_are_what_footer_and_help_show(tmp_path: Path) -> None:
    other = keymap({"requests.abort": "d", "everywhere.help": "f1", "everywhere.quit": "Q", "dialogs.close": "w"})
    async with bench(tmp_path, keymap=other) as b:
        await b.press("j")
        assert "d abort" in b.text("footer")
        assert "f1 help" in b.text("footer")
        await b.press("x")
        assert not isinstance(b.app.screen, Dialog)
        await b.press("d")
        assert isinstance(b.app.screen, Dialog)
        await b.press("w")
        assert not isinstance(b.app.screen, Dialog)
        await b.press("f1")
        assert isinstance(b.app.screen, HelpScreen)
        assert "f1" in b.text("page")
        await b.press("f1")
        assert b.app.screen is b.screen
        await b.press("q", "Q")
        assert b.app.return_value == 0


async def _entries(b: Bench) -> str:
    await b.until(lambda: isinstance(b.app.screen, CommandPalette))
    await b.until(lambda: b.app.screen.query("CommandList").first().option_count)  # type: ignore[attr-defined]
    options = b.app.screen.query("CommandList").first().options  # type: ignore[attr-defined]
    return "\n".join(str(option.prompt) for option in options)


@in_loop
async def test_the_palette_lists_every_action_with_its_key_and_does_it(tmp_path: Path) -> None:
    async with bench(tmp_path, keymap=keymap({"requests.abort": "d"})) as b:
        await b.press("2", "g", "1", "colon")
        await b.until(lambda: isinstance(b.app.screen, CommandPalette))
        await b.press(*"abort the selected")
        await b.until(lambda: b.app.screen.query("CommandList").first().option_count == 1)  # type: ignore[attr-defined]
        assert "requests: abort the selected request (asks first)  (d)" in await _entries(b)
        await b.press("down", "enter")
        await b.until(lambda: isinstance(b.app.screen, Dialog))
        assert "abort " in b.text("card")
        await b.press("escape", "ctrl+p")
        listed = await _entries(b)
        for place, actions in b.screen.keymap.sections:
            for action in actions:
                if (
                    place not in ("dialogs", "help and tables", "alarms", "preempted")
                    and action.name != "command_palette"
                ):
                    assert f"{action.help}  ({action.shown})" in listed


OTHERS = {
    "everywhere.help": "f1",
    "everywhere.filter": "ctrl+f",
    "everywhere.pause-view": "f9",
    "requests.down": "f2",
    "requests.up": "f3",
    "requests.clear": "f4",
    "requests.page-down": "pagedown",
    "events.kinds": "f5",
    "events.page-down": "pagedown",
    "queue.page-down": "pagedown",
    "block-map.left": "f6",
    "block-map.page-down": "pagedown",
    "dialogs.next": "f7",
    "dialogs.back": "f8",
    "dialogs.up": "f10",
    "help-and-tables.close": "f11",
    "help-and-tables.down": "f12",
}


@in_loop
async def test_every_sentence_names_the_keys_that_work(tmp_path: Path) -> None:
    """Feet of dialogs, hints and titles named those that nobody had."""
    async with bench(tmp_path, keymap=keymap(OTHERS)) as b:

        def foot() -> str:
            return b.text().splitlines()[-1]

        await b.press("z")
        assert "z does nothing here; f1 shows what keys do" in foot()
        b.app.post_message(events.Paste("x"))
        await b.until(lambda: "only the filter (ctrl+f) and" in foot())
        await b.press("x")
        assert "select a request first: f2 and f3" in foot()
        await b.press("ctrl+f", *"zzz", "enter", "x")
        assert "no request matches 'zzz'; f4 clears the filter" in foot()
        await b.press("f4", "1")
        await b.press("enter")
        assert "choose a block first: f6 j k l" in foot()
        assert "notable (f5)" in b.text("events")
        await b.press("E")
        assert "f7 button · Enter · f8 cancel" in b.text()
        assert " f9 " in b.text("card")
        await b.press("f8", "P")
        assert "j f10 choose · Enter change · f8 close" in b.text()
        await b.press("f8", "2", "f2", "enter")
        assert "f12 k PgDn PgUp g G scroll  f11 close" in foot()
        await b.press("f11", "f1")
        assert "f12 k PgDn PgUp g G scroll  f11 close" in foot()
