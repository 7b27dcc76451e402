"""What a soak tells an engine to do: every kind of command and every policy axis in turn, to requests that are there."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvtop.protocol import (
    Abort,
    Command,
    Compact,
    Dump,
    Pause,
    Pin,
    PolicyAxis,
    PolicyValue,
    Preempt,
    RequestKeyframe,
    ResetPrefixCache,
    Resume,
    SetPolicy,
    Unpin,
)
from kvtop.state import EngineState

NUMBERS: Final[Mapping[str, tuple[PolicyValue, ...]]] = {
    "resume_gate": (0.5, 0.9, 1.0),
    "preempt_bound": (0, 1, 3),
    "pin_limit": (0.1, 0.3, 0.6),
    "compaction_moves": (1, 8, 64),
    "max_running": (2, 8, 64),
    "token_budget": (64, 256, 2048),
    "watermark": (0.0, 0.05, 0.2),
}
"""Values of the axes that take numbers: each says something else, none brings the engine to a standstill."""

FIRST: Final = 3
"""Of those who could be meant, so many are."""

WHOLE_POOL: Final = 256
"""Blocks; of the pool, so many are the most that a range to be emptied begins in."""


@dataclass(frozen=True)
class Sight:
    """What a viewer sees of an engine: the ``policies`` in force, and requests by num."""

    policies: Mapping[str, PolicyValue] = field(default_factory=dict)
    running: Sequence[int] = ()
    live: Sequence[int] = ()
    shown: Sequence[int] = ()
    """Live ones, and finished ones that are remembered."""


def sight_of(state: EngineState) -> Sight:
    """Those first who have most before them: they will be there when the command comes. Of ``shown`` those who have
    computed most: of them there is something to keep."""
    rows = [] if state.requests is None else list(state.requests.values())
    rows.sort(key=lambda row: (row.output_tokens or 0) - (row.max_tokens or 0))
    return Sight(
        state.policy,
        [row.num for row in rows if row.state in ("prefill", "decode")],
        [row.num for row in rows if row.state != "finished"],
        [row.num for row in sorted(rows, key=lambda row: -(row.computed_tokens or 0))],
    )


def values_of(axis: PolicyAxis) -> tuple[PolicyValue, ...]:
    """What it is set to; nothing where nobody has said what makes sense."""
    if axis.kind == "choice":
        return tuple(axis.choices)
    return (True, False) if axis.kind == "bool" else NUMBERS.get(axis.name, ())


class Deck:
    """One card for every kind of command and every axis, shuffled; drawn one by one, then shuffled anew. A card that says
    nothing now (nobody runs who could be preempted) is left for later."""

    def __init__(self, axes: Sequence[PolicyAxis], draw: random.Random) -> None:
        self._axes = {axis.name: axis for axis in axes}
        self._draw = draw
        self._left: list[str] = []
        self._pinned: set[int | str] = set()
        self._paused = False
        self._number = 0
        plain = (
            "set_policy, dry run",
            "preempt",
            "abort",
            "pin",
            "unpin",
            "pause",
            "resume",
            "compact",
            "compact a range",
        )
        self.kinds: Collection[str] = (
            *plain, "reset_prefix_cache", "keyframe", "dump", *(f"set_policy {name}" for name in self._axes)
        )  # fmt: skip

    def draw(self, sight: Sight) -> tuple[str, Command] | None:
        """The next one that can be done, and its kind; None where there is none."""
        if self._paused:
            return "resume", Resume(id=self._id())
        for _ in range(2):
            for place, kind in enumerate(self._left):
                command = self._command(kind, sight)
                if command is not None:
                    del self._left[place]
                    return kind, command
            self._left = [kind for kind in self.kinds if kind != "resume"]
            self._draw.shuffle(self._left)
        return None

    def done(self, command: Command) -> None:
        """The engine has done it."""
        if isinstance(command, Pause | Resume):
            self._paused = isinstance(command, Pause)
        elif isinstance(command, Pin):
            self._pinned.add(command.request)
        elif isinstance(command, Unpin):
            self._pinned.discard(command.request)
        elif isinstance(command, ResetPrefixCache):
            self._pinned.clear()

    def undo(self) -> list[Command]:
        """What has to be told it, so that nothing stays as nobody wants it: the engine paused, blocks pinned."""
        resume: list[Command] = [Resume(id=self._id())] if self._paused else []
        return [*resume, *(Unpin(id=self._id(), request=each) for each in sorted(self._pinned, key=str))]

    def _id(self) -> str:
        self._number += 1
        return f"soak-{self._number}"

    def _command(self, kind: str, sight: Sight) -> Command | None:
        name, draw = self._id(), self._draw
        axis = self._axes.get(kind.removeprefix("set_policy "))
        if axis is not None:
            return self._change(axis, sight)
        whom = {
            "preempt": sight.running,
            "abort": sight.live,
            "pin": sight.shown,
            "unpin": sorted(self._pinned, key=str),
        }
        if kind in whom:
            if not whom[kind]:
                return None
            make = {"preempt": Preempt, "abort": Abort, "pin": Pin, "unpin": Unpin}[kind]
            return make(id=name, request=draw.choice(whom[kind][:FIRST]))
        if kind == "set_policy, dry run":
            change = self._change(draw.choice(list(self._axes.values())), sight)
            return None if change is None else change.model_copy(update={"dry_run": True})
        if kind == "compact a range":
            first = draw.randrange(WHOLE_POOL // 2)
            return Compact(id=name, first=first, end=first + WHOLE_POOL // 4)
        simple: dict[str, type[Command]] = {
            "pause": Pause,
            "compact": Compact,
            "reset_prefix_cache": ResetPrefixCache,
            "keyframe": RequestKeyframe,
            "dump": Dump,
        }
        return simple[kind](id=name)

    def _change(self, axis: PolicyAxis, sight: Sight) -> SetPolicy | None:
        """To a value that is not in force."""
        others = [value for value in values_of(axis) if value != sight.policies.get(axis.name)]
        if not others:
            return None
        how = self._draw.choice(("preempt", "drain"))
        return SetPolicy(id=self._id(), changes={axis.name: self._draw.choice(others)}, transition=how)
