"""The verbs of ``kvtop ctl``: this one list is all that a new one is entered in.

Each says how it is typed and which fields its command has (`kvtop.protocol.commands`). Nothing heavy is imported here: the
help is made from this list.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Fields = Mapping[str, int | str]


def _nothing(_parser: argparse.ArgumentParser) -> None: ...


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb.

    Attributes:
        name: As it is typed.
        help: What it does, in a line.
        arguments: Adds what is typed behind it.
        fields: The command's fields, from what was typed.
    """

    name: str
    help: str
    arguments: Callable[[argparse.ArgumentParser], object] = _nothing
    fields: Callable[[argparse.Namespace], Fields] = lambda _options: {}

    @property
    def type(self) -> str:
        """The command's ``type`` on the wire."""
        return self.name.replace("-", "_")


def _changes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "changes", nargs="+", metavar="AXIS=VALUE", help="as in capacity=max_utilization; policies lists them all"
    )
    parser.add_argument(
        "--transition",
        choices=("drain", "preempt"),
        default="drain",
        help="where the present state breaks the new rule: admit nothing until it fits (drain, the default), "
        "or preempt down to what fits",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would happen, change nothing")


def _a_request(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("request", help="number or id")


def _request(options: argparse.Namespace) -> Fields:
    text: str = options.request
    return {"request": int(text) if text.isdecimal() and len(text) <= 18 else text}


def _a_range(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "range",
        nargs="?",
        type=_block_range,
        metavar="FIRST:END",
        help="free these blocks, END excluded (default: the top)",
    )


def _block_range(text: str) -> tuple[int, int]:
    first, colon, end = text.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and len(text) < 40 and int(first) < int(end)):
        raise argparse.ArgumentTypeError(f"{text!r} is not FIRST:END, two block numbers, the second larger")
    return int(first), int(end)


def _range(options: argparse.Namespace) -> Fields:
    return {} if options.range is None else {"first": options.range[0], "end": options.range[1]}


VERBS: tuple[Verb, ...] = (
    # The first two need what the engine says of its axes (`kvtop.commands.ctl`).
    Verb("set", "change policy axes together", _changes),
    Verb("policies", "list the axes, their choices and what holds now"),
    Verb("abort", "end one request", _a_request, _request),
    Verb("preempt", "preempt one running request; it is queued again", _a_request, _request),
    Verb("pause", "stop scheduling; KV stays in place"),
    Verb("resume", "schedule again"),
    Verb("dump", "write what the flight recorder holds, the last minutes, to a file; says its path"),
    Verb("reset-prefix-cache", "forget the content of all cached blocks"),
    Verb("pin", "never evict the cached blocks of a request", _a_request, _request),
    Verb("unpin", "let the pinned blocks of a request be evicted", _a_request, _request),
    Verb("compact", "move blocks together, so that the rest of the pool is free", _a_range, _range),
    Verb("keyframe", "send every viewer a keyframe"),
)
"""In the order of the help."""
