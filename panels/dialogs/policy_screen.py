"""The screen around the policy dialog: lists to choose from, a field for numbers, what would happen, what did."""

from typing import Any

from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Input

from kvtop.protocol import PolicyValue
from kvtop.state import EngineState
from kvtop.term.keys import Actions
from kvtop.views.answer import Answer, Ask
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, clean
from panels.dialogs.dialog import DIALOG_ACTIONS, Dialog
from panels.dialogs.policy_form import TRANSITIONS, PolicyForm, Stage, spoken
from panels.dialogs.widgets import Choice, Entry, Line, Menu, Words
from panels.text_input import TextInput

NAME_WIDTH = 26
LONGEST_NUMBER = 24


class PolicyScreen(Dialog):
    """Shows the stage that ``form`` is at. Escape goes back one stage, and out of the first."""

    DEFAULT_CSS = """
    PolicyScreen #help { height: auto; max-height: 5; }
    PolicyScreen #transitions { height: 4; }
    """

    def __init__(self, form: PolicyForm, ask: Ask, *, glyphs: Glyphs = UNICODE, keys: Actions = DIALOG_ACTIONS) -> None:
        super().__init__(ask, rows=20, glyphs=glyphs, keys=keys)
        self.form = form
        self._drawn: Stage | None = None
        self._axes = Menu(glyphs, self._choose_axis, id="axes")
        self._axes.on_move = self._tell_axis
        self._values = Menu(glyphs, self._choose_value, id="values")
        self._number = TextInput(id="number", longest=LONGEST_NUMBER)
        self._limits, self._note = Line(glyphs, id="limits"), Line(glyphs, id="note")
        self._transitions = Menu(glyphs, self._choose_transition, id="transitions")
        self._change = Line(glyphs, id="change")
        self._help, self._words = Words(glyphs, id="help"), Words(glyphs, id="said")
        self._cancel, self._apply = Choice("Cancel", self.action_close), Choice("Apply", self._confirm)

    def body(self) -> ComposeResult:
        yield from (self._change, self._axes, self._help, self._values, self._limits, self._number)
        yield from (self._transitions, self._words, self._note)

    def buttons(self) -> list[Widget]:
        return [self._cancel, self._apply]

    # --- what the user does ---

    def _choose_axis(self, name: str) -> None:
        self.form.choose_axis(name)
        self._number.value = ""
        self.draw()

    def _choose_value(self, key: str) -> None:
        self.send(self.form.choose(self.form.options[int(key)][0]))
        self.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.send(self.form.choose_number(event.value.strip()))
        self.draw()

    def _choose_transition(self, name: str) -> None:
        self.send(self.form.choose_transition(name))
        self.draw()

    def action_transition(self) -> None:
        if self.form.stage is Stage.CONFIRM and not self.form.transition_matters:
            self.form.note = "there is no transition to choose: what runs does not break the new value"
            self.draw()
            return
        at = list(TRANSITIONS).index(self.form.transition)
        self._choose_transition(list(TRANSITIONS)[1 - at])

    def _confirm(self) -> None:
        self.send(self.form.apply())
        self.draw()

    def action_back(self) -> None:
        if self.form.back():
            self.draw()
        else:
            self.dismiss()

    def action_next(self) -> None:
        """Into what the bar is on, while one chooses; between the buttons, while one confirms."""
        if self.form.stage is Stage.AXIS:
            self._axes.action_select()
        elif self.form.stage is Stage.CONFIRM:
            super().action_next()

    def action_previous(self) -> None:
        if self.form.stage is Stage.VALUE:
            self.action_back()
        elif self.form.stage is Stage.CONFIRM:
            super().action_previous()

    # --- what comes in ---

    def follow(self, state: EngineState) -> None:
        self.send(self.form.follow(state))
        self.draw()

    def answered(self, command: Any, answer: Answer) -> None:
        self.form.answered(command, answer)

    # --- looks ---

    def draw(self) -> None:
        form, stage = self.form, self.form.stage
        choosing, typing = stage is Stage.VALUE and bool(form.options), stage is Stage.VALUE and not form.options
        last = stage in (Stage.CONFIRM, Stage.DONE)
        for widget, there in (
            (self._axes, stage is Stage.AXIS and bool(form.axes)),
            (self._help, stage in (Stage.AXIS, Stage.VALUE) and bool(form.axes)),
            (self._values, choosing),
            (self._number, typing),
            (self._limits, typing),
            (self._change, last),
            (self._transitions, stage is Stage.CONFIRM and form.transition_matters and not form.applying),
            (self._words, last or not form.axes),
            (self._note, not last),
            (self._cancel, True),
            (self._apply, form.ready),
        ):
            widget.display = there
        self._fill(choosing, typing)
        self._focus(stage, choosing)
        self.head(form.title, self._foot(stage, choosing))

    def _fill(self, choosing: bool, typing: bool) -> None:
        form, stage = self.form, self.form.stage
        self._axes.offer(self._axis_entries())
        if not form.axes:
            self._words.say([("this engine exposes no policies that could be changed", Role.TEXT)])
        elif stage in (Stage.CONFIRM, Stage.DONE):
            self._change.say(form.change, Role.STRONG)
            self._transitions.offer(self._transition_entries(), at=None if self._drawn is stage else form.transition)
            self._words.say(form.paragraphs())
        else:
            self._tell_axis()
        if choosing:
            values = [value for value, _ in form.options]
            at = str(values.index(form.current)) if form.current in values else "0"
            self._values.offer(self._value_entries(), at=None if self._drawn is Stage.VALUE else at)
        if typing and form.axis is not None:
            unit = f" {form.axis.unit}" if form.axis.unit else ""
            limits = form.limits()
            said = f"now {spoken(form.current)}{unit}" + (f"; {limits}" if limits else "") + "; new:"
            self._limits.say(said, Role.DIM)
        self._cancel.word = "Cancel" if stage is Stage.CONFIRM and not form.applying else "Close"
        self._note.say(form.note or form.unreachable or "", Role.WARN)

    def _focus(self, stage: Stage, choosing: bool) -> None:
        """Where the keys go, when the stage is another one: to Cancel, where something could be changed."""
        if self._drawn is not stage:
            self._drawn = stage
            if stage is Stage.AXIS and self.form.axes:
                self.set_focus(self._axes)
            elif stage is Stage.VALUE:
                self.set_focus(self._values if choosing else self._number)
            else:
                self.set_focus(self._cancel)
        elif self.focused is None or not self.focused.display:
            self.set_focus(self._cancel)

    def _tell_axis(self) -> None:
        """What the axis under the bar decides, or the chosen one."""
        axis = self.form.axis if self.form.stage is not Stage.AXIS else None
        name = self._axes.key if axis is None else axis.name
        self._help.say([(axis.help, Role.DIM) for axis in self.form.axes if axis.name == name])

    def _axis_entries(self) -> list[Entry]:
        return [
            Entry(
                axis.name,
                (
                    (clean(axis.name)[: NAME_WIDTH - 1].ljust(NAME_WIDTH), Role.TEXT),
                    (clean(spoken(self.form.policy.get(axis.name))), Role.STRONG),
                    (f" {clean(axis.unit)}" if axis.unit else "", Role.DIM),
                ),
            )
            for axis in self.form.axes
        ]

    def _value_entries(self) -> list[Entry]:
        form = self.form
        meant = form.axis is not None and form.axis.kind == "choice"
        return [
            self._radio(str(place), value == form.current, value, meaning if meant else "", "  now")
            for place, (value, meaning) in enumerate(form.options)
        ]

    def _transition_entries(self) -> list[Entry]:
        return [self._radio(name, name == self.form.transition, name, text) for name, text in TRANSITIONS.items()]

    @staticmethod
    def _radio(key: str, on: bool, value: PolicyValue, meaning: str, said: str = "") -> Entry:
        dot = ("● " if on else "○ ", Role.GOOD)
        return Entry(key, (dot, (clean(spoken(value)), Role.STRONG), (said if on else "", Role.GOOD)), meaning)

    def _foot(self, stage: Stage, choosing: bool) -> str:
        if not self.form.axes or stage is Stage.DONE:
            return "Enter close"
        choose = f"{self.key('down', 'up')} choose"
        if stage is Stage.AXIS:
            return f"{choose} · Enter change · {self.key('back')} close"
        if stage is Stage.VALUE:
            return f"{choose if choosing else 'type a number'} · Enter preview · {self.key('back')} back"
        transition = f"{self.key('transition')} transition · " if self.form.transition_matters else ""
        return f"{self.key('next')} button · {transition}Enter · {self.key('back')} back"
