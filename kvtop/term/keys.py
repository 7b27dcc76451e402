"""Every key of the screen, once: bindings, footer and help are all made from this list.

An action is named as the method ``action_NAME`` of what handles it: the app for `Where.APP`, else the panel of
that name. Only keys that plain terminals and tmux can send are used.
"""

from dataclasses import dataclass
from enum import Enum

from textual.binding import Binding, BindingType


class Where(Enum):
    """Which part of the screen must have the focus for a key to work."""

    APP = "everywhere"
    MAP = "block map"
    REQUESTS = "requests"
    QUEUE = "queue"
    EVENTS = "events"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing the user can do. ``keys`` are Textual's names, ``shown`` is how the help spells them."""

    name: str
    keys: tuple[str, ...]
    shown: str
    help: str
    where: Where = Where.APP
    footer: str = ""  # a word or two; empty: not in the footer

    @property
    def footer_key(self) -> str:
        """The first spelling, for a narrow line."""
        return self.shown.split()[0]


def _scrolling(where: Where, what: str, footer: str = "") -> tuple[Action, ...]:
    return (
        Action("down", ("j", "down"), "j ↓", f"next {what}", where, footer),
        Action("up", ("k", "up"), "k ↑", f"previous {what}", where),
        Action("page_down", ("pagedown", "ctrl+f"), "PgDn ctrl+f", "one page down", where),
        Action("page_up", ("pageup", "ctrl+b"), "PgUp ctrl+b", "one page up", where),
        Action("top", ("g", "home"), "g Home", f"first {what}", where),
        Action("bottom", ("G", "end"), "G End", f"last {what}", where),
    )


ACTIONS: tuple[Action, ...] = (
    Action("help", ("question_mark",), "?", "this help", footer="help"),
    Action("quit", ("q", "ctrl+c"), "q ctrl+c", "leave; in a dialog or the help: close it", footer="quit"),
    Action("policy", ("P",), "P", "policies: what is set, what a change would do, change it", footer="policy"),
    Action(
        "pause_view",
        ("p", "space"),
        "p Space",
        "hold the view still and let it go; data keeps coming in",
        footer="hold",
    ),
    Action("snapshot", ("s",), "s", "write a snapshot (JSON and SVG) into the current folder", footer="snapshot"),
    Action("colour", ("c",), "c", "colour the map by state, owner, recency, sharing", footer="colour"),
    Action("filter", ("slash",), "/", "show only requests whose id, class or state contains a text", footer="filter"),
    Action("pause_engine", ("E",), "E", "pause or resume the engine (asks first)"),
    Action("reset_cache", ("R",), "R", "make the prefix cache forget everything (asks first)"),
    Action("compact", ("C",), "C", "compact the pool: move blocks together (asks first)"),
    Action("focus_panel('map')", ("1",), "1", "go to the block map"),
    Action("focus_panel('requests')", ("2",), "2", "go to the requests"),
    Action("focus_panel('queue')", ("3",), "3", "go to the queue"),
    Action("focus_panel('events')", ("4",), "4", "go to the events"),
    Action(
        "focus_panel('tiers')",
        ("5",),
        "5",
        "go to the tiers; on a small screen they take the queue's place, 3 brings it back",
    ),
    Action("next_tier", ("t",), "t", "show the next tier on the map: device, host, disk"),
    Action("focus_next", ("tab",), "Tab", "go to the next panel"),
    Action("focus_previous", ("shift+tab",), "shift+Tab", "go to the previous panel"),
    Action("redraw", ("ctrl+l",), "ctrl+l", "draw the whole screen anew"),
    Action("left", ("h", "left"), "h ←", "one cell to the left", Where.MAP),
    Action("down", ("j", "down"), "j ↓", "one row down", Where.MAP),
    Action("up", ("k", "up"), "k ↑", "one row up", Where.MAP),
    Action("right", ("l", "right"), "l →", "one cell to the right", Where.MAP),
    Action("top", ("g", "home"), "g Home", "first block", Where.MAP),
    Action("bottom", ("G", "end"), "G End", "last block", Where.MAP),
    Action("open", ("enter",), "Enter", "select the request that owns the block", Where.MAP, "owner"),
    Action("open", ("enter",), "Enter", "block table of the selected request", Where.REQUESTS, "table"),
    Action("sort", ("o",), "o", "sort by the next column", Where.REQUESTS, "sort"),
    Action("reverse", ("O",), "O", "reverse the order", Where.REQUESTS),
    Action("abort", ("x",), "x", "abort the selected request (asks first)", Where.REQUESTS, "abort"),
    Action("preempt", ("X",), "X", "preempt the selected request (asks first)", Where.REQUESTS, "preempt"),
    # p is taken everywhere; i and u are letters of pIn and Unpin and lie side by side.
    Action(
        "pin", ("i",), "i", "pin: never evict the selected request's cached blocks (asks first)", Where.REQUESTS, "pin"
    ),
    Action("unpin", ("u",), "u", "unpin the selected request's blocks (asks first)", Where.REQUESTS, "unpin"),
    Action("clear", ("escape",), "Esc", "clear the filter", Where.REQUESTS),
    *_scrolling(Where.REQUESTS, "request"),
    *_scrolling(Where.QUEUE, "waiting request"),
    Action("follow", ("f",), "f", "follow: stay at the newest event", Where.EVENTS, "follow"),
    Action(
        "kinds",
        ("v",),
        "v",
        "show all events, or only notable ones (no admissions, ends, evictions, copies)",
        Where.EVENTS,
        "all/notable",
    ),
    *_scrolling(Where.EVENTS, "event"),
)


def actions(where: Where) -> list[Action]:
    """The actions of one place, in the order of the help."""
    return [action for action in ACTIONS if action.where is where]


def bindings(where: Where) -> list[BindingType]:
    """Textual's bindings for one place."""
    return [
        # Textual's screens use ctrl+c to copy; here it leaves, as in every other such tool, from dialogs too.
        Binding(key, action.name, action.help, show=False, priority=key == "ctrl+c")
        for action in actions(where)
        for key in action.keys
    ]


def footer_actions(where: Where) -> list[Action]:
    """What the footer names while ``where`` has the focus, the most useful first."""
    everywhere = [action for action in actions(Where.APP) if action.footer]
    local = [action for action in actions(where) if action.footer] if where is not Where.APP else []
    return everywhere[:2] + local[:4] + everywhere[2:] + local[4:]
