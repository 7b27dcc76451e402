"""What can be typed, as data: completion and the manual are made of it, as the help is of the parser it is read from."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["none", "words", "files", "engines", "profiles", "other"]

_KINDS: dict[str, Kind] = {
    "FILE": "files",
    "FILE|-": "files",
    "FILE[@WHEN]": "files",
    "PATH": "files",
    "A": "files",
    "NAME|SOCKET": "engines",
    "FILE|NAME|SOCKET": "files",
    "URL|NAME": "engines",
    "[LABEL=]URL|NAME": "engines",
}
"""What a metavariable stands for."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An option, or an argument that has none.

    Attributes:
        flags: ``-e``, ``--engine``; none: it is known by its place.
        help: In a sentence, as the help has it.
        metavar: What stands for its values; empty where it takes none.
        count: How many values an option takes.
        kind: What can be proposed for them; ``words``: those.
    """

    flags: tuple[str, ...]
    help: str
    metavar: str = ""
    count: int = 0
    kind: Kind = "none"
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Arguments under a title of the help."""

    title: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """``path``: the words that lead to it, ``()`` being the program; ``help``: one line for the list of commands."""

    path: tuple[str, ...]
    help: str
    usage: str
    description: str
    epilog: str
    groups: tuple[Group, ...]
    commands: tuple["Command", ...] = field(default=())

    @property
    def options(self) -> list[Argument]:
        return [argument for group in self.groups for argument in group.arguments if argument.flags]

    @property
    def places(self) -> list[Argument]:
        """What is known by its place."""
        return [argument for group in self.groups for argument in group.arguments if not argument.flags]

    def all(self) -> Iterator["Command"]:
        """It and all below it, from the top."""
        yield self
        for command in self.commands:
            yield from command.all()


def tree_of(parser: argparse.ArgumentParser, path: tuple[str, ...] = (), help: str = "") -> Command:
    """Reads a parser and those of its commands."""
    groups, commands = [], []
    for group in parser._action_groups:
        arguments = []
        for action in group._group_actions:
            if isinstance(action, argparse._SubParsersAction):
                helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
                commands += [tree_of(inner, (*path, name), helps[name]) for name, inner in action.choices.items()]
            elif action.help != argparse.SUPPRESS:
                arguments.append(_argument(parser, action))
        if arguments:
            groups.append(Group(group.title or "", tuple(arguments)))
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    return Command(path, help, usage, parser.description or "", parser.epilog or "", tuple(groups), tuple(commands))


def _argument(parser: argparse.ArgumentParser, action: argparse.Action) -> Argument:
    help = (parser._get_formatter()._expand_help(action) if action.help else "").replace("\n", " ")
    flags = tuple(action.option_strings)
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
        return Argument(flags, help)
    chosen = action.choices if action.choices is not None else getattr(action, "completions", ())
    words = tuple(map(str, chosen))
    named = (
        action.metavar if action.metavar is not None else "{" + ",".join(words) + "}" if words else action.dest.upper()
    )
    metavar = " ".join(named) if isinstance(named, tuple) else named
    kind: Kind = "words" if words else getattr(action, "kind", _KINDS.get(metavar.split()[0], "other"))
    count = action.nargs if isinstance(action.nargs, int) else 1
    return Argument(flags, help, metavar, count, kind, words)
