"""A panel is its file and one entry: what else is needed to have it on the screen would be asked for here."""

import subprocess
import sys

NEW_PANEL = """
import panels.registry
from kvtop.term.keys import Action, bindings
from panels.layout import Need, Room
from panels.panel import TitledPanel

class SwapsPanel(TitledPanel):
    ID, NAME, DIGIT = "swaps", "swaps", 9
    ACTIONS = (Action("shout", ("z",), "z", "say it louder", "shout"),)
    BINDINGS = bindings(ACTIONS, NAME)
    said = "a new panel's body"

    @staticmethod
    def need(room: Room) -> Need:
        return Need(3, 3, 1.0)

    def compose_rows(self):
        from kvtop.views.rows import RowBuilder
        return self.framed("swaps", [RowBuilder().add(self.said).row(self.size.width)])

    def action_shout(self) -> None:
        self.said = self.said.upper()
        self.draw()

panels.registry.PANELS += (SwapsPanel,)

import re
from kvtop.app.manual import page
from kvtop.app.picture import screen_svg
from tests.views.scene import NOW, scene

def words(keys, size):
    drawn = screen_svg(scene(), size, NOW, keys=keys)
    return " ".join(re.sub("<[^>]*>", " ", drawn).replace("&#160;", " ").replace("&#x27;", "'").split())

for size in ((80, 24), (200, 50)):
    shown = words((), size)
    assert "9 swaps" in shown and "a new panel's body" in shown, shown
    focused = words(("9", "z"), size)
    assert "A NEW PANEL'S BODY" in focused, focused
    assert "z shout" in focused, "its keys are not in the footer"
assert "say it louder" in words(("question_mark", "G"), (200, 400)), "not in the help"
assert "### Swaps" in page() and "go to the swaps" in page()
"""


def test_a_new_panel_is_its_own_file_and_one_entry() -> None:
    done = subprocess.run([sys.executable, "-c", NEW_PANEL], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
