"""What every rule has: a name, what it means in words, thresholds, ways out, and what it says at a moment."""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from kvtop.alarms.advice import Try, advice
from kvtop.alarms.limits import Limits
from kvtop.alarms.moment import Moment
from kvtop.alarms.outcome import Outcome
from kvtop.state import EngineState

AnyLimits = TypeVar("AnyLimits", bound=Limits)


class Rule(ABC, Generic[AnyLimits]):
    """One kind of trouble.

    A rule may remember what it saw, in a bounded way; one is made for each life of an engine. It is asked about once a second
    of the engine's clock and never reads another.

    Attributes:
        NAME: As thresholds are named after it.
        TITLE: As the screen calls it.
        MEANING: What is wrong then, in a sentence.
        DEFINITION: When exactly it fires; ``{threshold}`` stands for one of its thresholds.
        NEEDS: What an engine must expose for it.
        TRIES: Ways out, the best first; one of them can be tried with every engine.
        LIMITS: Its thresholds.
    """

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    MEANING: ClassVar[str]
    DEFINITION: ClassVar[str]
    NEEDS: ClassVar[str]
    TRIES: ClassVar[tuple[Try, ...]]

    def __init__(self, limits: AnyLimits) -> None:
        self.limits = limits

    @abstractmethod
    def look(self, at: Moment) -> Outcome:
        """Whether it is so at that moment. Never raises for what an engine says."""

    def advice(self, state: EngineState) -> str:
        return advice(state, self.TRIES)
