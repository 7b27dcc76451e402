"""What the screen, the keys, the help and the layout take from the list of panels."""

from kvtop.app.keys import EVERYWHERE, SECTIONS
from panels.panel import TitledPanel
from panels.registry import PANELS


def test_ids_digits_and_names_are_each_of_one_panel() -> None:
    for seen in (
        [panel.ID for panel in PANELS],
        [panel.DIGIT for panel in PANELS if panel.DIGIT is not None],
        [panel.NAME for panel in PANELS if panel.NAME],
    ):
        assert len(seen) == len(set(seen))


def test_every_panel_that_takes_the_focus_has_a_name_and_a_digit_that_goes_to_it() -> None:
    goes_to = {action.name: action.keys for action in EVERYWHERE}
    for panel in PANELS:
        if issubclass(panel, TitledPanel):
            assert panel.NAME
            assert goes_to[f"focus_panel('{panel.ID}')"] == (str(panel.DIGIT),)


def test_every_action_of_a_panel_has_its_method_and_its_place_in_the_help() -> None:
    sections = dict(SECTIONS)
    for panel in PANELS:
        if panel.ACTIONS:
            assert sections[panel.NAME] is panel.ACTIONS
        for action in panel.ACTIONS:
            assert callable(getattr(panel, f"action_{action.name}")), (panel.ID, action.name)
