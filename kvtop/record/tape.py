"""What has been recorded, wherever it is kept: found by frame, iteration or time, read from where reading can start."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvtop.protocol.base import ProtocolError
from kvtop.protocol.codec import AnyFrame
from kvtop.protocol.frames import IterationFrame, Keyframe
from kvtop.protocol.reading import read_frame
from kvtop.record.summary import Notable, Summary

MAX_DIGESTED = 64
"""Chunks that one digest tells of at most."""


class Place(NamedTuple):
    """A moment: just after the frame ``seq`` of the ``run``-th life of the engine in the recording, from 0.

    Places compare in the order in which things were recorded, whatever the clocks said.
    """

    run: int
    seq: int


@dataclass(frozen=True, slots=True)
class Indexed:
    """A chunk as the index knows it. ``number``: counts chunks from the first that ever was, so that it stays its own."""

    number: int
    summary: Summary
    first: Place
    """Of its first frame; of a chunk without any, where the one before it ends."""
    last: Place
    at: int
    """Where the store has it."""


class Fact(NamedTuple):
    """A notable fact and where it is told."""

    place: Place
    fact: Notable


class Span(NamedTuple):
    """Frames that follow one another without a hole. Times are Unix seconds of its first and last frame."""

    first: Place
    last: Place
    wall_first: float
    wall_last: float
    hole: str
    """Why it does not join the one before it; empty for the first."""


class Damage(NamedTuple):
    """Bytes that could not be used."""

    at: int
    """From the start of the file; for memory from the start of its chunk."""
    size: int
    reason: str


class Tape(ABC):
    """One interface over a file (`Recording`) and a ring in memory. Not safe across threads, unless it says so.

    It grows at its end (`refresh`) and may lose its beginning. Chunks are looked at in the order in which they were
    recorded; within one run that is the order of seq, and runs follow one another.
    """

    def __init__(self) -> None:
        self._chunks: list[Indexed] = []
        self._runs: list[str] = []
        self._firsts: list[Place] = []
        self.damage: list[Damage] = []
        """What could not be used so far, in the order in which it was met."""

    # -- what a store adds --------------------------------------------------------------------------------------

    @abstractmethod
    def refresh(self) -> bool:
        """Takes up what has been recorded since. Whether there is something new."""

    @abstractmethod
    def read(self, chunk: Indexed) -> list[bytes]:
        """Its lines without their newlines. None of them where it is damaged, which `damage` tells then."""

    def read_digest(self, chunk: Indexed) -> bytes | None:
        """The line of its digest; None where it has none that is whole."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Lets go of the store. May be repeated."""

    @abstractmethod
    def again(self) -> "Tape":
        """The same store looked at anew, for another thread. Raises OSError, ValueError."""

    def _add(self, number: int, summary: Summary, at: int) -> None:
        last = self._chunks[-1].last if self._chunks else None
        run = len(self._runs) - 1
        if run < 0 or summary.run != self._runs[-1]:
            run += 1
            self._runs.append(summary.run)
            last = None
        elif last is not None and summary.seqs is not None and summary.seqs[0] < last.seq:
            # Not what an engine does; what follows is a stretch of its own then.
            run += 1
            self._runs.append(summary.run)
        if summary.seqs is None:
            first = end = Place(run, -1 if last is None else last.seq)
        else:
            first, end = Place(run, summary.seqs[0]), Place(run, max(summary.seqs))
        self._chunks.append(Indexed(number, summary, first, end, at))
        self._firsts.append(first)

    def _drop(self, chunks: int) -> None:
        """The oldest are gone."""
        del self._chunks[:chunks], self._firsts[:chunks]

    # -- what there is ------------------------------------------------------------------------------------------

    @property
    def chunks(self) -> Sequence[Indexed]:
        """In the order in which they were recorded."""
        return self._chunks

    def chunk(self, number: int) -> Indexed | None:
        """The chunk of that number, or the oldest there is if it is gone; None where it has not come yet."""
        if not self._chunks or number > self._chunks[-1].number:
            return None
        return self._chunks[max(0, number - self._chunks[0].number)]

    def run_name(self, place: Place) -> str:
        """The engine's own name of that run."""
        return self._runs[place.run]

    @property
    def start(self) -> Place | None:
        """The first moment whose state can be told; None where there is none."""
        return next((chunk.first for chunk in self._chunks if chunk.summary.entry), None)

    @property
    def end(self) -> Place | None:
        """The last moment; None where there is none."""
        return next((chunk.last for chunk in reversed(self._chunks) if chunk.summary.seqs is not None), None)

    def spans(self) -> list[Span]:
        """The stretches of time that were recorded, and why there are holes between them."""
        spans: list[Span] = []
        for chunk in self._chunks:
            told = chunk.summary
            if told.seqs is None or told.walls is None:
                continue
            hole = _hole(spans[-1], chunk) if spans else ""
            if hole is None:
                spans[-1] = spans[-1]._replace(last=chunk.last, wall_last=told.walls[1])
            else:
                spans.append(Span(chunk.first, chunk.last, *told.walls, hole))
        return spans

    def notable(self) -> list[Fact]:
        """What one may want to go to, in order."""
        return [
            Fact(Place(chunk.first.run, fact.seq), fact) for chunk in self._chunks for fact in chunk.summary.notable
        ]

    # -- finding a moment ---------------------------------------------------------------------------------------

    def chunk_of(self, place: Place) -> Indexed | None:
        """The chunk with the latest frame at or before ``place``; the first chunk for a place before all."""
        at = bisect_right(self._firsts, place) - 1
        while at > 0 and self._chunks[at].summary.seqs is None:
            at -= 1
        return self._chunks[max(0, at)] if self._chunks else None

    def entry_before(self, place: Place) -> Indexed | None:
        """Where to start reading to know the state at ``place``: the latest chunk at or before it that begins with
        everything. None where there is none in its run."""
        at = bisect_right(self._firsts, place) - 1
        while at >= 0 and self._chunks[at].first.run == place.run:
            if self._chunks[at].summary.entry and self._chunks[at].first <= place:
                return self._chunks[at]
            at -= 1
        return None

    def entry_leading(self, place: Place, seconds: float) -> Indexed | None:
        """The same, so many seconds earlier by the engine's monotonic clock, or the earliest of its run: rates and
        percentiles know only what has been read."""
        entry = self.entry_before(place)
        while entry is not None and seconds > 0.0 and entry.summary.monos is not None:
            before = self.entry_before(Place(entry.first.run, entry.first.seq - 1))
            if before is None or before.summary.monos is None:
                break
            seconds -= max(0.0, entry.summary.monos[0] - before.summary.monos[0])
            entry = before
        return entry

    def at_seq(self, place: Place) -> Place | None:
        """The latest moment at or before ``place``; the start for one before it. None where nothing is recorded."""
        return self._in_chunks(self._back_from(place), lambda frame, run: Place(run, frame.seq) <= place)

    def at_iteration(self, iteration: int, run: int | None = None) -> Place | None:
        """The latest moment in which at most ``iteration`` iterations had ended, in that run, by default the last."""
        run = len(self._runs) - 1 if run is None else run
        chunks = [c for c in self._chunks if c.first.run == run and c.summary.iterations is not None]
        chunks = [c for c in chunks if c.summary.iterations[0] <= iteration] or chunks[:1]  # type: ignore[index]
        return self._in_chunks(reversed(chunks), lambda frame, _: frame.iteration <= iteration)

    def at_wall(self, wall: float) -> Place | None:
        """The moment dated closest at or before ``wall`` (Unix seconds); of several with that date the latest. The start
        for a time before all. None where nothing is recorded.

        Where the engine's clock was set back, some times were twice, and the closest date may be in either part.
        """
        best: tuple[float, Place] | None = None
        dated = [c for c in self._chunks if c.summary.wall_range is not None]
        nearest = sorted(dated, key=lambda c: (min(c.summary.wall_range[1], wall), c.number), reverse=True)  # type: ignore[index]
        for chunk in nearest:
            low, high = chunk.summary.wall_range or (0.0, 0.0)
            if low > wall:
                continue
            if best is not None and (min(high, wall), chunk.last) < best:
                break
            for frame in self._dated(chunk):
                found = (frame.wall, Place(chunk.first.run, frame.seq))
                if frame.wall <= wall and (best is None or found >= best):
                    best = found
        return self.start if best is None else best[1]

    def next_place(self, place: Place) -> Place | None:
        """The moment of the frame after ``place``; None at the end."""
        chunk = self.chunk_of(place)
        if chunk is None:
            return None
        for later in self._chunks[chunk.number - self._chunks[0].number :]:
            if later.last > place:
                for frame in self._dated(later):
                    if (found := Place(later.first.run, frame.seq)) > place:
                        return found
        return None

    def previous_place(self, place: Place) -> Place | None:
        """The moment of the frame before ``place``; None at the start."""
        return self._in_chunks(
            self._back_from(place), lambda frame, run: Place(run, frame.seq) < place, otherwise_start=False
        )

    def _back_from(self, place: Place) -> Iterator[Indexed]:
        chunk = self.chunk_of(place)
        if chunk is not None:
            yield from reversed(self._chunks[: chunk.number - self._chunks[0].number + 1])

    def _in_chunks(self, chunks: Iterable[Indexed], fits: "_Fits", otherwise_start: bool = True) -> Place | None:
        """The latest frame in the first of ``chunks`` that has one that fits."""
        start = self.start
        for chunk in chunks:
            if chunk.summary.seqs is None:
                continue
            for frame in reversed(list(self._dated(chunk))):
                place = Place(chunk.first.run, frame.seq)
                if fits(frame, place.run) and (start is None or place >= start):
                    return place
        return start if otherwise_start else None

    # -- reading ------------------------------------------------------------------------------------------------

    def lines(self, first: Indexed, until: Place | None = None) -> Iterator[bytes]:
        """From the chunk ``first`` on, whole chunks, up to the one with ``until``."""
        for chunk in self._from(first, until):
            yield from self.read(chunk)

    def frames(self, first: Indexed, until: Place | None = None) -> Iterator[AnyFrame]:
        """From the chunk ``first`` on, up to and with the moment ``until``. What this version does not know is left out."""
        for chunk in self._from(first, until):
            for frame in self._frames(chunk):
                if (
                    until is not None
                    and isinstance(frame, IterationFrame | Keyframe)
                    and Place(chunk.first.run, frame.seq) > until
                ):
                    return
                yield frame

    def folded(self, first: Indexed, until: Place) -> Iterator[tuple[Indexed, AnyFrame]]:
        """As `frames`, each with its chunk, to the same state: where the recording has frames merged into one, these."""
        seq: int | None = None
        number = first.number
        while (chunk := self.chunk(number)) is not None and chunk.first <= until:
            number = chunk.number + 1
            for frame in (None, *self._frames(chunk)):
                if frame is not None:
                    if isinstance(frame, IterationFrame | Keyframe):
                        if Place(chunk.first.run, frame.seq) > until:
                            return
                        seq = frame.seq
                    yield chunk, frame
                if isinstance(frame, Keyframe | None) and (found := self._digest(chunk, seq, until)) is not None:
                    yield found
                    seq, number = found[1].seq, found[0].number + 1
                    break

    def _digest(self, chunk: Indexed, seq: int | None, until: Place) -> tuple[Indexed, IterationFrame] | None:
        """One frame for all from ``seq`` on up to the end of ``chunk`` or one behind it."""
        for number in range(chunk.number, chunk.number + MAX_DIGESTED if seq is not None else 0):
            later = self.chunk(number)
            if later is None or later.last > until or later.first.run != chunk.first.run:
                return None
            if later.summary.entry and later is not chunk:
                return None
            if later.summary.digest_base == seq and (line := self.read_digest(later)) is not None:
                try:
                    frame = read_frame(line).frame
                except ProtocolError:
                    return None
                fits = isinstance(frame, IterationFrame) and frame.seq - frame.merged == seq
                return (later, frame) if fits and frame.seq == later.last.seq else None  # type: ignore[union-attr, return-value]
        return None

    def frames_of(self, chunk: Indexed) -> list[AnyFrame]:
        """All of one chunk."""
        return list(self._frames(chunk))

    def _from(self, first: Indexed, until: Place | None) -> Iterator[Indexed]:
        number = first.number
        while (chunk := self.chunk(number)) is not None and (until is None or chunk.first <= until):
            yield chunk
            number = chunk.number + 1

    def _frames(self, chunk: Indexed) -> Iterator[AnyFrame]:
        for number, line in enumerate(self.read(chunk), 1):
            try:
                frame = read_frame(line).frame
            except ProtocolError as error:
                self._damaged(Damage(chunk.at, len(line), f"line {number} of its chunk: {error}"))
                continue
            if frame is not None:
                yield frame

    def _dated(self, chunk: Indexed) -> Iterator[IterationFrame | Keyframe]:
        return (frame for frame in self._frames(chunk) if isinstance(frame, IterationFrame | Keyframe))

    def _damaged(self, damage: Damage) -> None:
        if damage not in self.damage:
            self.damage.append(damage)


_Fits = Callable[[IterationFrame | Keyframe, int], bool]


def _hole(span: Span, chunk: Indexed) -> str | None:
    """Why ``chunk`` does not join ``span``; None where it does."""
    told = chunk.summary
    if chunk.first.run != span.last.run:
        return "the engine was restarted"
    follows = chunk.first.seq if told.entry else told.base
    if follows is None or follows <= span.last.seq:
        return None
    return f"frames {span.last.seq + 1} to {follows} are missing"
