from hypothesis import given
from hypothesis import strategies as st

from kvtop.term.replay import Replay
from kvtop.term.sgr import PLAIN, Look, switch

COLOURS = ["", "31", "97", "38;5;7", "38;5;208", "38;2;1;2;3"]
PAPERS = ["", "41", "107", "48;5;24", "48;2;9;8;7"]
ATTRS = ["1", "2", "3", "4", "7", "9", "21"]

looks = st.builds(
    lambda fg, bg, attrs: Look(fg, bg, tuple(sorted(attrs, key=int))),
    st.sampled_from(COLOURS),
    st.sampled_from(PAPERS),
    st.sets(st.sampled_from(ATTRS)),
)


@given(looks, looks)
def test_a_switch_leads_from_any_look_to_any_other(old: Look, new: Look) -> None:
    stream = switch(PLAIN, old) + "a" + switch(old, new) + "b"
    cells = Replay(2, 1).feed(stream).cells[0]
    assert cells == [("a", old), ("b", new)]


@given(looks, looks)
def test_a_switch_is_never_longer_than_a_reset_and_a_fresh_start(old: Look, new: Look) -> None:
    assert len(switch(old, new)) <= len(f"\x1b[0;{new.params}m")


def test_nothing_is_sent_for_the_same_look_and_little_for_the_plain_one() -> None:
    red = Look("31", "", ("1",))
    assert switch(red, red) == ""
    assert switch(red, PLAIN) == "\x1b[m"


def test_changing_only_the_colour_leaves_the_attributes() -> None:
    assert switch(Look("31", "", ("1",)), Look("32", "", ("1",))) == "\x1b[32m"
