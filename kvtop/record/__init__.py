"""Recordings: the protocol's lines in compressed chunks, in a file or in memory; written, found, read."""

from kvtop.record.chunk import ChunkError, NewerFormat, Packed
from kvtop.record.clock import RecordedClock
from kvtop.record.files import Keeping, RecordingFiles
from kvtop.record.playback import Playback
from kvtop.record.reader import Recording, RecordingError
from kvtop.record.redact import without_text
from kvtop.record.ring import Ring, RingTape, TemporaryFiles
from kvtop.record.sink import FileSink, Sink
from kvtop.record.summary import Notable, Summary
from kvtop.record.tape import Damage, Fact, Indexed, Place, Span, Tape
from kvtop.record.writer import Writer

__all__ = [
    "ChunkError",
    "Damage",
    "Fact",
    "FileSink",
    "Indexed",
    "Keeping",
    "NewerFormat",
    "Notable",
    "Packed",
    "Place",
    "Playback",
    "RecordedClock",
    "Recording",
    "RecordingError",
    "RecordingFiles",
    "Ring",
    "RingTape",
    "Sink",
    "Span",
    "Summary",
    "Tape",
    "TemporaryFiles",
    "Writer",
    "without_text",
]
