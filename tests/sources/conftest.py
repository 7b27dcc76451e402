"""A short folder for sockets: their paths may be 107 bytes at most."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kv") as name:
        yield Path(name)
