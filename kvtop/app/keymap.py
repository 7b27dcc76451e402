"""Other keys for the same actions: a mapping, as a configuration file has it, checked and put in force everywhere.

``{"requests.abort": "d", "everywhere.pause-view": ["p", "f5"]}`` gives an action other keys; it loses those it had. Keys
are single characters or Textual's names (``ctrl+x``, ``f5``, ``pagedown``). ``ctrl+c`` and ``ctrl+z`` stay.
"""

import difflib
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from textual.keys import KEY_NAME_REPLACEMENTS, Keys, key_to_character

from kvtop.app.keys import EVERYWHERE_NAME, SECTIONS
from kvtop.errors import UserError, one_line
from kvtop.term.keys import FIXED, Action, Actions, Section, key_of
from panels.dialogs.alarms_screen import ALARMS
from panels.dialogs.pager import PAGER
from panels.dialogs.preempted_screen import PREEMPTED

_NAMED = {key.value for key in Keys} | set(KEY_NAME_REPLACEMENTS.values())
_MODIFIERS = {"ctrl", "shift", "alt", "meta", "super", "hyper"}
_SHOWN = {
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "enter": "Enter",
    "escape": "Esc",
    "space": "Space",
    "tab": "Tab",
    "home": "Home",
    "end": "End",
}
_ALONE = (EVERYWHERE_NAME, "dialogs", PAGER, ALARMS, PREEMPTED)
"""Where the keys that work everywhere are not besides: while one is open, its own come first."""


class KeymapError(UserError):
    """A mapping that cannot be: ``action``: the id of that whose keys are at fault, of two the one that is mapped last;
    ``what`` is wrong, in a sentence."""

    def __init__(self, action: str, what: str) -> None:
        self.action, self.what = one_line(action), one_line(what)
        super().__init__(f"{self.action}: {self.what}", code=2)


@dataclass(frozen=True)
class Keymap:
    """``sections``: every action with the keys it has; ``bindings``: what was changed, for `textual.app.App.set_keymap`."""

    sections: tuple[Section, ...] = SECTIONS
    bindings: Mapping[str, str] = field(default_factory=dict)

    def actions(self, place: str) -> Actions:
        """Of the section of that name; none where there is no such."""
        return next((section.actions for section in self.sections if section.name == place), ())

    def key(self, place: str, name: str) -> str:
        """How the key of an action is spelled in a sentence."""
        return key_of(self.actions(place), name)


DEFAULT = Keymap()


def keymap(mapping: Mapping[str, object]) -> Keymap:
    """Checks ``mapping``: action id -> key, or keys as a list or separated by commas. Raises `KeymapError`."""
    known = {action.id(place): (place, action) for place, actions in SECTIONS for action in actions}
    wanted: dict[str, tuple[str, ...]] = {}
    for id, value in mapping.items():
        if id not in known:
            near = difflib.get_close_matches(str(id), known, 1)
            raise KeymapError(str(id), "no such action" + (f"; did you mean {near[0]}?" if near else ""))
        wanted[id] = _keys(id, value)
    sections = tuple(
        Section(place, tuple(_with_keys(action, wanted.get(action.id(place))) for action in actions))
        for place, actions in SECTIONS
    )
    _check_conflicts(sections, wanted)
    return Keymap(sections, {id: ",".join(keys) for id, keys in wanted.items()})


def _keys(id: str, value: object) -> tuple[str, ...]:
    parts: Sequence[object] = value.split(",") if isinstance(value, str) and value != "," else value  # type: ignore[assignment]
    if isinstance(value, str) and value == ",":
        parts = [value]
    if not isinstance(parts, list | tuple) or not parts:
        raise KeymapError(id, f"needs a key or a list of keys, not {value!r}")
    keys = tuple(_key(id, part) for part in parts)
    if len(set(keys)) < len(keys):
        raise KeymapError(id, f"has the same key twice: {value!r}")
    return keys


def _key(id: str, part: object) -> str:
    """A key by its one name."""
    if not isinstance(part, str):
        raise KeymapError(id, f"{part!r} is no key")
    text = part if part == " " else part.strip()
    if len(text) == 1:
        if not text.isprintable():
            raise KeymapError(id, f"{text!r} is no key")
        return _name_of(text)
    *modifiers, name = text.split("+")
    if not set(modifiers) <= _MODIFIERS or not (text in _NAMED or name in _NAMED or _is_character(name)):
        raise KeymapError(id, f"there is no key {text!r}")
    if text in FIXED:
        raise KeymapError(id, f"{text} always does what it does")
    return text


def _name_of(character: str) -> str:
    if character.isalnum():
        return character
    if character == " ":
        return "space"
    name = unicodedata.name(character, character).lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


def _is_character(name: str) -> bool:
    return len(name) == 1 or (key_to_character(name) or "") != ""


def _with_keys(action: Action, keys: tuple[str, ...] | None) -> Action:
    if keys is None:
        return action
    kept = tuple(key for key in action.keys if key in FIXED)
    return replace(action, keys=keys + kept, shown=" ".join(shown(key) for key in keys + kept))


def shown(key: str) -> str:
    """How a key is spelled on the screen."""
    *modifiers, name = key.split("+")
    return "+".join([*modifiers, _SHOWN.get(name) or key_to_character(name) or name])


def written_keys() -> Iterator[tuple[str, list[str], str]]:
    """Of every action its id, the keys it has as a mapping would name them, and what it does."""
    for place, actions in SECTIONS:
        for action in actions:
            keys = [_written(key) for key in action.keys if key not in FIXED]
            if keys:
                yield action.id(place), keys, action.help


def _written(key: str) -> str:
    character = key_to_character(key) or ""
    return character if len(character) == 1 and character.isprintable() and character != " " else key


def _check_conflicts(sections: tuple[Section, ...], wanted: Collection[str]) -> None:
    order = list(wanted)
    everywhere = next(section for section in sections if section.name == EVERYWHERE_NAME)
    for section in sections:
        shared = [] if section.name in _ALONE else [everywhere]
        meaning: dict[str, str] = {}
        for place, actions in [*shared, section]:
            for action in actions:
                for key in action.keys:
                    other = meaning.setdefault(key, action.id(place))
                    if other != action.id(place):
                        raise KeymapError(
                            max((other, action.id(place)), key=lambda id: order.index(id) if id in order else -1),
                            f"{shown(key)} would mean both {other} and {action.id(place)}; give one another key",
                        )
