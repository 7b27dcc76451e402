"""Keys as data: bindings, footer, help and the manual are all made from the same actions.

An action is named as the method ``action_NAME`` of what handles it: a panel for its own (`ACTIONS` in its file), else
the engine's screen or the app (`kvtop.app.keys`). Only keys that plain terminals and tmux can send are used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from textual.binding import Binding, BindingType


@dataclass(frozen=True, slots=True)
class Action:
    """One thing the user can do. ``keys`` are Textual's names, ``shown`` is how the help spells them."""

    name: str
    keys: tuple[str, ...]
    shown: str
    help: str
    footer: str = ""  # a word or two; empty: not in the footer

    def id(self, place: str) -> str:
        """What a keymap calls it: ``requests.abort``."""
        return f"{place}.{self.name}".translate(_ID)

    @property
    def footer_key(self) -> str:
        """The first spelling, for a narrow line."""
        return self.shown.split()[0]


_ID = str.maketrans({" ": "-", "_": "-", "(": "-", "'": None, ")": None})

Actions = Sequence[Action]


class Section(NamedTuple):
    """The actions of one place: ``name`` says which part of the screen must have the focus for them to work."""

    name: str
    actions: Actions


def scrolling(what: str) -> tuple[Action, ...]:
    """The actions of a panel in which one goes through a list of ``what``."""
    return (
        Action("down", ("j", "down"), "j ↓", f"next {what}"),
        Action("up", ("k", "up"), "k ↑", f"previous {what}"),
        Action("page_down", ("pagedown", "ctrl+f"), "PgDn ctrl+f", "one page down"),
        Action("page_up", ("pageup", "ctrl+b"), "PgUp ctrl+b", "one page up"),
        Action("top", ("g", "home"), "g Home", f"first {what}"),
        Action("bottom", ("G", "end"), "G End", f"last {what}"),
    )


FIXED = ("ctrl+c", "ctrl+z")
"""Textual's screens copy with ctrl+c; here it leaves, as in every other such tool, from dialogs too. Neither waits for
anything that has the focus, and no keymap takes them away."""


def bindings(actions: Actions, place: str) -> list[BindingType]:
    """Textual's bindings for the ``actions`` of a section, which a keymap may replace by their ids."""
    return [
        Binding(
            key,
            action.name,
            action.help,
            show=False,
            priority=key in FIXED,
            id=None if key in FIXED else action.id(place),
        )
        for action in actions
        for key in action.keys
    ]


def key_of(actions: Actions, name: str) -> str:
    """How the key of the action of that name is spelled in a sentence. Raises KeyError where there is no such action."""
    for action in actions:
        if action.name == name:
            return action.footer_key
    raise KeyError(name)


def footer_actions(everywhere: Actions, local: Actions) -> list[Action]:
    """What the footer names while the place of ``local`` has the focus, the most useful first."""
    always, here = ([action for action in actions if action.footer] for actions in (everywhere, local))
    return always[:2] + here[:4] + always[2:] + here[4:]
