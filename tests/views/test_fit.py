"""Lines give way part by part and keep their width."""

from hypothesis import given
from hypothesis import strategies as st

from kvtop.views.fit import cut, exactly, fit, part, wrap
from kvtop.views.rows import Role, Row
from tests.views.scene import check_rows

LONG = part(10, "a long form", "short", "")
FIRM = part(50, "12345 of 67890")


def test_what_fits_is_shown_in_full() -> None:
    assert fit([LONG, FIRM], 40).text.rstrip() == "a long form · 12345 of 67890"


def test_the_lighter_part_shortens_then_goes_and_the_firm_one_stays_whole() -> None:
    assert fit([LONG, FIRM], 24).text.rstrip() == "short · 12345 of 67890"
    assert fit([LONG, FIRM], 20).text.rstrip() == "12345 of 67890"


def test_all_parts_are_shortened_before_one_goes() -> None:
    parts = [part(10, "aaaaaaaa", "aa", ""), part(15, "bbbbbbbb", "bb", "")]
    assert fit(parts, 10).text.rstrip() == "aa · bb"


def test_the_right_part_stands_at_the_edge() -> None:
    assert fit([FIRM], 30, part(99, "live")).text == "12345 of 67890            live"


def test_a_line_that_cannot_fit_is_marked_as_cut() -> None:
    assert fit([FIRM], 6).text == "12345…"


def test_words_wrap_and_the_last_row_says_that_there_was_more() -> None:
    rows = wrap([("one two", Role.TEXT), ("three four five", Role.WARN)], 9, 2)
    assert [row.text for row in rows] == ["one two  ", "three fo…"]
    assert rows[1].roles == bytes((Role.WARN,)) * 9
    assert rows[0].roles == bytes((Role.TEXT,)) * 9


parts = st.builds(
    lambda weight, forms: part(weight, *sorted(forms, key=len, reverse=True)),
    st.integers(0, 99),
    st.lists(st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=30), min_size=1, max_size=3),
)


@given(st.lists(parts, max_size=5), st.integers(0, 60), st.one_of(st.none(), parts))
def test_any_line_has_its_width(some: list, width: int, right: object) -> None:  # type: ignore[type-arg]
    check_rows([fit(some, width, right)], width)  # type: ignore[arg-type]


@given(
    st.text(st.characters(codec="ascii", categories=["L", "Zs"]), max_size=80), st.integers(1, 20), st.integers(1, 4)
)
def test_wrapped_rows_have_their_width(text: str, width: int, lines: int) -> None:
    rows = wrap([(text, Role.TEXT)], width, lines)
    assert len(rows) <= lines
    check_rows(rows, width)


def test_rows_are_cut_and_padded() -> None:
    row = Row("abc", bytes(3))
    assert cut(row, 2).text == "a…"
    assert cut(row, 5) == Row("abc  ", bytes(5))
    assert [r.text for r in exactly([row], 3, 2)] == ["abc", "   "]
