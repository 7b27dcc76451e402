from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.http.kit import Serving


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One engine for the tests of a file; each leaves it with nothing to do, and nothing has failed in it."""
    folder = tmp_path_factory.mktemp("h")
    it = Serving(folder, max_running=64)
    yield it
    it.until(lambda: it.idle)
    it.close()
    assert it.faults == []
    assert it.engine.scheduler.ledger_violations() == []


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Serving]:
    """One for this test alone."""
    it = Serving(tmp_path)
    yield it
    it.close()
