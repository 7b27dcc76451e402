"""A stretch of a recording as a recording of its own."""

from collections.abc import Callable

from kvtop.protocol.base import ProtocolError
from kvtop.protocol.codec import AnyFrame
from kvtop.protocol.frames import IterationFrame, Keyframe
from kvtop.protocol.reading import read_frame
from kvtop.record import Place, RecordedClock, Sink, Tape, Writer

Rewrite = Callable[[bytes, AnyFrame], tuple[bytes, AnyFrame]]
"""A line and what it says, as they are to be kept."""


def cut(tape: Tape, first: Place, last: Place, sink: Sink, rewrite: Rewrite) -> None:
    """Writes the lines from where the state at ``first`` can be known up to ``last`` into ``sink``, and closes it.

    Lines of types that this version does not know are left out: nobody can say what is in them. Raises OSError.
    """
    clock = RecordedClock()
    writer = Writer(sink, clock=lambda: clock.now)
    entry = tape.entry_before(first) or next(chunk for chunk in tape.chunks if chunk.summary.entry)
    for chunk in tape.chunks[entry.number - tape.chunks[0].number :]:
        if chunk.first > last:
            break
        for line in tape.read(chunk):
            try:
                frame = read_frame(line).frame
            except ProtocolError:
                continue  # the tape has told of it
            if frame is None:
                continue
            if isinstance(frame, IterationFrame | Keyframe):
                if Place(chunk.first.run, frame.seq) > last:
                    break
                clock.take(frame.mono, frame.wall)
            writer.work()
            writer.take(*rewrite(line, frame))
            if writer.trouble is not None:
                raise OSError(writer.trouble)
    writer.close()
    if writer.trouble is not None:
        raise OSError(writer.trouble)
