"""``kvtop record``: files that say what they are, an orderly end by time and by signal, places that cannot be."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvtop.commands.option_types import duration
from kvtop.record import Recording
from tests.cli.run import assert_one_line, environment, kvtop
from tests.publish.kit import running, wait_until


def test_for_a_while_into_a_folder(folder: Path, tmp_path: Path) -> None:
    with running(folder) as engine:
        engine.work(7)
        done = kvtop(folder, "record", "toy", "--for", "0.3", "-o", f"{tmp_path}/new/")
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = map(Path, done.stdout.split())
    assert path.parent == tmp_path / "new"
    assert path.name.startswith("toy-2")
    tape = Recording(path)
    assert tape.end.seq == 7
    assert tape.torn is None
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_the_way_to_end_it(folder: Path, tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "a.kvtop"
    with running(folder) as engine:
        command = [sys.executable, "-m", "kvtop", "record", "toy", "-o", str(path)]
        with subprocess.Popen(command, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as done:
            wait_until(lambda: engine.publisher.viewers, "the recorder to connect")
            engine.work(20)
            wait_until(lambda: path.stat().st_size, "the first chunk")
            done.send_signal(number)
            out, err = done.communicate(timeout=30)
    assert (done.returncode, err) == (0, b"")
    assert out.decode().split() == [str(path)]
    assert Recording(path).end.seq == engine.seq


def test_places_that_cannot_be_are_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with running(folder):
        done = kvtop(folder, "record", "toy", "-o", str(tmp_path / "there"))
        assert_one_line(done, 1, "exists", str(tmp_path / "there"))
        done = kvtop(folder, "record", "toy", "-o", str(tmp_path / "no" / "x"))
        assert_one_line(done, 1, "No such file", str(tmp_path / "no" / "x"))
        done = kvtop(folder, "record", "toy", "-o", str(tmp_path / "x"), "--keep-mib", "5")
        assert_one_line(done, 2, "--keep-mib", "folder")
    assert (tmp_path / "there").read_text() == "mine"
    assert [entry.name for entry in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("90s", 90.0), ("1.5m", 90.0), ("2h", 7200.0), ("1d", 86400.0)]
)
def test_times(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "s", "-1m", "nan", "inf", "1w", "1e9d", "1 m 2"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(Exception, match="no time above 0"):
        duration(text)
