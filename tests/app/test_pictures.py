"""The screens of recorded engines look as they did: every character, and every colour."""

import difflib

import pytest

from tests.app.harness import in_loop
from tests.screens import FOLDER, NAMES, drawn


def test_every_file_is_a_screen() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.txt" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_it_looks_as_before(name: str) -> None:
    @in_loop
    async def run() -> None:
        before, now = (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), await drawn(name)
        if now != before:
            lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "as before", "now", lineterm="", n=1)
            pytest.fail(
                "\n".join([f"{name} looks different; where that is meant: python -m tests.record --screens", *lines]),
                pytrace=False,
            )

    run()
