"""A snapshot's files, and those of other results: names that are free and mean something, contents that appear whole or not at
all."""

import contextlib
import os
import secrets
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvtop.alarms import Report
from kvtop.errors import UserError
from kvtop.snapshot.document import pieces, snapshot_document
from kvtop.state import EngineState

LONGEST_NAME = 100
"""Bytes of an engine's name in a file's; file systems take 255 for all of it."""

WRITTEN_AT_ONCE = 1 << 20
"""Bytes. Few writes, each a long one: a thread that lets go of the interpreter a thousand times a second, and takes it back
before another has woken up, kept the screen's from it for 470 ms; that one insists only after a millisecond without any."""

MOST_ALIKE = 10_000
"""Snapshots of one engine in one second after which something is wrong."""


AGAIN = "give another place: kvtop snapshot FILE"


class NameTakenError(UserError):
    """There is a file of that name."""


def write_snapshot(
    state: EngineState,
    folder: Path,
    svg: str | None,
    now: float,
    wall: float | None = None,
    alarms: Report | None = None,
) -> list[Path]:
    """Writes the snapshot of ``state`` into ``folder`` under a name of its own and returns the files.

    ``svg``: the screen, to be written beside it. ``now``: the viewer's monotonic clock; ``wall``: Unix seconds, by
    default of this moment. ``alarms``: what the watch has found in it. ``state`` is only read: with one that stands still any thread may do this.
    Raises UserError where the files cannot be written, ValueError where no engine has been heard yet.
    """
    wall = time.time() if wall is None else wall
    document = snapshot_document(state, wall, now, alarms)
    assert state.hello is not None
    return save_new(document, folder, state.hello.engine.name, wall, svg)


def save_new(document: Mapping[str, Any], folder: Path, engine: str, wall: float, svg: str | None = None) -> list[Path]:
    """`save` under `default_stem`, with ``-2``, ``-3``, … behind it while that is taken. Raises `UserError` as `save`."""
    stem = default_stem(engine, wall)
    for number in range(1, MOST_ALIKE):
        with contextlib.suppress(NameTakenError):
            return _save(document, folder / f"{stem}{f'-{number}' if number > 1 else ''}.json", svg)
    raise UserError(f"{folder} has {MOST_ALIKE - 1:,} snapshots named {stem}", AGAIN)


def save(document: Mapping[str, Any], path: Path, svg: str | None = None) -> list[Path]:
    """Writes ``path`` (JSON) and, with ``svg``, the same name ending in ``.svg``; mode 0600, never over an existing file.

    Returns what was written. Raises `UserError` (`NameTakenError` where there is such a file) and leaves nothing behind
    where it cannot.
    """
    return _save(document, path, svg)


def save_texts(contents: Mapping[Path, Iterable[str]], hint: str, mode: int = 0o600) -> list[Path]:
    """`save` of any texts, with the ``mode`` of their files and a ``hint`` what to do where they cannot be written."""
    taken: list[Path] = []
    try:
        for place in contents:
            _take(place, hint, mode)
            taken.append(place)
        for place, content in contents.items():
            _fill(place, content, mode)
    except BaseException as error:
        _remove(taken)
        if not isinstance(error, OSError):
            raise
        place = next(iter(contents))
        raise UserError(f"cannot write {place}: {error.strerror}", hint) from None
    return list(contents)


def default_stem(engine: str, wall: float) -> str:
    """Name of a snapshot without its ending: which engine, when (local time)."""
    return f"kvtop-{file_name(engine)}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(wall))}"


def file_name(name: str) -> str:
    """``name`` as part of a file's: letters and digits of any script that the file system takes, ``.``, ``-``, ``_``.

    Whatever else is in it becomes ``_``: an engine says what it is called, and no name of it may lead elsewhere or be
    more than a name to a shell.
    """
    encoding = sys.getfilesystemencoding()
    kept = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
    kept = kept.encode(encoding, "replace").decode(encoding).replace("?", "_")
    return kept.encode(encoding)[:LONGEST_NAME].decode(encoding, "ignore") or "engine"


def _save(document: Mapping[str, Any], path: Path, svg: str | None) -> list[Path]:
    contents: dict[Path, Iterable[str]] = {path: pieces(document)}
    if svg is not None:
        contents[path.with_suffix(".svg")] = [svg]
    return save_texts(contents, AGAIN)


def _take(path: Path, hint: str, mode: int) -> None:
    """Makes an empty file under a name that was free."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    except FileExistsError:
        raise NameTakenError(f"{path} exists", hint) from None


def _fill(path: Path, content: Iterable[str], mode: int) -> None:
    """The content appears whole under its name."""
    partial = path.with_name(f".kvtop-{secrets.token_hex(8)}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb", WRITTEN_AT_ONCE) as file:
            for text in content:
                file.write(text.encode(errors="replace"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        _remove([partial])
        raise


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
