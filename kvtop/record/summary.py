"""What a chunk's header tells of its lines, so that a recording can be searched without decompressing it."""

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import Field

from kvtop.protocol.base import Message
from kvtop.protocol.codec import AnyFrame
from kvtop.protocol.events import Event
from kvtop.protocol.frames import Bye, Fault, Gap, IterationFrame, Keyframe
from kvtop.protocol.hello import Hello

NOTABLE_KINDS = frozenset(
    {"policy", "preempt", "fault", "error", "ledger", "watchdog", "kv_switch", "pause", "resume", "dump"}
)
"""Events that one may want to go to; others are too where their severity is not ``info``."""

MAX_NOTABLE = 256
"""Facts told of one chunk; more are only counted. In a storm of preemptions one wants its beginning."""

MAX_WORD = 64


class Notable(NamedTuple):
    """Something to go to. Of a frame that came late (after a hole) seq and mono are the frame's, the rest the event's."""

    seq: int
    """Of the first frame that tells of it."""
    iteration: int
    wall: float
    mono: float
    kind: str
    """An event's kind, or ``gap``, ``restart`` (of the engine, in this recording), ``leave`` (its goodbye), ``refused``."""
    level: str
    """info, warn, error"""
    request: int | None = None
    """num of the request it happened to"""
    event: int | None = None
    """Its id, for an event."""
    request_id: str | None = None
    """What it is called; of preemptions alone, as is what follows."""
    by: str | None = None
    """What the request is called that it was for, ``#num`` where it has no id; None: by command."""
    tokens: int | None = None
    """Computed tokens given up."""
    seconds: float | None = None
    """Spent on them."""


class Summary(Message):
    """Facts of one chunk. Unknown fields are ignored; what is absent is not known or does not apply."""

    entry: bool = Field(default=False, description="it begins with hello and keyframe: reading can start here")
    run: str = Field(default="", max_length=64, description="the engine's run")
    protocol: str = Field(default="", max_length=16, description="version of the protocol its lines are in")
    lines: int = Field(default=0, ge=0, description="lines")
    bytes: int = Field(default=0, ge=0, description="their bytes, newlines included")
    base: int | None = Field(default=None, description="seq that its first frame builds on; absent for an entry")
    seqs: tuple[int, int] | None = Field(default=None, description="seq of its first and last frame")
    iterations: tuple[int, int] | None = Field(default=None, description="iteration of its first and last frame")
    walls: tuple[float, float] | None = Field(default=None, description="Unix seconds of its first and last frame")
    wall_range: tuple[float, float] | None = Field(
        default=None, description="smallest and largest of all; they differ from walls where the clock was set back"
    )
    monos: tuple[float, float] | None = Field(default=None, description="monotonic seconds of its first and last frame")
    digest_base: int | None = Field(default=None, description="seq that its digest builds on; absent: it has none")
    digest_bytes: int = Field(default=0, ge=0, description="bytes of the digest, compressed")
    digest_crc: int = Field(default=0, ge=0, description="CRC-32 of these bytes")
    notable: list[Notable] = Field(default_factory=list, description="what one may want to go to, in order")
    notable_left_out: int = Field(default=0, ge=0, description="more of these than a summary has room for")


class Gathering:
    """Gathers the summaries of one recording, chunk by chunk."""

    def __init__(self) -> None:
        self._run: str | None = None
        self._protocol = ""
        self._last_event: int | None = None
        self._restarted = False
        self._seen = (0, 0, 0.0, 0.0)
        self._clear()

    def _clear(self) -> None:
        self._entry = False
        self._base: int | None = None
        self._first: tuple[int, int, float, float] | None = None
        self._last: tuple[int, int, float, float] | None = None
        self._walls: list[float] = []
        self._notable: list[Notable] = []
        self._left_out = 0
        self._lines = self._bytes = 0

    def take(self, frame: AnyFrame | None, size: int) -> None:
        """The next line of the chunk: its frame, None where that is of no known type, and its bytes."""
        self._lines += 1
        self._bytes += size
        if isinstance(frame, Hello):
            self._hello(frame)
        elif isinstance(frame, Keyframe):
            if self._first is None:
                self._entry = True
            self._at(frame)
            if self._restarted:
                self._restarted = False
                self._note(frame.iteration, frame.wall, "restart", "warn")
            self._events(frame.events, repeated=True)
        elif isinstance(frame, IterationFrame):
            if self._first is None:
                self._base = frame.seq - frame.merged
            self._at(frame)
            self._events(frame.events)
        elif isinstance(frame, Gap):
            self._events(frame.events)
            self._note(self._seen[1], self._seen[2], "gap", "warn")
        elif isinstance(frame, Fault):
            self._note(self._seen[1], self._seen[2], "refused", "error")
        elif isinstance(frame, Bye):
            self._note(self._seen[1], self._seen[2], "leave", "warn")

    def finish(self) -> Summary:
        """What has come since the last call."""
        first, last = self._first, self._last
        dated = first is not None and last is not None
        summary = Summary.model_construct(
            entry=self._entry,
            run=self._run or "",
            protocol=self._protocol,
            lines=self._lines,
            bytes=self._bytes,
            base=self._base,
            seqs=(first[0], last[0]) if dated else None,  # type: ignore[index]
            iterations=(first[1], last[1]) if dated else None,  # type: ignore[index]
            walls=(first[2], last[2]) if dated else None,  # type: ignore[index]
            wall_range=(min(self._walls), max(self._walls)) if dated else None,
            monos=(first[3], last[3]) if dated else None,  # type: ignore[index]
            notable=self._notable,
            notable_left_out=self._left_out,
        )
        self._clear()
        return summary

    def _hello(self, hello: Hello) -> None:
        if self._run not in (None, hello.engine.run):
            self._restarted, self._last_event = True, None
        self._run, self._protocol = hello.engine.run, hello.protocol

    def _at(self, frame: IterationFrame | Keyframe) -> None:
        self._seen = (frame.seq, frame.iteration, frame.wall, frame.mono)
        self._first = self._first or self._seen
        self._last = self._seen
        self._walls.append(frame.wall)

    def _events(self, events: Iterable[Event], *, repeated: bool = False) -> None:
        known = self._last_event
        for event in events:
            if known is not None and event.id <= known:
                continue
            self._last_event = event.id
            if repeated and known is None:
                continue  # from before the recording
            if event.kind in NOTABLE_KINDS or event.severity != "info":
                cost = _cost(event) if event.kind == "preempt" else ()
                self._note(event.iteration, event.wall, event.kind, event.severity, event.request, event.id, cost)

    def _note(
        self,
        iteration: int,
        wall: float,
        kind: str,
        level: str,
        request: int | None = None,
        event: int | None = None,
        cost: "tuple[()] | _Cost" = (),
    ) -> None:
        if len(self._notable) >= MAX_NOTABLE:
            self._left_out += 1
            return
        seq, _, _, mono = self._seen
        self._notable.append(
            Notable(seq, iteration, wall, mono, kind[:MAX_WORD], level[:MAX_WORD], request, event, *cost)
        )


_Cost = tuple[str | None, str | None, int | None, float | None]


def _cost(event: Event) -> _Cost:
    """Of a preemption, in the order of `Notable`'s last fields."""
    by = event.by_id or (None if event.by is None else f"#{event.by}")
    name = None if event.request_id is None else event.request_id[:MAX_WORD]
    return name, None if by is None else by[:MAX_WORD], event.tokens, event.seconds
