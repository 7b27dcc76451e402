"""Every key does what the help says."""

from pathlib import Path

import pytest
from textual.binding import Binding

from kvtop.app.keys import EVERYWHERE, SECTIONS
from kvtop.app.time_keys import TIME
from kvtop.term.keys import Action, Section, bindings, footer_actions
from panels.dialogs.preempted_screen import PREEMPTED
from panels.footer import footer_row
from tests.app.harness import bench, in_loop
from tests.app.key_checks import CHECKS
from tests.app.live_engine import LiveEngine

OF_TIME = {action.name for action in TIME}
"""Checked with a recording to go about in, by `tests.app.test_time`."""

CHECKED = [
    (place, action)
    for place, actions in SECTIONS
    for action in actions
    if action.name not in OF_TIME and place != PREEMPTED
]


def test_every_action_has_a_check() -> None:
    assert {(place, action.name) for place, action in CHECKED} == set(CHECKS)


@pytest.mark.parametrize(
    ("place", "action"),
    [pytest.param(place, action, id=f"{place}-{action.keys[0]}") for place, action in CHECKED],
)
def test_key(place: str, action: Action, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        engine = LiveEngine() if place == "queue" else None
        async with bench(tmp_path, engine=engine) as b:
            await CHECKS[place, action.name](b, action.keys[0])

    run()


def test_every_other_key_of_an_action_does_the_same() -> None:
    for place, actions in SECTIONS:
        bound = {(b.action, b.key) for b in bindings(actions, place) if isinstance(b, Binding)}
        assert bound == {(action.name, key) for action in actions for key in action.keys}


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_no_key_means_two_things_in_one_place(section: Section) -> None:
    keys = [key for action in section.actions for key in action.keys]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
@pytest.mark.parametrize("width", [60, 80, 200])
def test_footer_names_keys_of_the_place_and_always_help_and_quit(section: Section, width: int) -> None:
    local = () if section.actions is EVERYWHERE else section.actions
    row = footer_row(EVERYWHERE, local, width)
    assert len(row.text) == len(row.roles) == width
    assert "? help" in row.text
    assert "q quit" in row.text
    for action in [a for a in footer_actions(EVERYWHERE, local) if a in local][:2]:
        assert action.footer in row.text
