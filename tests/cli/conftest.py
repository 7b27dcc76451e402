import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A socket folder of our own. Short: the path of a Unix socket has about a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="kvt") as name:
        os.chmod(name, 0o700)
        yield Path(name)
