"""Which value of a setting holds: the command line goes before the environment, that before the profile, that before the
file's top, that before the default."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvtop.errors import UserError, one_line
from kvtop.settings.definitions import DEFINITIONS, PROFILE, Definition, Settings, Value
from kvtop.settings.file import Given, GivenKey, Layer, SettingsFile, wrong

DEFAULT = "default"


@dataclass(frozen=True)
class Chosen:
    """What holds, and why.

    Attributes:
        settings: The values.
        places: Where each is from, by its name: ``default``, ``FILE:LINE``, a variable, an option.
        key_places: Where the keys of each action in ``settings.keys`` are from.
        path: The file that was read; None: none.
    """

    settings: Settings = field(default_factory=Settings)
    places: Mapping[str, str] = field(default_factory=dict)
    key_places: Mapping[str, str] = field(default_factory=dict)
    path: str | None = None

    def wrong(self, name: str, what: str) -> UserError:
        """The complaint about the value of a setting, with its place."""
        place = self.places.get(name, DEFAULT)
        return wrong(place, f"{name}: {what}", "all settings: kvtop config --show")

    def wrong_key(self, action: str, what: str) -> UserError:
        """The complaint about the keys of an action, with their place."""
        return wrong(self.key_places.get(action, "keys"), f"keys.{action}: {what}")


def choose(env: Mapping[str, str], options: Mapping[str, Given], file: SettingsFile | None) -> Chosen:
    """Puts together what ``options`` (by the setting's name, from the command line), ``env`` and ``file`` say. Raises
    `UserError`, exit code 2."""
    top = Layer() if file is None else file.top
    outer = {**top.values, **_environment(env), **options}
    profile = _profile(outer.get(PROFILE.name), file)
    given = {**top.values, **profile.values, **_environment(env), **options}
    earlier = {action: keys for action, keys in top.keys.items() if action not in profile.keys}
    keys: dict[str, GivenKey] = {**earlier, **profile.keys}
    values: dict[str, Any] = {d.field: given[d.name].value for d in DEFINITIONS if d.name in given}
    return Chosen(
        Settings(**values, keys={action: given_key.keys for action, given_key in keys.items()}),
        {d.name: given[d.name].place if d.name in given else DEFAULT for d in DEFINITIONS},
        {action: given_key.place for action, given_key in keys.items()},
        None if file is None else file.path,
    )


def _environment(env: Mapping[str, str]) -> dict[str, Given]:
    found = {}
    for definition in DEFINITIONS:
        variable, text = _told(definition, env)
        if text:
            found[definition.name] = Given(_typed(definition, text, variable), variable)
    return found


def _told(definition: Definition, env: Mapping[str, str]) -> tuple[str, str]:
    """The variable that speaks of a setting, and what it says; an empty one says nothing."""
    if definition.variable and (text := env.get(definition.variable, "").strip()):
        return definition.variable, text
    return next(((name, value) for name, value in definition.overruled.items() if env.get(name)), ("", ""))


def _typed(definition: Definition, text: str, place: str) -> Value:
    try:
        return definition.typed(text)
    except ValueError as error:
        raise wrong(place, str(error), "") from None


def _profile(named: Given | None, file: SettingsFile | None) -> Layer:
    if named is None:
        return Layer()
    name = str(named.value)
    profiles = {} if file is None else file.profiles
    if name in profiles:
        return profiles[name]
    what = f"there is no profile {one_line(name, 64)!r}"
    if file is None:
        raise wrong(named.place, f"{what}: no file of settings was read", "where it would be: kvtop config --show")
    near = difflib.get_close_matches(name, profiles, 1)
    if near:
        what += f"; did you mean {near[0]}?"
    elif profiles:
        what += f" in {file.path}; there are {', '.join(profiles)}"
    else:
        what += f" in {file.path}, nor any other: [profiles.{one_line(name, 64)}] would begin it"
    raise wrong(named.place, what, "all settings: kvtop config --show")
