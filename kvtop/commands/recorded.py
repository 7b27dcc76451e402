"""Recordings as the shell names them: a file, the one in a bundle, and a moment of it."""

import contextlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kvtop.commands.replay import opened
from kvtop.errors import UserError, one_line
from kvtop.record import Place, Playback, Recording, Tape
from kvtop.state.moment import moment

RECORDING, SUMMARY = "recording.kvtop", "summary.json"

LARGEST = 1 << 32
"""Bytes of a recording that is unpacked from a bundle."""

LARGEST_SUMMARY = 1 << 28


class Recorded(NamedTuple):
    """``at``: the moment that a bundle is about; of a recording its end."""

    tape: Recording
    at: Place


@contextlib.contextmanager
def recorded(path: Path) -> Iterator[Recorded]:
    """The recording in ``path``, a bundle or a recording itself. Raises `UserError` for anything else."""
    if not path.is_file():
        said = "is no file" if path.exists() else "no such file"
        raise UserError(f"{path}: {said}", "a recording, or a bundle: kvtop record, kvtop bundle")
    with contextlib.ExitStack() as stack:
        wall = None
        if zipfile.is_zipfile(path):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kvtop-"))
            unpacked = Path(folder) / RECORDING
            wall = _unpacked(path, unpacked)
            try:
                tape = opened(unpacked)
            except UserError:
                raise UserError(f"{path}: nothing whole is in its {RECORDING}") from None
        else:
            tape = opened(path)
        stack.callback(tape.close)
        end = tape.end if wall is None else tape.at_wall(wall)
        if end is None:
            raise UserError(f"{path}: nothing is recorded there")
        yield Recorded(tape, end)


def _unpacked(bundle: Path, target: Path) -> float | None:
    """Writes the recording of a bundle to ``target``, and returns its moment (Unix seconds), None where it tells none."""
    hint = "a bundle is what kvtop bundle writes"
    try:
        with zipfile.ZipFile(bundle) as parts:
            if parts.getinfo(RECORDING).file_size > LARGEST:
                raise UserError(f"{bundle}: {RECORDING} in it is larger than {LARGEST >> 30} GiB")
            with parts.open(RECORDING) as source, target.open("xb") as file:
                shutil.copyfileobj(source, file)
            if SUMMARY not in parts.namelist() or parts.getinfo(SUMMARY).file_size > LARGEST_SUMMARY:
                return None
            summary = json.loads(parts.read(SUMMARY))
    except KeyError:
        raise UserError(f"{bundle}: no bundle: {RECORDING} is not in it", hint) from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise UserError(f"{bundle}: {one_line(error)}", hint) from None
    except OSError as error:
        raise UserError(f"{bundle}: cannot be unpacked to {target.parent}: {error.strerror or error}") from None
    at = summary.get("moment") if isinstance(summary, dict) else None
    return float(at) if isinstance(at, int | float) else None


def screen_at(tape: Tape, at: Place, size: tuple[int, int]) -> str | None:
    """The screen as it was at ``at``, as SVG; None where nothing is recorded that it could be drawn from."""
    from kvtop.term.environment import prepare_environment

    there = moment(tape, at, lead_s=12.0)
    if there is None:
        return None
    prepare_environment()  # before Textual reads it
    from kvtop.app.picture import screen_svg

    there.state.hold(there.now)
    there.state.playback = Playback(paused=True)  # so that no word of it is one that a live engine has
    return screen_svg(there.state, size, there.now)
