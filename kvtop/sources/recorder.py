"""Records an engine's lines beside whoever reads them, in a thread of its own: a slow disk holds nobody up."""

import threading
import time
from collections import deque
from collections.abc import Callable

from kvtop.protocol.codec import AnyFrame
from kvtop.record import Sink, Tape, Writer, without_text

MAX_WAITING = 64 << 20
"""Bytes of lines that wait for the disk; what comes beyond is left out, and marked by a gap."""


ENTRY_MOST_S = 180.0
"""Seconds between two keyframes at most: with a hundred thousand cached blocks each takes more than a megabyte in the file."""

ENTRY_BYTES = 64 << 20
"""Bytes of lines between two of them at most."""


class Recorder:
    """What `kvtop.sources.socket.SocketSource` gives its lines to (`kvtop.sources.history.Keeper`).

    ``keep_text``: prompts and generated text too, where the engine exposes them. ``tell``: sentences about trouble with
    ``sink`` and its end, from the recorder's thread.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        keep_text: bool = False,
        tell: Callable[[str], None] = lambda _: None,
        max_waiting: int = MAX_WAITING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sink, self._keep_text, self._tell = sink, keep_text, tell
        self._clock = clock
        self._writer = Writer(
            sink, tell=tell, entry_most_s=ENTRY_MOST_S, entry_bytes=ENTRY_BYTES, digests=True, clock=clock
        )
        self._max_waiting = max_waiting
        self._news = threading.Condition()
        self._waiting: deque[tuple[bytes, AnyFrame | None] | None] = deque()
        """None: lines were left out here."""
        self._bytes = 0
        self._ending = False
        self._wanted = False
        self.failure: str | None = None
        """Why it has ended by itself, in a sentence."""
        self._thread = threading.Thread(target=self._run, name="kvtop-recorder", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> str | None:
        """Why nothing is written at present; None where all is well."""
        return self.failure or self._writer.trouble

    @property
    def chunks(self) -> int:
        """Written so far."""
        return self._writer.chunks

    def take(self, line: bytes, frame: AnyFrame | None) -> None:
        """A line as it came and what it says. Returns at once."""
        with self._news:
            if self._bytes + len(line) > self._max_waiting and self._waiting:
                if self._waiting[-1] is not None:
                    self._waiting.append(None)
            else:
                self._waiting.append((line, frame))
                self._bytes += len(line)
            self._news.notify()

    def wants_keyframe(self) -> bool:
        """True once for each time that the engine should be asked for one."""
        wanted, self._wanted = self._wanted, False
        return wanted

    def tape(self) -> Tape | None:
        """Nothing is looked back on here."""
        return None

    def close(self) -> None:
        """Writes what has come and ends. Takes as long as the disk does, a few seconds at most. May be repeated."""
        with self._news:
            self._ending = True
            self._news.notify()
        self._thread.join(10.0)

    # -- the thread

    def _run(self) -> None:
        try:
            while self._turn():
                pass
            self._writer.close()
        except Exception as error:
            self.failure = f"recording ended with an internal error, {type(error).__name__}: {error}"
            self._tell(self.failure)
            self._sink.close()

    def _turn(self) -> bool:
        with self._news:
            if not self._waiting and not self._ending:
                due = self._writer.due_at() - self._clock()
                self._news.wait(None if due == float("inf") else max(0.0, due))
            waiting, self._waiting, self._bytes = self._waiting, deque(), 0
            ending = self._ending
        for each in waiting:
            if each is None:
                self._writer.interrupted("the recorder was too slow")
            else:
                self._writer.take(*(each if self._keep_text else without_text(*each)))
            self._writer.work()
        self._writer.work()
        self._wanted = self._writer.wants_keyframe() or self._wanted
        return not ending
