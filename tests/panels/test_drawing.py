"""Titles, cards and the help: exact widths, nothing lost, everything explained."""

import pytest

from kvtop.app.keys import SECTIONS
from kvtop.views.answer import Answer, outcome
from kvtop.views.block_states import STATES
from kvtop.views.columns import COLUMNS
from kvtop.views.glyphs import ASCII, UNICODE, Glyphs
from kvtop.views.numbers import SECTIONS as NUMBERS
from kvtop.views.rows import HIGHLIGHT, Role, Row
from panels.dialogs.help_text import help_rows
from panels.dialogs.wrapping import wrapped
from panels.panel import title_row, with_rule
from tests.app.live_engine import LiveEngine


@pytest.mark.parametrize("width", [20, 60, 80, 200])
@pytest.mark.parametrize("focused", [False, True])
def test_title_has_its_width_and_shows_focus_without_colour(width: int, focused: bool) -> None:
    row = title_row("requests: 3 running, 4 waiting, 5 done", width, focused, 2, "a note")
    assert len(row.text) == len(row.roles) == width
    assert row.text.startswith("▸2 " if focused else "─2 ")
    assert bool(row.roles[0] & HIGHLIGHT) is focused


def test_long_gaps_become_a_rule_and_short_ones_stay() -> None:
    row = with_rule(Row("a  b        c", bytes(13)))
    assert row.text == "a  b ────── c"
    assert row.roles[5] == Role.BORDER
    assert len(row.roles) == len(row.text)


def test_wrapping_loses_no_word_and_no_width() -> None:
    text = "the quick brown fox " * 8
    rows = wrapped(text, 30, mark="· ")
    assert " ".join(" ".join(row.text for row in rows).replace("·", "").split()) == " ".join(text.split())
    assert all(len(row.text) == len(row.roles) == 30 for row in rows)


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("width", [56, 76, 150])
def test_help_explains_every_key_number_glyph_and_policy(glyphs: Glyphs, width: int) -> None:
    hello = LiveEngine().hello()
    rows = help_rows(width, hello, glyphs, SECTIONS)
    assert all(len(row.text) == len(row.roles) <= width for row in rows)
    text = " ".join(" ".join(row.text for row in rows).split())
    for action in (a for section in SECTIONS for a in section.actions):
        assert glyphs.text(f"{action.shown.split()[0]} ") in text
        assert glyphs.text(action.help).split()[0] in text
    for _, terms in NUMBERS:
        for term in terms:
            assert glyphs.text(" ".join(term.meaning.split()[:3])) in text
    for state in (s.name for s in STATES):
        assert f"{glyphs.state(state)} {state}" in text
    for axis in hello.axes:
        assert axis.name in text
        for choice in axis.choices:
            assert f"{choice}:" in text


def test_outcomes_are_sentences() -> None:
    assert outcome(Answer(True, "", 12, ("a ends",))) == ["took effect at iteration 12", "a ends"]
    assert outcome(Answer(True, "fine")) == ["done", "fine"]
    assert outcome(Answer(False, "no")) == ["refused: no"]
    assert "did not say why" in outcome(Answer(False, ""))[0]


def test_every_column_of_the_requests_table_is_explained() -> None:
    explained = {name.strip() for _, terms in NUMBERS for term in terms for name in term.name.split(",")}
    assert {column.title for column in COLUMNS} - {"id"} <= explained
