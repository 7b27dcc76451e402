"""The keys that work wherever the focus is, and all keys of the screen by the place they work in."""

from dataclasses import replace

from kvtop.app.time_keys import TIME
from kvtop.term.keys import Action, Section
from kvtop.views.cells import MODES
from panels.dialogs.alarms_screen import ALARM_ACTIONS, ALARMS
from panels.dialogs.dialog import DIALOG_ACTIONS
from panels.dialogs.pager import PAGER, PAGER_ACTIONS
from panels.dialogs.preempted_screen import PREEMPTED, PREEMPTED_ACTIONS
from panels.registry import PANELS

_GO_TO = tuple(
    Action(
        f"focus_panel('{panel.ID}')", (str(panel.DIGIT),), str(panel.DIGIT), f"go to the {panel.GO_TO or panel.NAME}"
    )
    for panel in sorted((p for p in PANELS if p.DIGIT is not None), key=lambda panel: panel.DIGIT or 0)
)

EVERYWHERE_NAME = "everywhere"

EVERYWHERE: tuple[Action, ...] = (
    Action("help", ("question_mark",), "?", "this help", footer="help"),
    Action("quit", ("q", "ctrl+c"), "q ctrl+c", "leave; in a dialog or the help: close it", footer="quit"),
    Action("command_palette", ("colon", "ctrl+p"), ": ctrl+p", "list every action with its key, and do one"),
    Action("policy", ("P",), "P", "policies: what is set, what a change would do, change it", footer="policy"),
    Action(
        "full", ("f",), "f", "let the panel fill the screen, and back; so does its digit again; Esc leaves too", "full"
    ),
    Action(
        "pause_view",
        ("p", "space"),
        "p Space",
        "hold the view still, or stop a replay; data keeps coming in",
        footer="hold",
    ),
    Action(
        "snapshot",
        ("s",),
        "s",
        "write a snapshot (JSON and SVG) into the current folder, or that of the settings",
        footer="snapshot",
    ),
    Action("copy", ("y",), "y", "copy the selected request's id, the block under the cursor, or the panel's text"),
    Action("bundle", ("S",), "S", "write an incident bundle of the minutes around what is shown, in the same place"),
    Action("colour", ("c",), "c", f"colour the map by the next of {', '.join(MODES)}", footer="colour"),
    Action(
        "filter", ("slash",), "/", "show only some requests: chat, state:waiting, prompt>4k, wait>5s", footer="filter"
    ),
    Action("numbers", ("i",), "i", "what the numbers of this panel mean, and what they are now", footer="numbers"),
    Action(
        "alarms",
        ("exclamation_mark",),
        "!",
        "alarms: what is wrong, whom it hits, what to try, what was checked",
        footer="alarms",
    ),
    Action("pause_engine", ("E",), "E", "pause or resume the engine (asks first)"),
    Action("reset_cache", ("R",), "R", "make the prefix cache forget everything (asks first)"),
    Action("compact", ("C",), "C", "compact the pool: move blocks together (asks first)"),
    Action("overview", ("0",), "0", "the overview: all panels in their places"),
    *_GO_TO,
    *(replace(action, footer="") for action in TIME),  # the footer has them while the past is shown
    Action("next_tier", ("t",), "t", "show the next tier on the map: device, host, disk"),
    Action("focus_next", ("tab",), "Tab", "go to the next panel"),
    Action("focus_previous", ("shift+tab",), "shift+Tab", "go to the previous panel"),
    Action("suspend_process", ("ctrl+z",), "ctrl+z", "back to the shell; fg brings the screen back"),
    Action("redraw", ("ctrl+l",), "ctrl+l", "draw the whole screen anew"),
)

COLOURS: tuple[Action, ...] = tuple(
    Action(f"colour_by('{mode}')", (), "", f"colour the map by {mode}") for mode in MODES
)
"""Without keys: for the palette, where any is chosen directly."""

_OF_APP = ("quit", "command_palette", "focus_next", "focus_previous", "suspend_process", "redraw")
"""What the app does itself, whatever screen it shows."""

APP_ACTIONS = tuple(action for action in EVERYWHERE if action.name in _OF_APP)
SCREEN_ACTIONS = tuple(action for action in EVERYWHERE if action.name not in _OF_APP)

SECTIONS: tuple[Section, ...] = (
    Section(EVERYWHERE_NAME, EVERYWHERE),
    *(Section(panel.NAME, panel.ACTIONS) for panel in PANELS if panel.ACTIONS),
    Section("dialogs", DIALOG_ACTIONS),
    Section(PAGER, PAGER_ACTIONS),
    Section(ALARMS, ALARM_ACTIONS),
    Section(PREEMPTED, PREEMPTED_ACTIONS),
)
"""In the order of the help."""
