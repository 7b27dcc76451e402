"""The options of commands with a screen, made from the list of settings, and what holds in the end."""

import argparse
import os
from collections.abc import Callable, Mapping

from kvtop.settings.definitions import DEFINITIONS, PROFILE, Definition, Value
from kvtop.settings.file import Given, SettingsFile, default_path, read_file
from kvtop.settings.resolve import Chosen, choose

FILE_VARIABLE = "KVTOP_CONFIG"

SETTINGS_TITLE = "settings (all of them: docs/config.md, kvtop config)"
"""Of the group of options in each help."""


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Options that were not given leave nothing in the namespace, so that they may stand before or behind a command."""
    group = parser.add_argument_group(SETTINGS_TITLE)
    for definition in DEFINITIONS:
        if definition.option:
            _add(group, definition)
    files = group.add_mutually_exclusive_group()
    files.add_argument(
        "--config",
        metavar="FILE",
        default=argparse.SUPPRESS,
        help=f"read settings from there (default: ${FILE_VARIABLE}, else kvtop/config.toml in $XDG_CONFIG_HOME or ~/.config)",
    )
    files.add_argument("--no-config", action="store_true", default=argparse.SUPPRESS, help="read no file of settings")


def chosen(options: argparse.Namespace, env: Mapping[str, str] = os.environ) -> Chosen:
    """What holds. Raises `UserError`, exit code 2."""
    return choose(env, _given(options), settings_file(options, env))


def settings_file(options: argparse.Namespace, env: Mapping[str, str]) -> SettingsFile | None:
    """What was read; None: there is no file, or none is wanted. Raises `UserError`, exit code 2."""
    if getattr(options, "no_config", False):
        return None
    named = getattr(options, "config", None) or env.get(FILE_VARIABLE)
    if named:
        return read_file(named)
    usual = default_path(env)
    return None if usual is None else read_file(usual, must_exist=False)


def _given(options: argparse.Namespace) -> dict[str, Given]:
    found = {}
    for definition in DEFINITIONS:
        value = getattr(options, _dest(definition), None)
        if isinstance(value, list):  # given several times
            value = tuple(text for one in value for text in one)
        if value is not None:
            found[definition.name] = Given(value, definition.option)
    return found


def _dest(definition: Definition) -> str:
    return f"setting_{definition.field}"


def _type(definition: Definition) -> Callable[[str], Value]:
    def typed(text: str) -> Value:
        try:
            return definition.typed(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return typed


def _add(group: argparse._ArgumentGroup, definition: Definition) -> None:
    default = definition.unset or definition.spoken(definition.default)
    told = definition.meaning.replace("`", "").replace("%", "%%")
    among = f": {definition.takes}" if definition.kind == "choice" else ""
    one = group.add_mutually_exclusive_group()
    if definition.flag:
        one.add_argument(
            definition.option,
            dest=_dest(definition),
            action=argparse.BooleanOptionalAction,
            default=argparse.SUPPRESS,
            help=f"{told} (default: {default})",
        )
    else:
        argument = one.add_argument(
            definition.option,
            dest=_dest(definition),
            type=_type(definition),
            action="append" if definition.kind == "texts" else "store",
            metavar=definition.metavar or definition.name.upper(),
            default=argparse.SUPPRESS,
            help=f"{told}{among} (default: {default})",
        )
        argument.completions = definition.words  # type: ignore[attr-defined]
        if definition is PROFILE:
            argument.kind = "profiles"  # type: ignore[attr-defined]
    for option, value in definition.shorthands.items():
        one.add_argument(
            option,
            dest=_dest(definition),
            action="store_const",
            const=value,
            default=argparse.SUPPRESS,
            help=f"the same as {definition.option} {value}",
        )
