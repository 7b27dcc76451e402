"""One rule's way from fine to firing and back, with the times it must hold: what toggles faster never flaps."""

from typing import Any, Literal

from kvtop.alarms.outcome import Finding, Fine, Outcome, Unchecked
from kvtop.alarms.report import Check, Spell, Status
from kvtop.alarms.rule import Rule


class Course:
    """Fed with what the rule says, and for how many seconds of observation that is the news.

    Time in which nothing could be looked at does not count, neither towards firing nor towards the end.
    """

    def __init__(self, rule: Rule[Any]) -> None:
        self.rule = rule
        self.status: Status = "unchecked"
        self.text = "not looked at yet"
        self.finding: Finding | None = None
        self.since: float | None = None
        self.wall: float | None = None
        self.before: Spell | None = None
        self._so = self._not_so = 0.0
        """Seconds it has been so while pending, and no longer so while ending."""

    @property
    def fires(self) -> bool:
        return self.status in ("firing", "ending")

    def step(
        self, mono: float, wall: float | None, seconds: float, outcome: Outcome
    ) -> Literal["began", "over"] | None:
        """``wall``: Unix seconds at ``mono``."""
        if isinstance(outcome, Finding):
            return self._so_it_is(mono, wall, seconds, outcome)
        if self.fires:
            self._not_so = self._not_so + seconds if self.status == "ending" else 0.0
            self.status = "ending"
            if self._not_so < self.rule.limits.hold_s:
                return None
            self.end(mono)
            self._rest(outcome)
            return "over"
        self._rest(outcome)
        return None

    def _so_it_is(self, mono: float, wall: float | None, seconds: float, finding: Finding) -> Literal["began"] | None:
        self.finding, self.text = finding, finding.evidence
        if self.fires:
            self.status = "firing"
            return None
        if self.status != "pending":
            self._so = 0.0
            self.since = mono if finding.since is None else min(mono, finding.since)
            self.wall = None if wall is None else wall - (mono - self.since)
        else:
            self._so += seconds
        self.status = "firing" if self._so >= self.rule.limits.for_s else "pending"
        return "began" if self.status == "firing" else None

    def end(self, mono: float) -> None:
        """It fires no more."""
        if self.fires and self.since is not None:
            self.before = Spell(self.wall, max(0.0, mono - self.since))

    def _rest(self, outcome: Fine | Unchecked) -> None:
        self.finding = self.since = self.wall = None
        self.status = "fine" if isinstance(outcome, Fine) else "unchecked"
        self.text = outcome.what if isinstance(outcome, Fine) else outcome.why

    def move(self, seconds: float) -> None:
        """The clock that dates it has jumped so far."""
        if self.since is not None:
            self.since += seconds

    @property
    def check(self) -> Check:
        return Check(
            self.rule.NAME, self.rule.TITLE, self.status, self.text, self.finding, self.since, self.wall, self.before
        )
