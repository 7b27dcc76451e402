"""A question before a command, without its terminal: what will happen, then what did; or that it is void by now."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvtop.protocol import Command
from kvtop.state import EngineState
from kvtop.views.answer import Answer, outcome
from kvtop.views.rows import Role

Paragraph = tuple[str, Role]


def _stands(_state: EngineState) -> str | None:
    return None


@dataclass
class ConfirmForm:
    """State of the dialog.

    Attributes:
        verb: Labels the button that does it.
        command: What is sent then, for the run that was shown when the dialog was opened.
        void_if: Why the question makes no sense any more, in a sentence, by what is known now; None where it does.
        void: That sentence, while there is one: the verb does nothing then.
    """

    title: str
    sentences: Sequence[str]
    verb: str
    command: Command
    void_if: Callable[[EngineState], str | None] = _stands
    asked: bool = False
    result: Answer | None = None
    void: str = ""

    def follow(self, state: EngineState) -> None:
        """Takes over what has become of the engine and of what is asked about."""
        if not self.asked:
            self.void = over(self.command.run, state) or unreachable(state) or self.void_if(state) or ""

    def confirm(self) -> Command | None:
        """The command, to be sent now; None where it was sent already or is void."""
        if self.asked or self.void:
            return None
        self.asked = True
        return self.command

    def answered(self, _command: Command, answer: Answer) -> None:
        self.result = answer

    def paragraphs(self) -> list[Paragraph]:
        """What the dialog says now."""
        if self.result is not None:
            return answer_paragraphs(self.result)
        said = [(sentence, Role.TEXT) for sentence in self.sentences]
        if self.void:
            said.append((self.void, Role.BAD))
        elif self.asked:
            said.append(("asked the engine; waiting for its answer…", Role.WARN))
        return said


def over(run: str | None, state: EngineState) -> str | None:
    """That the run a dialog was opened on is over; None while it goes on, as far as is known."""
    if run is None or state.run in (None, run):
        return None
    return "The engine has been restarted: the run that this was about is over, so nothing can be asked of it."


def unreachable(state: EngineState) -> str | None:
    """That there is no connection, and so no knowing what a command would reach."""
    return None if state.link.up else f"No connection to the engine: {state.link.reason or 'not reached yet'}."


def answer_paragraphs(answer: Answer) -> list[Paragraph]:
    """What the engine said, the first sentence coloured by whether it agreed."""
    first, *more = outcome(answer)
    return [(first, Role.GOOD if answer.ok else Role.BAD), *((sentence, Role.TEXT) for sentence in more)]
