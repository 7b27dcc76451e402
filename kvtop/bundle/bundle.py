"""The one file: a zip with the story, the page, the recording it was told from, the screens, and the figures at the moment."""

import contextlib
import json
import os
import secrets
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvtop.bundle.cut import cut
from kvtop.bundle.pseudonyms import Pseudonyms
from kvtop.bundle.report import report
from kvtop.bundle.story import Story, StoryError, story
from kvtop.bundle.summary import environment, summary_document, summary_text
from kvtop.errors import UserError
from kvtop.protocol.codec import AnyFrame
from kvtop.record import FileSink, Place, Recording, Tape, without_text
from kvtop.snapshot.files import MOST_ALIKE, file_name
from kvtop.state.moment import moment
from kvtop.views.openmetrics import openmetrics

AGAIN = "give another place: kvtop bundle … -o FILE"
RECORDING, REPORT, SUMMARY, SUMMARY_JSON, METRICS = (
    "recording.kvtop",
    "report.html",
    "summary.md",
    "summary.json",
    "metrics.txt",
)

README = """\
An incident bundle of kvtop. No prompts and no generated text are in it.

summary.md       what happened, to be read
report.html      the same to be gone through moment by moment, in any browser, without a network
summary.json     the same for programs
recording.kvtop  what it was told from: kvtop replay recording.kvtop
metrics.txt      gauges and counters at the moment, as OpenMetrics
*.svg            the screen at the moment
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What goes into a bundle: from ``before`` seconds before ``moment`` to ``after`` seconds after it. ``redact``: ids of
    requests, classes and hosts have other names. ``screens``: name -> SVG."""

    moment: Place
    before: float = 300.0
    after: float = 60.0
    redact: bool = False
    screens: Mapping[str, str] = field(default_factory=dict)


def write_bundle(tape: Tape, wanted: Wanted, place: Path) -> tuple[Path, Story]:
    """Writes the bundle to ``place``, or under a name of its own where that is a folder; whole or not at all, 0600.

    Raises `UserError` where it cannot be written, or there is nothing to tell.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="kvtop-bundle-") as folder:
            return _write(tape, wanted, place, Path(folder))
    except StoryError as error:
        raise UserError(f"no bundle: {error}") from None
    except OSError as error:
        raise UserError(f"no bundle at {place}: {error.strerror or error}", AGAIN) from None


def _write(tape: Tape, wanted: Wanted, place: Path, folder: Path) -> tuple[Path, Story]:
    first, last = around(tape, wanted)
    names = Pseudonyms() if wanted.redact else None

    def rewrite(line: bytes, frame: AnyFrame) -> tuple[bytes, AnyFrame]:
        line, told = without_text(line, frame)
        return (line, told or frame) if names is None else names.line(line, told or frame)

    sink = FileSink(folder / RECORDING, forced=False)
    try:
        cut(tape, first, last, sink, rewrite)
    finally:
        sink.close()
    # Everything is told from what is in the bundle: so nothing else can be in it.
    own = Recording(folder / RECORDING)
    try:
        told = story(own, _same(own, first), own.end or first, _same(own, wanted.moment))
        told.damage = [*dict.fromkeys([*_damage(tape), *told.damage])]
        texts = {
            "README.txt": README,
            SUMMARY: summary_text(told),
            REPORT: report(told),
            SUMMARY_JSON: _json(summary_document(told, environment(host=not wanted.redact))),
            METRICS: _metrics(own, _same(own, wanted.moment)),
            **({} if wanted.redact else wanted.screens),
        }
    finally:
        own.close()
    return _zip(texts, folder / RECORDING, place, told), told


def around(tape: Tape, wanted: Wanted) -> tuple[Place, Place]:
    """The first and the last moment of the stretch, as far as it is recorded."""
    start, end = tape.start, tape.end
    if start is None or end is None:
        raise StoryError("nothing has been recorded yet")
    at = moment(tape, wanted.moment)
    if at is None or at.state.wall is None:
        raise StoryError("that moment cannot be told: what is recorded of it is damaged or gone")
    first = tape.at_wall(at.state.wall - wanted.before) or start
    last = tape.at_wall(at.state.wall + wanted.after) or end
    # Where clocks were set the dates may lead elsewhere; the moment itself is always within.
    return min(max(start, first), at.place), min(end, max(last, at.place))


def _same(own: Recording, place: Place) -> Place:
    """The same moment in the part that was cut out, where runs are counted from its own first."""
    for run in range(len(own.spans()) or 1):
        candidate = Place(run, place.seq)
        chunk = own.chunk_of(candidate)
        if chunk is not None and chunk.first <= candidate <= chunk.last:
            return candidate
    return own.start or place


def _damage(tape: Tape) -> list[str]:
    return [f"{damage.size} bytes at {damage.at}: {damage.reason}" for damage in tape.damage]


def _metrics(own: Recording, place: Place) -> str:
    at = moment(own, place)
    return "" if at is None else openmetrics(at.state)


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _zip(texts: Mapping[str, str], recording: Path, place: Path, told: Story) -> Path:
    stem = f"kvtop-bundle-{file_name(told.hello.engine.name)}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(told.moment))}"
    folder, names = (place, _free(stem)) if place.is_dir() else (place.parent, iter([place.name]))
    partial = folder / f".kvtop-{secrets.token_hex(8)}.partial"
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
                for name, text in texts.items():
                    bundle.writestr(name, text.encode(errors="replace"))
                bundle.write(recording, RECORDING, zipfile.ZIP_STORED)  # compressed already
            file.flush()
            os.fsync(file.fileno())
        for name in names:
            with contextlib.suppress(FileExistsError):
                os.link(partial, folder / name)
                return folder / name
        raise UserError(f"{place} exists", AGAIN)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def _free(stem: str) -> Iterator[str]:
    return (f"{stem}{f'-{number}' if number > 1 else ''}.zip" for number in range(1, MOST_ALIKE))
