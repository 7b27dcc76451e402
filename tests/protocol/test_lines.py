import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.protocol.lines import LineBuffer, LineTooLong


def _drain(buffer: LineBuffer) -> list[bytes | str]:
    found: list[bytes | str] = []
    while True:
        try:
            line = buffer.next()
        except LineTooLong:
            found.append("too long")
            continue
        if line is None:
            return found
        found.append(line)


@given(st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=8), st.integers(1, 9))
def test_lines_come_out_however_they_were_cut_up(lines: list[bytes], step: int) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    buffer = LineBuffer(8)
    found: list[bytes | str] = []
    for at in range(0, len(stream), step):
        buffer.feed(stream[at : at + step])
        found += _drain(buffer)
    assert found == [line if len(line) <= 8 else "too long" for line in lines]
    assert buffer.unfinished == 0


def test_a_line_that_never_ends_is_refused_once_and_takes_no_memory() -> None:
    buffer = LineBuffer(10)
    buffer.feed(b"x" * 8)
    assert _drain(buffer) == []
    for _ in range(100):
        buffer.feed(b"x" * 8)
        list(_drain(buffer))
    assert buffer.unfinished == 0
    buffer.feed(b"tail\nnext\nhal")
    assert _drain(buffer) == [b"next"]
    assert buffer.unfinished == 3


def test_the_error_names_the_limit() -> None:
    buffer = LineBuffer(10)
    buffer.feed(b"x" * 11 + b"\n")
    with pytest.raises(LineTooLong, match="longer than 10 bytes"):
        buffer.next()
