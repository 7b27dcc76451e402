"""The lifeline as cells."""

import pytest

from kvtop.protocol import RequestChange
from kvtop.state.lifeline import Phase, Times, grown
from kvtop.views.columns import _BY_NAME
from kvtop.views.glyphs import ASCII
from kvtop.views.lifeline import LOOKS, WINDOW_S, lifeline, slot
from kvtop.views.requests import RequestsView, request_rows
from kvtop.views.rows import Role
from tests.views.scene import LATER, MONO, check_rows, iteration, scene

START = 10 * WINDOW_S


def line(*phases: tuple[str, float], mono: float = START, width: int = 20) -> str:
    """Of a request that entered these states so many three-hundredths of the window before ``mono``."""
    life, before = b"", None
    for state, part in phases:
        ago = part * WINDOW_S / 300
        now = Times(state, mono - ago, None, None, None, None)
        life = grown(life, before, now, mono - ago, mono - ago)
        before = now
    row = lifeline(life, mono, width)
    check_rows([row], width)
    return row.text


def test_a_cell_shows_what_took_most_of_it() -> None:
    assert line(("waiting", 300.0), ("prefill", 150.0), ("decode", 75.0)) == "▁" * 10 + "▄" * 5 + "█" * 5
    assert line(("decode", 40.0), ("waiting", 20.0)) == " " * 17 + "██▁"
    assert line(("waiting", 200.0), ("finished", 31.0)).rstrip() == " " * 6 + "▁" * 12


def test_a_preemption_is_shown_however_short_it_was() -> None:
    assert line(("decode", 300.0), ("preempted", 100.0), ("decode", 99.5)) == "█" * 13 + "×" + "█" * 6
    assert "s" in line(("decode", 300.0), ("swapped", 100.0), ("decode", 99.5))


def test_the_unknown_is_marked_and_what_came_before_is_blank() -> None:
    assert line(("preempted", 30.0))[-2:] == "××"
    life = grown(b"", None, Times("decode", START - 12, 1.0, 29.0, 0.0, 1), START - 100, START)
    assert lifeline(life, START, 20).text == " " * 13 + "?????██"
    assert lifeline(life, None, 5).text == lifeline(b"", START, 5).text == "     "
    assert lifeline(life, START, 0).text == ""
    assert lifeline(life, START - 10_000, 5).text == lifeline(life, START + 10_000, 3)[0].replace("█", " ") + "  "


@pytest.mark.parametrize("mono", [0.0, 1e-300, 1.7e9, 9e15])
def test_it_is_as_wide_as_it_is_asked_for_at_any_time(mono: float) -> None:
    life = grown(b"", None, Times("decode", mono - 30, None, None, None, None), None, mono)
    for width in (1, 7, 200):
        check_rows([lifeline(life, mono, width)], width)


def test_every_phase_has_a_shape_of_its_own_with_any_characters() -> None:
    glyphs = [look.glyph for look in LOOKS.values()]
    assert set(LOOKS) == set(Phase) - {Phase.ENDED}
    for shapes in (glyphs, [ASCII.text(glyph) for glyph in glyphs]):
        assert len(set(shapes)) == len(glyphs)
        assert " " not in shapes


def test_wide_tables_have_it_with_its_window_in_the_title_and_it_moves_on_by_itself() -> None:
    state, view = scene(), RequestsView(selected=2)
    rows = request_rows(state, view, 110, 8, LATER + 1)
    check_rows(rows, 110, 8)
    at = rows[0].text.index("last 2 min")
    assert rows[1].text[at : at + 20].endswith("█")
    assert set(rows[6].roles[at : at + 20]) == {Role.DIM}  # done
    assert "last 2 min" not in request_rows(state, RequestsView(), 80, 8, LATER)[0].text
    again = request_rows(state, view, 110, 8, LATER + 2)
    assert again[6] is rows[6]
    later = request_rows(state, view, 110, 8, LATER + 13)
    assert later[6].text[at : at + 20] == rows[6].text[at + 2 : at + 20] + "  "
    change = RequestChange(num=1, state="preempted", phase_since=MONO + 5, preemptions=1)
    state.apply(iteration(15, MONO + 5, requests=[change]), LATER + 1)
    assert "×" in request_rows(state, view, 110, 8, LATER + 1)[1].text[at : at + 20]


def test_the_newest_cell_is_under_way_until_the_next_begins() -> None:
    assert [slot(mono, 20) for mono in (12.0, 12.1, 18.0)] == [2, 3, 3]
    assert WINDOW_S / _BY_NAME["life"].width == 6.0  # as the help says
