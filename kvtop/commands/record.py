"""``kvtop record NAME|SOCKET``: an engine's lines to files, without a screen."""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from kvtop.commands.rewritten import RewrittenLine
from kvtop.commands.target import find_engine
from kvtop.commands.tty import Terminated, signals_raise
from kvtop.errors import UserError, one_line
from kvtop.protocol.hello import Hello
from kvtop.record import FileSink, Keeping, Packed, RecordingFiles, Sink
from kvtop.sources.base import LinkDown
from kvtop.sources.recorder import Recorder
from kvtop.sources.socket import SocketSource
from kvtop.views.format import age, size

MIB = 1 << 20
FILE_MIB = 64.0
TURN_S = 0.1
SHOWN_EVERY_S = 1.0


def run(options: argparse.Namespace) -> int:
    found = find_engine(options.target)
    told = _Told(sys.stderr)
    written = _Counted(_store(options, found.name, told.begun))
    recorder = Recorder(written, keep_text=options.with_text, tell=told.say)
    source = SocketSource(found.path, client="kvtop record", history=recorder)
    lost_for_good = False
    with signals_raise():
        try:
            source.start()
            lost_for_good = _record(source, recorder, written, told, options.seconds)
        except Terminated:
            pass  # the way to end it
        finally:
            source.close()
            told.end()
    if not recorder.chunks:
        if isinstance(written.store, FileSink):
            written.store.path.unlink(missing_ok=True)
        raise UserError(
            f"nothing was recorded of {found.name}: {recorder.trouble or told.link or 'it sent nothing'}", ""
        )
    return 1 if lost_for_good or recorder.trouble is not None or written.failed else 0


def _record(
    source: SocketSource, recorder: Recorder, written: "_Counted", told: "_Told", seconds: float | None
) -> bool:
    """Until ``seconds`` are over; earlier, with True, where the source gives up or the recorder has."""
    began, shown = time.monotonic(), float("-inf")
    while seconds is None or time.monotonic() < began + seconds:
        for item in source.poll():
            if isinstance(item, LinkDown):
                told.down(item)
                if not item.retrying:
                    return True
            elif isinstance(item, Hello):
                told.up()
        if recorder.failure is not None:
            return True
        now = time.monotonic()
        if now - shown >= SHOWN_EVERY_S:
            shown = now
            state = recorder.trouble or told.link or "recording"
            told.progress(f"{one_line(state)}: {age(now - began)}, {size(written.bytes)} written")
        time.sleep(TURN_S)
    return False


def _store(options: argparse.Namespace, name: str, begun: Callable[[Path], None]) -> Sink:
    """Raises `UserError` for a place that cannot be."""
    output = Path(options.output) if options.output else Path()
    folder = options.output is None or output.is_dir() or str(options.output).endswith("/")
    divided = {"--max-mib": options.max_mib, "--keep-mib": options.keep_mib, "--keep-hours": options.keep_hours}
    if not folder:
        given = next((name for name, value in divided.items() if value is not None), None)
        if given is not None:
            raise UserError(f"{given} is for recordings in a folder, and {output} is a file", "-o FOLDER/", code=2)
        try:
            sink = FileSink(output)
        except FileExistsError:
            raise UserError(f"{output} exists", "give another name: kvtop record -o FILE") from None
        except OSError as error:
            raise UserError(f"{output}: {error.strerror}", "give another place: kvtop record -o FILE") from None
        begun(output)
        return sink
    keeping = Keeping(
        round((options.max_mib or FILE_MIB) * MIB),
        None if options.keep_mib is None else round(options.keep_mib * MIB),
        None if options.keep_hours is None else 3600.0 * options.keep_hours,
    )
    try:
        output.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{output}: {error.strerror}", "give another place: kvtop record -o FOLDER/") from None
    return RecordingFiles(output, name, keeping, begun=begun)


@dataclass
class _Counted:
    """A store, with what has been written to it."""

    store: Sink
    bytes: int = 0
    failed: bool = False
    """Something could not be written, if only for a while."""

    def append(self, chunks: Sequence[Packed]) -> None:
        try:
            self.store.append(chunks)
        except OSError:
            self.failed = True
            raise
        self.bytes += sum(len(chunk.blob) for chunk in chunks)

    def close(self) -> None:
        self.store.close()


class _Told:
    """What is said on standard error: a line that rewrites itself on a terminal, and sentences."""

    def __init__(self, stream: TextIO) -> None:
        self._line = RewrittenLine(stream)
        self.link: str | None = "connecting"
        """Why nothing comes; None while the engine is there."""

    def progress(self, text: str) -> None:
        if self._line.terminal:
            self._line.show(text)

    def begun(self, path: Path) -> None:
        """A file's path, on standard output."""
        self._line.clear()  # which may be on the same terminal
        with contextlib.suppress(OSError):  # whoever closed it does not want to know
            print(path, flush=True)

    def say(self, sentence: str) -> None:
        self._line.end()
        self._line.put(f"kvtop: {one_line(sentence)}\n")

    def down(self, item: LinkDown) -> None:
        self.link = f"{item.reason}; waiting for it" if item.retrying else item.reason
        self.say(self.link)

    def up(self) -> None:
        if self.link not in (None, "connecting"):
            self.say("connected again")
        self.link = None

    def end(self) -> None:
        self._line.end()
