"""A file that appears whole under its name or not at all, and never over another."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from kvtop.errors import UserError


@contextlib.contextmanager
def whole_file(place: Path, hint: str) -> Iterator[IO[bytes]]:
    """What the body writes; mode 0600. However it ends, nothing half done is left. Raises `UserError`."""
    if place.exists() or place.is_symlink():
        raise UserError(f"{place} exists", hint)
    partial = place.with_name(f".kvtop-{secrets.token_hex(8)}.partial")
    taken = False
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", 1 << 20) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        taken = True
        os.replace(partial, place)
        taken = False
    except FileExistsError:
        raise UserError(f"{place} exists", hint) from None
    except OSError as error:
        raise UserError(f"cannot write {place}: {error.strerror or error}", hint) from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
        if taken:
            with contextlib.suppress(OSError):
                place.unlink()
