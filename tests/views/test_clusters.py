"""Names in any script: as many characters as cells, and the same name again when spelled."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.views import clusters
from kvtop.views.clusters import CONTINUATION, in_cells, spell, spell_out, whole
from kvtop.views.fit import line
from kvtop.views.format import fixed
from kvtop.views.rows import Role, clean
from tests.views.scene import cells_drawn


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("chat-1", 6),
        ("チャット-1", 10),
        ("漢字", 4),
        ("한국어", 6),
        (unicodedata.normalize("NFD", "한국어"), 6),
        ("caf\u00e9", 4),
        ("cafe\u0301", 4),
        ("x\u0331\u0302y", 2),
        ("👍", 2),
        ("👍🏽", 2),
        ("👩‍👩‍👧", 2),
        ("🏳️‍🌈", 2),
        ("❤️", 2),
        ("1️⃣", 2),
        ("🇩🇪🇫🇷", 4),
        ("שלום", 4),
        ("ＦＵＬＬ", 8),
        ("🫩", 2),  # newer than Python 3.11
    ],
)
def test_a_name_takes_its_true_width_and_is_drawn_in_full(name: str, width: int) -> None:
    cells = in_cells(name)
    assert len(cells) == width
    assert spell(cells) == unicodedata.normalize("NFC", name)
    assert in_cells(cells) == cells
    assert clean(clean(name)) == cells


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\u202edrawkcab", "drawkcab"),
        ("a\u200fb\u2066c\u2069\ufeff", "abc"),
        ("\u0301x", "x"),
        ("a\x1b[2Jb", "a?[2Jb"),
        ("a\ud800b\ue000\U000f4321", "a?b??"),
        ("a\u00a0b\u3000c", "a b  c"),
        ("a" + "\u0335" * 40, "a" + "\u0335" * 4),
        ("👍\u200d", "👍"),
    ],
)
def test_what_is_no_text_stays_out(name: str, shown: str) -> None:
    assert spell(in_cells(name)) == shown


@given(st.text(max_size=60), st.integers(0, 40))
def test_whatever_is_cut_keeps_its_width(name: str, width: int) -> None:
    assert cells_drawn(fixed(name, width)) == width
    assert cells_drawn(line([(clean(name), Role.TEXT)], width).text) == width
    cells = clean(name)
    assert cells_drawn(cells[width:]) == len(cells[width:])


def test_half_of_a_character_is_a_blank() -> None:
    cells = in_cells("漢字")
    assert spell(whole(cells[:3])) == "漢 "
    assert spell(whole(cells[1:])) == " 字"
    assert spell(whole(fixed("漢字", 2))) == " …"


def test_a_cluster_that_terminals_disagree_on_is_held_to_two_cells() -> None:
    family = spell_out(in_cells("👩‍👩‍👧"))
    assert family == "\x1b7  \x1b8\x1b7👩‍👩‍👧\x1b8\x1b[2C"
    assert spell_out(in_cells("漢e\u0331")) == "漢e\u0331"


def test_more_clusters_than_there_is_room_for_lose_their_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    table = clusters._Table()
    table._next = dict(table._ends)
    monkeypatch.setattr(clusters, "_TABLE", table)
    assert in_cells("x\u0331漢y") == "x??y"
    assert CONTINUATION not in in_cells("👩‍👩‍👧")
