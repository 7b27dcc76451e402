"""``kvtop config``: what is set and by what; a file of settings checked, or one to begin with."""

import argparse
import json
import os
import re

from kvtop.commands.preferences import preferences
from kvtop.commands.settings_options import FILE_VARIABLE, chosen, settings_file
from kvtop.commands.table import table
from kvtop.errors import UserError, one_line
from kvtop.settings.definitions import DEFINITIONS, quoted
from kvtop.settings.document import example
from kvtop.settings.file import Given, default_path, read_file
from kvtop.settings.resolve import Chosen, choose

SCHEMA = "kvtop.config/1"


def run(options: argparse.Namespace) -> int:
    if options.example:
        from kvtop.app.keymap import written_keys

        print(example(written_keys()), end="")
    elif options.profiles:
        print("".join(f"{name}\n" for name in profiles(options)), end="")
    elif options.check is not None:
        check(options.check)
        print(f"{one_line(options.check)}: as it should be")
    else:
        choice = chosen(options)
        preferences(choice)  # the keys of actions are checked there
        print(json.dumps(_document(choice), indent=1) if options.json else _shown(choice))
    return 0


def profiles(options: argparse.Namespace) -> list[str]:
    """For completion: names that are one word in every shell. What is wrong is nothing to be told here."""
    try:
        file = settings_file(options, os.environ)
    except UserError:
        return []
    return [name for name in (file.profiles if file is not None else ()) if re.fullmatch(r"[\w.][\w.-]*", name)]


def check(path: str) -> None:
    """Raises `UserError` for the first thing that is wrong in a file, with its line."""
    try:
        file = read_file(path)
        for profile in (None, *(file.profiles if file is not None else ())):
            named = {} if profile is None else {"profile": Given(profile, path)}
            preferences(choose({}, named, file))
    except UserError as error:
        raise UserError(error.message, code=error.code) from None


def _document(choice: Chosen) -> dict[str, object]:
    settings = {
        definition.name: {"value": getattr(choice.settings, definition.field), "from": choice.places[definition.name]}
        for definition in DEFINITIONS
    }
    keys = {action: {"value": keys, "from": choice.key_places[action]} for action, keys in choice.settings.keys.items()}
    return {"schema": SCHEMA, "file": choice.path, "settings": settings, "keys": keys}


def _shown(choice: Chosen) -> str:
    rows = []
    for definition in DEFINITIONS:
        value = getattr(choice.settings, definition.field)
        shown = definition.unset if value is None else definition.shown(value)
        rows.append([definition.name, one_line(shown, 60), one_line(choice.places[definition.name])])
    for action, keys in choice.settings.keys.items():
        words = keys if isinstance(keys, list) else [keys]
        rows.append([f"keys.{action}", " ".join(quoted(str(word)) for word in words), choice.key_places[action]])
    return f"{_about(choice)}\n{table(['SETTING', 'VALUE', 'FROM'], rows)}"


def _about(choice: Chosen) -> str:
    if choice.path is not None:
        return f"file: {one_line(choice.path)}"
    usual = default_path(os.environ)
    return (
        f"file: none; it would be {one_line(usual)}"
        if usual
        else f"file: none, nor a home folder; see ${FILE_VARIABLE}"
    )
