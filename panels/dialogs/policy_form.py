"""The policy dialog without its terminal: which axis, which value, what it would do, and what it did.

Four stages: choose an axis, choose its value, read what the engine says the change would do and confirm it,
read what happened. Nothing is changed before Apply, and nothing is shown as changed before the engine said so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from kvtop.protocol import PolicyAxis, PolicyValue, SetPolicy
from kvtop.views import format
from kvtop.views.answer import Answer, outcome
from kvtop.views.rows import HIGHLIGHT, Role, Row, RowBuilder, clean
from panels.dialogs.card import buttons, filled, in_view, wrapped

RESERVING = frozenset({"guaranteed_no_evict", "static_batch"})
"""Choices that the present state may break, so that the transition matters."""

TRANSITIONS = {
    "drain": "admit nobody until what runs fits the new rule",
    "preempt": "preempt at once, down to what fits; the work is computed again",
}
NAME_WIDTH = 30


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
    """State of the dialog. `key` takes a key and returns a command to send, or None."""

    axes: list[PolicyAxis]
    policy: Mapping[str, PolicyValue]
    read_only: str | None = None
    stage: Stage = Stage.AXIS
    axis_at: int = 0
    value_at: int = 0
    typed: str = ""
    note: str = ""
    transition: str = "drain"
    button: int = 0
    preview: Answer | None = None
    applying: bool = False
    result: Answer | None = None
    closed: bool = False
    value: PolicyValue | None = None
    sent: int = 0
    _waits_for: str = field(default="", repr=False)

    @property
    def axis(self) -> PolicyAxis:
        return self.axes[self.axis_at]

    @property
    def current(self) -> PolicyValue | None:
        return self.policy.get(self.axis.name)

    @property
    def options(self) -> list[tuple[PolicyValue, str]]:
        """The values one can pick from; empty where a number is typed."""
        if self.axis.kind == "bool":
            return [(True, "on"), (False, "off")]
        return list(self.axis.choices.items())

    @property
    def transition_matters(self) -> bool:
        if isinstance(self.value, str):
            return self.value in RESERVING
        old = self.current
        return (
            not isinstance(self.value, bool)
            and isinstance(self.value, int | float)
            and isinstance(old, int | float)
            and self.value < old
        )

    # --- keys ---

    def key(self, key: str, character: str | None) -> SetPolicy | None:
        """Handles one key. A returned command is to be sent; its answer goes to `answered`."""
        if key == "q" or (key == "escape" and self.stage in (Stage.AXIS, Stage.DONE)):
            self.closed = True
            return None
        if not self.axes:
            self.closed = key in ("enter", "escape")
            return None
        return {
            Stage.AXIS: self._key_axis,
            Stage.VALUE: self._key_value,
            Stage.CONFIRM: self._key_confirm,
            Stage.DONE: self._key_done,
        }[self.stage](key, character)

    def _key_axis(self, key: str, _character: str | None) -> None:
        last = len(self.axes) - 1
        if key in ("j", "down"):
            self.axis_at = min(last, self.axis_at + 1)
        elif key in ("k", "up"):
            self.axis_at = max(0, self.axis_at - 1)
        elif key in ("enter", "l", "right", "tab"):
            if self.read_only:
                self.note = self.read_only
                return
            self.stage, self.typed, self.note = Stage.VALUE, "", ""
            values = [value for value, _ in self.options]
            self.value_at = values.index(self.current) if self.current in values else 0

    def _key_value(self, key: str, character: str | None) -> SetPolicy | None:
        options = self.options
        if key in ("escape", "left", "shift+tab") or (key == "h" and options):
            self.stage, self.note = Stage.AXIS, ""
        elif options and key in ("j", "down"):
            self.value_at = min(len(options) - 1, self.value_at + 1)
        elif options and key in ("k", "up"):
            self.value_at = max(0, self.value_at - 1)
        elif key == "enter":
            return self._choose()
        elif not options and key == "backspace":
            self.typed = self.typed[:-1]
        elif not options and character and character in "0123456789.-" and len(self.typed) < 12:
            self.typed += character
        return None

    def _choose(self) -> SetPolicy | None:
        if self.options:
            value: PolicyValue | None = self.options[self.value_at][0]
        else:
            value = self._number()
            if value is None:
                return None
        if value == self.current:
            self.note = f"{self.axis.name} is {spoken(value)} already"
            return None
        self.value, self.stage, self.button, self.transition, self.note = value, Stage.CONFIRM, 0, "drain", ""
        return self._command(dry_run=True)

    def _number(self) -> int | float | None:
        axis = self.axis
        try:
            value = int(self.typed) if axis.kind == "int" else float(self.typed)
        except ValueError:
            self.note = f"type a {'whole ' if axis.kind == 'int' else ''}number"
            return None
        if axis.minimum is not None and value < axis.minimum:
            self.note = f"at least {axis.minimum:g}"
            return None
        if axis.maximum is not None and value > axis.maximum:
            self.note = f"at most {axis.maximum:g}"
            return None
        return value

    def _key_confirm(self, key: str, _character: str | None) -> SetPolicy | None:
        if self.applying:
            return None
        if key == "escape":
            self.stage, self.preview = Stage.VALUE, None
        elif key in ("left", "right", "tab", "shift+tab", "h", "l"):
            self.button = 1 - self.button
        elif key in ("t", "up", "down", "j", "k") and self.transition_matters:
            self.transition = "preempt" if self.transition == "drain" else "drain"
            return self._command(dry_run=True)
        elif key == "enter":
            if self.button == 0:
                self.closed = True
            elif self.preview is not None and self.preview.ok:
                self.applying = True
                return self._command(dry_run=False)
        return None

    def _key_done(self, key: str, _character: str | None) -> None:
        self.closed = key in ("enter", "space")

    def _command(self, dry_run: bool) -> SetPolicy:
        assert self.value is not None
        if dry_run:
            self.preview = None
        self.sent += 1
        self._waits_for = f"policy-{self.sent}"
        return SetPolicy(
            id=self._waits_for,
            changes={self.axis.name: self.value},
            transition="preempt" if self.transition == "preempt" else "drain",
            dry_run=dry_run,
        )

    def answered(self, command: SetPolicy, answer: Answer) -> None:
        """The engine's answer to ``command``. One that was asked before a newer question is dropped."""
        if command.id != self._waits_for:
            return
        if command.dry_run:
            self.preview = answer
        else:
            self.result, self.stage, self.applying = answer, Stage.DONE, False

    # --- looks ---

    @property
    def keys(self) -> str:
        if not self.axes or self.stage is Stage.DONE:
            return "Enter close"
        if self.stage is Stage.AXIS:
            return "j k choose · Enter change · Esc close"
        if self.stage is Stage.VALUE:
            return f"{'j k choose' if self.options else 'type a number'} · Enter preview · Esc back"
        return f"Tab button · {'t transition · ' if self.transition_matters else ''}Enter · Esc back"

    @property
    def title(self) -> str:
        return "policies" if self.stage is Stage.AXIS or not self.axes else f"policy {self.axis.name}"

    def rows(self, width: int, height: int) -> list[Row]:
        """The inside of the card: ``height`` rows, the buttons or a note last."""
        if not self.axes:
            body, last = wrapped("this engine exposes no policies that could be changed", width), Row("", b"")
        elif self.stage is Stage.AXIS:
            body, last = self._axis_rows(width, height - 1), self._note_row(width)
        elif self.stage is Stage.VALUE:
            body, last = self._value_rows(width, height - 1), self._note_row(width)
        elif self.stage is Stage.CONFIRM:
            body = self._confirm_rows(width)
            last = Row("", b"") if self.applying else buttons(("Cancel", "Apply"), self.button, width)
        else:
            body, last = self._done_rows(width), buttons(("Close",), 0, width)
        return filled(body, last, width, height)

    def _note_row(self, width: int) -> Row:
        return RowBuilder().add(clean(self.note)[:width], Role.WARN).row()

    def _axis_rows(self, width: int, height: int) -> list[Row]:
        rows = []
        for i, axis in enumerate(self.axes):
            here = i == self.axis_at
            mark = HIGHLIGHT if here else 0
            line = RowBuilder().add("▸ " if here else "  ", Role.KEY | mark)
            line.add(clean(axis.name), Role.TEXT | mark).to(NAME_WIDTH - 4, mark)
            line.add(f" {spoken(self.policy.get(axis.name))}", Role.STRONG | mark)
            if axis.unit:
                line.add(f" {clean(axis.unit)}", Role.DIM | mark)
            rows.append(line.row(width, mark))
        help_rows = wrapped(self.axis.help, width, Role.DIM)
        rows = in_view(rows, range(self.axis_at, self.axis_at + 1), width, height - 1 - len(help_rows))
        return [*rows, Row("", b""), *help_rows]

    def _value_rows(self, width: int, height: int) -> list[Row]:
        axis = self.axis
        rows = [*wrapped(axis.help, width, Role.DIM), Row("", b"")]
        if not self.options:
            bounds = [
                f"at least {axis.minimum:g}" if axis.minimum is not None else "",
                f"at most {axis.maximum:g}" if axis.maximum is not None else "",
            ]
            limits = ", ".join(b for b in bounds if b)
            rows.append(
                RowBuilder()
                .add("now  ", Role.DIM)
                .add(spoken(self.current), Role.STRONG)
                .add(f" {axis.unit or ''}", Role.DIM)
                .row()
            )
            rows.append(
                RowBuilder()
                .add("new  ", Role.DIM)
                .add(self.typed, Role.STRONG)
                .add(" ", HIGHLIGHT)
                .add(f"  {limits}", Role.DIM)
                .row()
            )
            return rows
        focus = range(0)
        for i, (value, meaning) in enumerate(self.options):
            here, mark = i == self.value_at, HIGHLIGHT if i == self.value_at else 0
            first = len(rows)
            line = RowBuilder().add("▸ " if here else "  ", Role.KEY | mark)
            line.add("● " if value == self.current else "○ ", Role.GOOD | mark)
            line.add(spoken(value), Role.STRONG | mark)
            line.add("  now" if value == self.current else "", Role.GOOD | mark)
            rows.append(line.row(width, mark))
            if axis.kind == "choice":
                rows += wrapped(meaning, width, Role.DIM, "      ")
            if here:
                focus = range(first, len(rows))
        return in_view(rows, focus, width, height)

    def _confirm_rows(self, width: int) -> list[Row]:
        line = RowBuilder().add(clean(self.axis.name), Role.TEXT).add("  ")
        line.add(spoken(self.current), Role.STRONG).add(" → ", Role.DIM).add(spoken(self.value), Role.ACCENT)
        rows = [line.row(), Row("", b"")]
        if self.transition_matters:
            for name, meaning in TRANSITIONS.items():
                chosen = name == self.transition
                rows += wrapped(
                    f"{name}: {meaning}", width, Role.STRONG if chosen else Role.DIM, "● " if chosen else "○ "
                )
            rows.append(Row("", b""))
        if self.applying:
            return [
                *rows,
                *wrapped("asked the engine; waiting for the iteration at which it takes effect…", width, Role.WARN),
            ]
        if self.preview is None:
            return [*rows, *wrapped("asking the engine what this would do…", width, Role.DIM)]
        if not self.preview.ok:
            return [*rows, *wrapped(outcome(self.preview)[0], width, Role.BAD)]
        rows += wrapped("what it will do:", width, Role.DIM)
        effects = self.preview.effects or (
            (self.preview.message,) if self.preview.message else ("nothing changes for any request now",)
        )
        for effect in effects:
            rows += wrapped(effect, width, Role.TEXT, "· ")
        return rows

    def _done_rows(self, width: int) -> list[Row]:
        assert self.result is not None
        sentences = outcome(self.result)
        rows = [
            RowBuilder().add(f"{clean(self.axis.name)} → {spoken(self.value)}", Role.STRONG).row(),
            Row("", b""),
            *wrapped(sentences[0], width, Role.GOOD if self.result.ok else Role.BAD),
        ]
        for sentence in sentences[1:]:
            rows += wrapped(sentence, width, Role.TEXT, "· ")
        return rows
