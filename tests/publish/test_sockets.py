"""Who may open a name, and what is left of it afterwards."""

import errno
import os
import selectors
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvtop.protocol import Hello, Reply
from kvtop.publish import Publisher, PublishError
from tests.publish.kit import PATIENCE, FakeEngine, Peer, hello, running


def _start(folder: Path, name: str = "toy") -> Publisher:
    publisher = Publisher(hello(name), folder)
    publisher.start()
    return publisher


def _dead_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


def test_sockets_are_for_their_owner_alone_and_vanish_at_the_end(folder: Path) -> None:
    where = folder / "new"
    publisher = _start(where)
    assert sorted(p.name for p in where.iterdir()) == ["toy.ctl.sock", "toy.lock", "toy.sock"]
    assert [stat.S_IMODE(p.stat().st_mode) for p in where.iterdir()] == [0o600] * 3
    assert stat.S_IMODE(where.stat().st_mode) == 0o700
    assert publisher.places == (where / "toy.sock", where / "toy.ctl.sock")
    publisher.stop("done")
    publisher.stop("done")
    assert list(where.iterdir()) == []


def test_sockets_have_their_mode_whatever_the_umask(folder: Path) -> None:
    old = os.umask(0)
    try:
        publisher = _start(folder)
    finally:
        os.umask(old)
    assert [stat.S_IMODE(path.stat().st_mode) for path in publisher.places] == [0o600, 0o600]
    publisher.stop("done")


def test_the_folder_comes_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder / "here"))
    publisher = Publisher(hello())
    publisher.start()
    assert (folder / "here" / "toy.sock").is_socket()
    publisher.stop("done")


def test_an_open_folder_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.chmod(0o777)
    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder))
    with pytest.raises(PublishError, match=r"open to others"):
        Publisher(hello()).start()


def test_both_stale_sockets_of_a_dead_engine_are_replaced(folder: Path) -> None:
    _dead_socket(folder / "toy.sock")
    _dead_socket(folder / "toy.ctl.sock")
    (folder / "toy.lock").touch()
    with running(folder):
        for path in (folder / "toy.sock", folder / "toy.ctl.sock"):
            with Peer(path) as peer:
                assert isinstance(peer.read(), Hello)


def test_an_engine_that_was_killed_leaves_nothing_that_stops_the_next(folder: Path) -> None:
    program = (
        "import sys, os, signal\n"
        "from pathlib import Path\n"
        "from tests.publish.kit import hello\n"
        "from kvtop.publish import Publisher\n"
        "Publisher(hello(), Path(sys.argv[1])).start()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", program, str(folder)], cwd=root, timeout=PATIENCE * 3, check=False)
    assert done.returncode == -9
    assert (folder / "toy.sock").is_socket()
    with running(folder), Peer(folder / "toy.sock") as peer:
        assert isinstance(peer.read(), Hello)


def test_a_live_engine_is_never_taken_over(folder: Path) -> None:
    with running(folder):
        with pytest.raises(PublishError, match=r"'toy' is already running here \(pid 4242\)"):
            _start(folder)
        with Peer(folder / "toy.sock") as peer:
            assert isinstance(peer.read(), Hello)
    _start(folder).stop("done")


@pytest.mark.parametrize("which", ["toy.sock", "toy.ctl.sock"])
def test_a_live_socket_without_our_lock_is_not_taken_over_either(folder: Path, which: str) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(folder / which))
        other.listen()
        with pytest.raises(PublishError, match=r"already running here"):
            _start(folder)
        assert [p.name for p in folder.iterdir()] == [which]


def test_a_file_in_the_way_is_left_alone(folder: Path) -> None:
    (folder / "toy.ctl.sock").write_text("precious")
    with pytest.raises(PublishError, match=r"is not a socket"):
        _start(folder)
    assert [p.name for p in folder.iterdir()] == ["toy.ctl.sock"]


def test_a_socket_that_somebody_put_in_our_place_is_not_removed(folder: Path) -> None:
    publisher = _start(folder)
    (folder / "toy.sock").unlink()
    _dead_socket(folder / "toy.sock")
    publisher.stop("done")
    assert [p.name for p in folder.iterdir()] == ["toy.sock"]


@pytest.mark.parametrize("lacks", ["the first socket", "the second", "what looks at them"])
def test_where_files_are_short_the_name_stays_free(folder: Path, monkeypatch: pytest.MonkeyPatch, lacks: str) -> None:
    """A program that makes room and tries again gets it."""
    made, wanted, real = [], {"the first socket": 0, "the second": 1}.get(lacks), socket.socket

    def short(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    def some(*given: Any) -> socket.socket:
        made.append(given)
        if len(made) - 1 == wanted:
            short()
        return real(*given)

    publisher = Publisher(hello("toy"), folder)
    with monkeypatch.context() as patched:
        if wanted is None:
            patched.setattr(selectors, "DefaultSelector", short)
        else:
            patched.setattr(socket, "socket", some)
        with pytest.raises(OSError, match="Too many open files"):
            publisher.start()
    assert list(folder.iterdir()) == []
    publisher.start()
    publisher.stop()


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x.ctl", "a b", "n" * 65])
def test_names_that_are_no_names(folder: Path, name: str) -> None:
    with pytest.raises(PublishError, match=r"cannot name an engine"):
        _start(folder, name)
    assert list(folder.iterdir()) == []


def test_a_path_that_is_too_long_says_what_to_do(folder: Path) -> None:
    with pytest.raises(PublishError, match=r"KVTOP_SOCKET_DIR"):
        _start(folder / ("d" * 100))


def test_a_folder_that_cannot_be_made_is_named(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(PublishError, match=r"cannot make socket folder"):
        _start(folder / "file" / "sub")


def test_stopping_without_having_started_is_fine(folder: Path) -> None:
    publisher = Publisher(hello(), folder)
    publisher.stop("never mind")
    assert publisher.viewers == 0
    assert not list(folder.glob("*")), "nothing was opened, so nothing may be left"


def test_the_asker_is_who_the_kernel_says(folder: Path) -> None:
    with running(folder) as engine, Peer(folder / "toy.ctl.sock") as peer:
        peer.read()
        peer.send({"type": "pause", "id": "0", "uid": 0, "pid": 1})
        assert "does not know the field 'pid'" in peer.of(Reply).message
        peer.send({"type": "pause", "id": "1"})
        peer.of(Reply)
        assert isinstance(engine, FakeEngine)
        assert engine.asked == [(os.getuid(), os.getpid())]
