import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from kvtop.settings.definitions import DEFINITIONS

if "PYTEST_XDIST_WORKER" in os.environ:
    # One worker a core: threads of torch beyond that only wait for each other. Before anything imports torch.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# What the user of this machine has set is not what is tested.
for name in ("KVTOP_CONFIG", *(definition.variable for definition in DEFINITIONS)):
    os.environ.pop(name, None)
# Nor is what tests and their engines write this user's. As root even /nonexistent can be made.
_STATE = tempfile.TemporaryDirectory(prefix="kvtop-state")
os.environ["XDG_STATE_HOME"] = _STATE.name
os.environ["XDG_CONFIG_HOME"] = f"{_STATE.name}/config"

# Asserts of modules that are no tests say what was found only where they are named here.
pytest.register_assert_rewrite("tests.app.key_checks")

# Containers often set this. Without bytecode each worker, and each of the many processes that tests start, compiles anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No example is judged by how long it took: the machine may be busy with other things.
settings.register_profile("kvtop", deadline=None)
settings.load_profile("kvtop")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A socket folder of our own. Short: the path of a Unix socket has about a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="kv") as name:
        yield Path(name)
