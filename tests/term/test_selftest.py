"""The check at start finds a Textual that is not as the front buffer knows it."""

import pytest
from textual._compositor import ChopsUpdate
from textual.app import App

from kvtop.term import selftest
from kvtop.term.cell_buffer import CellBuffer

check = selftest.problem.__wrapped__


def test_nothing_is_wrong_with_this_textual() -> None:
    assert check() == ""


def test_a_name_that_went_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "_NAMES", ((App, ("_display", "_gone")),))
    assert check() == "Textual's App has no _gone"


def test_other_arguments_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(App, "_display", lambda self, renderable: None)
    assert "other arguments" in check()


def test_updates_that_paint_elsewhere_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ChopsUpdate.render_segments
    monkeypatch.setattr(ChopsUpdate, "render_segments", lambda self, console: before(self, console).replace("X", "x"))
    assert "paint something else" in check()


def test_a_check_that_fails_itself_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CellBuffer, "flush", lambda self: 1 / 0)
    assert check() == "the check failed with ZeroDivisionError"


def test_an_app_without_the_state_is_noticed() -> None:
    app: App[None] = App()
    assert selftest.problem_of(app) == ""
    del app._sync_available
    assert selftest.problem_of(app) == "Textual's App has no _sync_available"
