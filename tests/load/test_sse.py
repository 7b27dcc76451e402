import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.load.sse import EventReader, MalformedStream

TEXTS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1, max_size=12)


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[str]]:
    """A stream as a server may write it, and the events in it."""
    out, events = bytearray(), []
    for lines in draw(st.lists(st.lists(TEXTS, min_size=1, max_size=3), max_size=5)):
        events.append("\n".join(lines))
        for line in lines:
            end = draw(st.sampled_from((b"\n", b"\r\n", b"\r")))
            if draw(st.booleans()):
                out += draw(st.sampled_from((b": comment", b"event: x", b"id: 7", b"retry: 5", b"nonsense"))) + end
            # One blank after the colon is not part of what is said.
            out += b"data: " + line.encode() + end
        out += end
    return bytes(out), events


@given(streams(), st.data())
def test_events_are_the_same_however_the_bytes_are_cut(stream: tuple[bytes, list[str]], data: st.DataObject) -> None:
    raw, events = stream
    reader, seen, at = EventReader(), [], 0
    while at < len(raw):
        step = data.draw(st.integers(1, 7))
        seen += reader.feed(raw[at : at + step])
        at += step
    assert seen == events
    assert EventReader().feed(b"\xef\xbb\xbf" + raw) == events


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_any_bytes_are_events_or_refused(pieces: list[bytes]) -> None:
    reader = EventReader(most_bytes=64)
    try:
        for piece in pieces:
            reader.feed(piece)
    except MalformedStream as error:
        assert "event" in str(error)  # noqa: PT017


def test_an_event_that_does_not_end_is_refused_before_it_fills_memory() -> None:
    for piece in (b"x" * 100, b"data: yy\n" * 20):
        reader = EventReader(most_bytes=1000)
        with pytest.raises(MalformedStream, match="1000"):
            [reader.feed(piece) for _ in range(100)]


def test_what_is_not_complete_is_no_event() -> None:
    assert EventReader().feed(b"data: a\n\ndata: b") == ["a"]


def test_what_is_not_utf_8_is_refused() -> None:
    with pytest.raises(MalformedStream, match="UTF-8"):
        EventReader().feed(b"data: \xff\n\n")
