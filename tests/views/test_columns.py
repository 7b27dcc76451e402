"""Which columns a user can ask for."""

import pytest

from kvtop.views.columns import NAMES, choose, columns_for
from kvtop.views.format import part_of
from panels.dialogs.columns_form import ColumnsForm, meaning


def test_the_chosen_ones_stand_in_their_order_and_the_lightest_go_first_where_room_is_short() -> None:
    chosen = choose(["wait", " State", "label", "id"])
    assert chosen == ("wait", "state", "label", "id")
    assert [column.name for column, _ in columns_for(200, None, chosen)] == list(chosen)
    assert [column.name for column, _ in columns_for(25, None, chosen)] == ["wait", "state", "id"]
    assert choose(["wait"]) == ("id", "wait")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["state", "promt"], "there is no column 'promt'; columns are id, state, priority"),
        (["\x1b[31m" * 100], "there is no column '?[31m"),
        ([], "no column is named; columns are id"),
        ([""], "a column has no name"),
        (["wait", "WAIT"], "the column wait is there twice"),
    ],
)
def test_what_is_no_choice_is_said(names: list[str], said: str) -> None:
    with pytest.raises(ValueError, match="column") as caught:
        choose(names)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_form_moves_ticks_and_begins_again() -> None:
    form = ColumnsForm(("id", "wait"))
    assert form.names[:3] == ["id", "wait", "state"]
    form.toggle("state")
    form.move("state", -2)
    form.move("id", -9)
    assert form.chosen == ("id", "state", "wait")
    form.move("id", 99)
    assert form.chosen == ("state", "wait", "id")
    form.toggle("id")
    assert (form.chosen, form.note[:6]) == (("state", "wait", "id"), "the id")
    form.reset()
    assert form.chosen == NAMES
    assert sorted(form.names) == sorted(NAMES)
    assert [name for name in NAMES if name != "id" and not meaning(name)] == []


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (512, 4096, "512/4096"),
        (9999, 9999, "9999/9999"),
        (12_345, 45_678, "12.3k/46k"),
        (9_960, 131_072, "9960/131k"),
        (12_345, 131_072, "12k/131k"),
        (1_250_000, 9_990_000, "1.25M/10M"),
        (10**20, 10**20, "huge/huge"),
        (None, 100, "–/100"),
    ],
)
def test_a_part_of_a_whole_is_told_in_nine_cells(part: int | None, whole: int, text: str) -> None:
    assert part_of(part, whole, 9) == text
    assert len(text) <= 9
