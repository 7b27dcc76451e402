import resource

import pytest

from kvtop.errors import UserError
from kvtop.load.machine import SPARE_FILES, client_facts, room_for


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What the process may have open, softly and at most."""
    limits = {"soft": 256, "hard": 4096}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limits["soft"], limits["hard"]))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.update(soft=new[0]))
    return limits


def test_the_limit_is_raised_where_that_is_allowed(files: dict[str, int]) -> None:
    assert room_for(500) == 500
    assert files["soft"] == 500 + SPARE_FILES
    assert room_for(100) == 100
    assert files["soft"] == 500 + SPARE_FILES


def test_what_was_asked_for_is_had_or_refused_and_else_there_is_what_fits(files: dict[str, int]) -> None:
    files["hard"] = 300
    assert room_for(None) == 300 - SPARE_FILES
    with pytest.raises(UserError, match="300 files open, which is too few for 900"):
        room_for(900)


def test_the_machine_says_what_it_is() -> None:
    facts = client_facts()
    assert facts.cores >= 1
    assert facts.python.startswith("3.")
