"""A recorder that is killed in the middle of a write leaves a recording that lacks at most its last second."""

import os
import random
import signal
from pathlib import Path

from kvtop.protocol import IterationFrame
from kvtop.record import FileSink, Recording, RecordingError, Writer
from kvtop.state.moment import moment
from tests.recordings.kit import HandClock, feed, told

TIMES = 100
SAID = told(60)
START = SAID[1][1].mono


class DyingSink(FileSink):
    """Writes in small pieces and dies after so many."""

    def __init__(self, path: Path, pieces: int, size: int) -> None:
        super().__init__(path, forced=False)
        self.left, self.piece = pieces, size

    def _write(self, data: bytes) -> None:
        for at in range(0, len(data), self.piece):
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1
            os.pwrite(self._file, data[at : at + self.piece], self.size + at)


def killed(path: Path, chance: random.Random) -> float:
    """Records in a process that is killed in the middle; the monotonic date of the last frame the recorder was given."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        clock = HandClock()
        recorder = Writer(DyingSink(path, chance.randrange(3, 250), chance.randrange(50, 500)), clock=clock)
        for said in SAID:
            os.write(writer, b"%.6f\n" % max(clock.now, START))
            feed(recorder, clock, [said])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as given:
        last = float(given.read().split()[-1])
    os.waitpid(pid, 0)
    return last


def opened(path: Path) -> Recording | str:
    """The recording, or why there is none."""
    try:
        return Recording(path)
    except RecordingError as error:
        return str(error)


def test_a_hundred_recorders_killed_in_the_middle_of_a_write(tmp_path: Path) -> None:
    chance, dates = random.Random(7), {f.seq: f.mono for _, f in SAID if isinstance(f, IterationFrame)}
    torn = 0
    for number in range(TIMES):
        path = tmp_path / f"{number}.kvtop"
        given = killed(path, chance)
        tape = opened(path)
        if isinstance(tape, str):
            assert "unfinished" in tape
            assert given - START <= 1.0 + 1e-6
            torn += 1
            continue
        written = [line for line, _ in SAID]
        for chunk in tape.chunks:
            assert all(line + b"\n" in written for line in tape.read(chunk))
        assert tape.damage == []
        torn += tape.torn is not None
        end = tape.end
        assert given - dates.get(end.seq, 0.0) <= 1.0 + 1e-6
        assert moment(tape, end).trouble == ""
        tape.close()
    assert torn > TIMES / 2, "they were to be killed in the middle"
