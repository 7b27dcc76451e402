"""The policy dialog without its terminal: which axis, which value, what it would do, and what it did.

Four stages: choose an axis, choose its value, read what the engine says the change would do and confirm it,
read what happened. Nothing is changed before `apply`, and nothing is shown as changed before the engine said so.
Meanwhile the dialog follows what others change, and the engine's restarts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kvtop.protocol import PolicyAxis, PolicyValue, SetPolicy
from kvtop.state import EngineState
from kvtop.views import format
from kvtop.views.answer import Answer, outcome
from kvtop.views.rows import Role
from panels.dialogs.confirm_form import Paragraph, answer_paragraphs, unreachable

TRANSITIONS = {
    "drain": "admit nobody until what runs fits the new rule",
    "preempt": "preempt at once, down to what fits; the work is computed again",
}


class Stage(Enum):
    AXIS = "axis"
    VALUE = "value"
    CONFIRM = "confirm"
    DONE = "done"


def spoken(value: PolicyValue | None) -> str:
    """A policy value as operators say it."""
    return "not exposed" if value is None else format.value(value)


@dataclass
class PolicyForm:
    """State of the dialog. What returns a command wants it sent, and its answer given to `answered`.

    ``run``: which life of the engine the axes and values are of.
    """

    axes: Sequence[PolicyAxis]
    policy: Mapping[str, PolicyValue]
    run: str | None = None
    read_only: str | None = None
    stage: Stage = Stage.AXIS
    axis: PolicyAxis | None = None
    value: PolicyValue | None = None
    note: str = ""
    transition: str = "drain"
    preview: Answer | None = None
    applying: bool = False
    result: Answer | None = None
    unreachable: str | None = None
    sent: int = 0
    _waits_for: str = field(default="", repr=False)
    _seen: dict[str, PolicyValue] = field(default_factory=dict, repr=False)
    """The policies that the preview was asked under."""

    # --- what is known of the chosen axis ---

    @property
    def current(self) -> PolicyValue | None:
        return None if self.axis is None else self.policy.get(self.axis.name)

    @property
    def options(self) -> list[tuple[PolicyValue, str]]:
        """The values one can pick from, each with its meaning; empty where a number is typed."""
        if self.axis is None:
            return []
        if self.axis.kind == "bool":
            return [(True, "on"), (False, "off")]
        return list(self.axis.choices.items())

    @property
    def transition_matters(self) -> bool:
        if self.axis is None or self.value is None:
            return False
        return self.axis.asks_transition(self.current, self.value)

    @property
    def ready(self) -> bool:
        """Whether the change can be applied: the engine has said what it would do."""
        return (
            self.stage is Stage.CONFIRM
            and not self.applying
            and self.unreachable is None
            and self.preview is not None
            and self.preview.ok
        )

    # --- what the user does ---

    def choose_axis(self, name: str) -> None:
        if self.read_only:
            self.note = self.read_only
            return
        self.axis = next(axis for axis in self.axes if axis.name == name)
        self.stage, self.note = Stage.VALUE, ""

    def choose(self, value: PolicyValue) -> SetPolicy | None:
        """Asks the engine what ``value`` would do, unless it is in force."""
        assert self.axis is not None
        if value == self.current:
            self.note = f"{self.axis.name} is {spoken(value)} already"
            return None
        self.value, self.stage, self.transition, self.note = value, Stage.CONFIRM, "drain", ""
        return self._command(dry_run=True)

    def choose_number(self, text: str) -> SetPolicy | None:
        """The same with what was typed; a note says what is wrong with it."""
        axis = self.axis
        assert axis is not None
        try:
            value = int(text) if axis.kind == "int" else float(text)
            if not math.isfinite(value):
                raise ValueError
        except (ValueError, OverflowError):
            self.note = f"type a {'whole ' if axis.kind == 'int' else ''}number"
            return None
        if axis.minimum is not None and value < axis.minimum:
            self.note = f"at least {axis.minimum:.12g}"
        elif axis.maximum is not None and value > axis.maximum:
            self.note = f"at most {axis.maximum:.12g}"
        else:
            return self.choose(value)
        return None

    def choose_transition(self, name: str) -> SetPolicy | None:
        if self.stage is not Stage.CONFIRM or self.applying or name == self.transition or not self.transition_matters:
            return None
        self.transition = name
        return self._command(dry_run=True)

    def apply(self) -> SetPolicy | None:
        if not self.ready:
            return None
        self.applying = True
        return self._command(dry_run=False)

    def back(self) -> bool:
        """One stage back; False where there is none to go back to, and the dialog is to be closed."""
        if self.stage is Stage.VALUE:
            self.stage, self.note = Stage.AXIS, ""
        elif self.stage is Stage.CONFIRM and not self.applying:
            self.stage, self.preview, self.note, self._waits_for = Stage.VALUE, None, "", ""
        else:
            return False
        return True

    # --- what the engine says ---

    def answered(self, command: SetPolicy, answer: Answer) -> None:
        """The engine's answer to ``command``. One that was asked before a newer question is dropped."""
        if command.id != self._waits_for:
            return
        if command.dry_run:
            self.preview = answer
        else:
            self.result, self.stage, self.applying = answer, Stage.DONE, False

    def follow(self, state: EngineState) -> SetPolicy | None:
        """Takes over what has changed elsewhere. A preview that it makes stale is asked for anew."""
        self.unreachable = unreachable(state)
        if state.hello is not None:
            self.axes = state.hello.axes
        self.policy = state.policy
        if state.run != self.run and state.run is not None:
            known, self.run = self.run is not None, state.run
            if known:
                self._restarted()
                return None
        if self.axis is None or self.stage is Stage.DONE or self.applying:
            return None
        return self._axis_again(self.axis.name)

    def _restarted(self) -> None:
        said = "the engine has been restarted"
        if self.applying:
            self.stage, self.applying = Stage.DONE, False
            self.result = Answer(False, f"{said}: the run that was asked is over, and took its policies with it")
        elif self.stage is not Stage.DONE:
            self.stage, self.axis, self.preview, self.note = (
                Stage.AXIS,
                None,
                None,
                f"{said}; these are its policies now",
            )
        self._waits_for = ""

    def _axis_again(self, name: str) -> SetPolicy | None:
        axis = next((axis for axis in self.axes if axis.name == name), None)
        if axis is None:
            self.stage, self.axis, self.preview = Stage.AXIS, None, None
            self.note = f"the engine has no policy {name} any more"
            return None
        self.axis = axis
        if self.stage is not Stage.CONFIRM or self._seen == self.policy:
            return None
        assert self.value is not None
        if self.options and self.value not in [value for value, _ in self.options]:
            self.stage, self.preview, self.note = Stage.VALUE, None, f"{name} cannot be {spoken(self.value)} any more"
            return None
        if self.value == self.current:
            self.stage, self.preview = Stage.VALUE, None
            self.note = f"{name} is {spoken(self.value)} by now: it was changed elsewhere"
            return None
        changed = sorted(axis for axis in self.policy if self.policy[axis] != self._seen.get(axis))
        self.note = f"changed elsewhere meanwhile: {', '.join(changed)}"
        return self._command(dry_run=True)

    def _command(self, dry_run: bool) -> SetPolicy:
        assert self.value is not None
        assert self.axis is not None
        if dry_run:
            self.preview, self._seen = None, dict(self.policy)
        self.sent += 1
        self._waits_for = f"policy-{self.sent}"
        return SetPolicy(
            id=self._waits_for,
            run=self.run,
            changes={self.axis.name: self.value},
            transition="preempt" if self.transition == "preempt" else "drain",
            dry_run=dry_run,
        )

    # --- what it says ---

    @property
    def title(self) -> str:
        return "policies" if self.stage is Stage.AXIS or self.axis is None else f"policy {self.axis.name}"

    @property
    def change(self) -> str:
        """``capacity: max_utilization → static_batch``"""
        assert self.axis is not None
        if self.stage is Stage.DONE:
            return f"{self.axis.name} → {spoken(self.value)}"
        return f"{self.axis.name}  {spoken(self.current)} → {spoken(self.value)}"

    def paragraphs(self) -> list[Paragraph]:
        """What is said of the change: before it is made, and after."""
        if self.result is not None:
            first, *more = answer_paragraphs(self.result)
            return [first, *((f"· {text}", role) for text, role in more)]
        if self.applying:
            return [("asked the engine; waiting for the iteration at which it takes effect…", Role.WARN)]
        if self.unreachable is not None:
            return [(self.unreachable, Role.BAD)]
        said = [(self.note, Role.WARN)] if self.note else []
        if self.preview is None:
            return [*said, ("asking the engine what this would do…", Role.DIM)]
        if not self.preview.ok:
            return [*said, (outcome(self.preview)[0], Role.BAD)]
        effects = self.preview.effects or (self.preview.message or "nothing changes for any request now",)
        return [*said, ("what it will do:", Role.DIM), *((f"· {effect}", Role.TEXT) for effect in effects)]

    def limits(self) -> str:
        """Between which numbers the chosen axis may be set."""
        assert self.axis is not None
        low, high = self.axis.minimum, self.axis.maximum
        parts = ["" if low is None else f"at least {low:.12g}", "" if high is None else f"at most {high:.12g}"]
        return ", ".join(part for part in parts if part)
