"""When the flight recorder goes to a file: on alarms, on books that do not add up, on command, and when the loop fails."""

import contextlib
from collections.abc import Callable

from engine.serving.event_log import EventLog
from kvtop.publish import Dumped, Dumps, PendingCommand, Publisher


class FlightFiles:
    """On the engine's thread, but for what `Dumps` does beside it. Where the publisher has no recorder, it does nothing."""

    def __init__(self, publisher: Publisher, log: EventLog) -> None:
        self._publisher, self._log = publisher, log
        self._dumps: Dumps | None = None
        self._alarm: str | None = None
        self._askers: list[PendingCommand] = []

    @property
    def urgent(self) -> bool:
        """What there is to tell is to be told in this turn: a file is going to be written, and it belongs into it."""
        return self._alarm is not None or bool(self._askers)

    def alarm(self, why: str) -> None:
        """A file is wanted that shows how it came to this; `work` writes it. Of several in one turn the first names it."""
        if self._publisher.flight is not None:
            self._alarm = self._alarm or why

    def command(self, asker: PendingCommand) -> str | None:
        """Why that cannot be done, in a sentence; None where the asker is answered when it is done."""
        if self._publisher.flight is None:
            return "there is no flight recorder: the engine was started with --flight-minutes 0 or --flight-mib 0"
        self._askers.append(asker)
        return None

    def work(self) -> None:
        """After each turn was told: begins what is wanted, and tells of what is done."""
        alarm, self._alarm = self._alarm, None
        askers, self._askers = self._askers, []
        if (alarm is not None or askers) and (dumps := self._files()) is not None:
            for asker in askers:
                self._begin(dumps, asker)
            if alarm is not None:
                dumps.alarm(alarm)
        for dumped in self._dumps.take() if self._dumps is not None else ():
            self._tell(dumped)

    @staticmethod
    def _begin(dumps: Dumps, asker: PendingCommand) -> None:
        def done(dumped: Dumped) -> None:
            said = dumped.sentence if dumped.error else f"written: {dumped.path} ({dumped.size / 1e6:.1f} MB)"
            asker.reply(not dumped.error, message=said, file=None if dumped.error else str(dumped.path))

        if not dumps.command(f"by command of uid {asker.uid} pid {asker.pid}", done):
            asker.reply(False, message="the flight recorder is being written already; ask again")

    def crashed(self, why: str, last_words: Callable[[], None]) -> None:
        """The loop ends with a failure. Never raises; returns when the file is written, or the disk is too slow for it."""
        with contextlib.suppress(Exception):
            self._log.event("fault", severity="error", detail=why)
            last_words()
        if (dumps := self._files()) is not None:
            dumps.write(why)

    def _files(self) -> Dumps | None:
        if self._dumps is None and (recorder := self._publisher.flight) is not None:
            self._dumps = Dumps(recorder, self._publisher.hello.engine.name, news=self._publisher.nudge)
        return self._dumps

    def _tell(self, dumped: Dumped) -> None:
        severity = "error" if dumped.error else "info"
        self._log.event("dump", severity=severity, cause=dumped.why, detail=dumped.sentence)
