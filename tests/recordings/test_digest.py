"""Frames that were merged for readers in a hurry lead to the state that all of them lead to."""

from pathlib import Path

import pytest

from kvtop.protocol import IterationFrame, decode_frame
from kvtop.record import FileSink, Place, Recording, Writer
from kvtop.sources.replay import ReplaySource
from kvtop.state import EngineState
from kvtop.state.moment import Fold, moment
from tests.recordings.kit import HandClock, Told, feed, told

SAID: tuple[Told, ...] = tuple(each for at, each in enumerate(told(500)) if at < 3 or each[1].type != "keyframe")
"""One keyframe, then frames of 25 seconds."""


def digested(path: Path) -> Recording:
    clock = HandClock()
    writer = Writer(FileSink(path, forced=False), entry_most_s=150.0, digests=True, clock=clock)
    feed(writer, clock, SAID)
    writer.close()
    return Recording(path)


def shown(state: EngineState) -> tuple[object, ...]:
    blocks = state.blocks
    rows = {
        row.num: (row.state, row.output_tokens, row.ttft_s, row.preemptions, list(row.table))
        for row in state.requests.values()
    }
    told_of = [entry.id for entry in state.events if hasattr(entry, "id")]
    return (
        (state.seq, state.iteration, state.counts(), state.gauges, state.counters, state.policy, state.verdict),
        (
            blocks.owner.tolist(),
            blocks.refs.tolist(),
            blocks.fill.tolist(),
            [blocks.hash_of(b) for b in range(blocks.total)],
        ),
        (rows, told_of, state.bad_facts, state.resync),
    )


def test_the_state_is_the_same_and_few_frames_are_read(tmp_path: Path) -> None:
    tape = digested(tmp_path / "a.kvtop")
    frames = [frame for _, frame in SAID if isinstance(frame, IterationFrame)]
    for frame in frames[3::41]:
        place = Place(0, frame.seq)
        single = Fold()
        single.all_of(tape.frames(tape.chunks[0], place))
        assert shown(moment(tape, place).state) == shown(single.state)
    merged = [frame for _, frame in tape.folded(tape.chunks[0], tape.end) if isinstance(frame, IterationFrame)]
    assert sum(frame.merged for frame in merged) == len(frames)
    assert len(merged) < len(frames) / 2
    assert sum(frame.merged > 1 for frame in merged) == 3


def test_each_block_is_told_of_once(tmp_path: Path) -> None:
    tape = digested(tmp_path / "a.kvtop")
    for chunk in tape.chunks:
        line = tape.read_digest(chunk)
        if line is not None:
            frame = decode_frame(line)
            blocks = [block for start, count, *_ in frame.blocks for block in range(start, start + count)]
            assert blocks == sorted(set(blocks))


@pytest.mark.parametrize("seq_from_end", [0, 1, 30, 130, 260])
def test_playing_goes_on_behind_a_place_that_was_gone_to(tmp_path: Path, seq_from_end: int) -> None:
    tape = digested(tmp_path / "a.kvtop")
    place = Place(0, tape.end.seq - seq_from_end)
    clock = HandClock()
    source = ReplaySource(tape, "a", speed=float("inf"), at=place, clock=clock)
    source.start()
    gone = [item.frame for item in source.poll() if hasattr(item, "frame")]
    assert gone[-1].seq == place.seq
    played = []
    for _ in range(5):
        clock.now += 1.0
        played += [item.frame for item in source.poll() if hasattr(item, "frame")]
    assert [frame.seq for frame in played] == list(range(place.seq + 1, tape.end.seq + 1))


def test_a_damaged_digest_costs_nothing(tmp_path: Path) -> None:
    tape = digested(tmp_path / "a.kvtop")
    expected = shown(moment(tape, tape.end).state)
    data = bytearray(tape.path.read_bytes())
    for chunk, head in zip(tape.chunks, tape._heads, strict=True):
        if chunk.summary.digest_base is not None:
            data[chunk.at + head.digest_at + 5] ^= 1
    (tmp_path / "b.kvtop").write_bytes(data)
    damaged = Recording(tmp_path / "b.kvtop")
    assert shown(moment(damaged, damaged.end).state) == expected
    assert list(damaged.lines(damaged.chunks[0])) == list(tape.lines(tape.chunks[0]))
    assert damaged.damage == []


def test_a_digest_is_not_among_the_lines(tmp_path: Path) -> None:
    tape = digested(tmp_path / "a.kvtop")
    assert list(tape.lines(tape.chunks[0])) == [line.rstrip() for line, _ in SAID]
