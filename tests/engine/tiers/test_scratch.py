"""The disk tier's file: nothing that was there is ever written to, what fails leaves nothing, what is left behind is found."""

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.tiers import scratch
from engine.tiers.scratch import HEADER_BYTES, ScratchFile, remove_all, sweep
from engine.tiers.store import StoreError

SIZE = 1 << 20


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "kv"


def _abandoned(path: Path) -> bytes:
    """Left there by an engine that was killed: its lock is gone with its descriptor."""
    file = ScratchFile(path, SIZE)
    del scratch._open[file.fd]
    os.close(file.fd)
    return path.read_bytes()


def test_the_file_is_private_filled_to_its_size_and_gone_in_the_end(place: Path) -> None:
    file = ScratchFile(place, SIZE)
    facts = place.stat()
    assert facts.st_mode & 0o777 == 0o600
    assert facts.st_size == HEADER_BYTES + SIZE
    assert facts.st_blocks * 512 >= facts.st_size
    file.remove()
    assert not place.exists()
    file.remove()


@pytest.mark.parametrize(
    "content",
    [b"Dear reader", bytes(1 << 16), b"", b"kvtop kv", scratch._MARK, scratch._MARK + b"x"],
    ids=["a letter", "zeros", "empty", "half a mark", "a mark alone", "no header"],
)
def test_a_file_of_another_kind_stays_as_it_is(place: Path, content: bytes) -> None:
    place.write_bytes(content)
    before = place.stat()
    with pytest.raises(StoreError, match=f"disk tier {place}: a file that holds something else is there"):
        ScratchFile(place, SIZE)
    assert place.read_bytes() == content
    assert (place.stat().st_ino, place.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_nothing_that_lies_there_is_opened_for_writing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it holds; so no check that somebody forgets can cost a user's file."""
    opened: list[tuple[bool, int]] = []
    real = os.open

    def watched(path: Path, flags: int, mode: int = 0o777) -> int:
        opened.append((place.exists(), flags))
        return real(path, flags, mode)

    _abandoned(place)
    monkeypatch.setattr(os, "open", watched)
    ScratchFile(place, SIZE).remove()
    assert len(opened) == 2
    for there, flags in opened:
        assert flags & os.O_NOFOLLOW
        assert flags & os.O_ACCMODE == os.O_RDONLY if there else flags & os.O_EXCL


def test_links_pipes_folders_and_missing_places_are_refused(tmp_path: Path) -> None:
    _abandoned(tmp_path / "ours")
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    (tmp_path / "dangling").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing/kv", "link", "dangling", "pipe", "."):
        with pytest.raises(StoreError, match=f"disk tier {tmp_path}"):
            ScratchFile(tmp_path / name, SIZE)
    assert (tmp_path / "ours").exists()
    assert not (tmp_path / "elsewhere").exists()


def test_two_engines_never_share_a_file(place: Path) -> None:
    file = ScratchFile(place, SIZE)
    with pytest.raises(StoreError, match="another engine uses this file"):
        ScratchFile(place, SIZE)
    assert os.path.samestat(os.fstat(file.fd), place.stat())
    file.remove()


def test_a_file_left_behind_gives_way_to_a_new_one(place: Path) -> None:
    old = _abandoned(place)
    with open(place, "rb") as kept:
        file = ScratchFile(place, SIZE)
        assert not os.path.samestat(os.fstat(file.fd), os.fstat(kept.fileno()))
        os.pwrite(file.fd, b"new", HEADER_BYTES)
        assert kept.read() == old
    file.remove()


def test_a_file_of_another_machine_may_be_in_use_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_machine", lambda: b"node-7")
    _abandoned(place)
    monkeypatch.undo()
    with pytest.raises(StoreError, match="an engine on 'node-7' made this file, and may still use it"):
        ScratchFile(place, SIZE)
    assert place.exists()


def test_somebody_elses_file_in_its_place_survives_the_end(place: Path) -> None:
    file = ScratchFile(place, SIZE)
    place.unlink()
    place.write_text("a letter")
    file.remove()
    assert place.read_text() == "a letter"


def test_room_is_looked_for_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is too large by far touches nothing."""
    monkeypatch.setattr(scratch, "_fill", lambda *_: pytest.fail("the disk is filled"))
    with pytest.raises(StoreError, match=r"kv: it would take 1048576\.0 GiB, and .* are free there, of which 1\.0 GiB"):
        ScratchFile(place, 1 << 50)
    assert not place.exists()


@pytest.mark.parametrize(
    ("free", "fits"), [(SIZE + HEADER_BYTES + 50_000, True), (SIZE + HEADER_BYTES + 49_999, False)]
)
def test_a_twentieth_of_the_disk_stays_free(
    place: Path, monkeypatch: pytest.MonkeyPatch, free: int, fits: bool
) -> None:
    facts = os.statvfs_result((1, 1, 1_000_000, free, free, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: facts)
    if fits:
        ScratchFile(place, SIZE).remove()
    else:
        with pytest.raises(StoreError, match="are free there"):
            ScratchFile(place, SIZE)
    assert not place.exists()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_failure_half_way_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(scratch, "_fill", refuse)
    with pytest.raises(StoreError, match=f"kv: {os.strerror(error)}"):
        ScratchFile(place, SIZE)
    assert not place.exists()
    assert not scratch._open


def test_so_does_an_interrupt(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scratch, "_fill", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ScratchFile(place, SIZE)
    assert not place.exists()


def test_a_limit_on_file_sizes_is_a_sentence_and_leaves_nothing(place: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE // 2, hard))
    try:
        with pytest.raises(StoreError, match="kv: File too large"):
            ScratchFile(place, SIZE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not place.exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four MiB, where this user may make one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_full_stays_usable(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match=r"it would take 4\.0 MiB, and 4\.0 MiB are free there, of which 0\.2 MiB"):
        ScratchFile(small_disk / "kv", 4 << 20)
    monkeypatch.setattr(scratch, "_check_room", lambda *_: None)
    with pytest.raises(StoreError, match="kv: No space left on device"):
        ScratchFile(small_disk / "kv", 8 << 20)
    assert list(small_disk.iterdir()) == []
    (small_disk / "other").write_bytes(bytes(3 << 20))


def test_a_sweep_takes_what_killed_engines_left_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_machine", lambda: b"node-7")
    _abandoned(tmp_path / "far.kv")
    monkeypatch.undo()
    _abandoned(tmp_path / "dead.kv")
    _abandoned(tmp_path / "named otherwise")
    used = ScratchFile(tmp_path / "used.kv", SIZE)
    (tmp_path / "letter.kv").write_text("Dear reader")
    (tmp_path / "zeros.kv").write_bytes(bytes(8192))
    (tmp_path / "link.kv").symlink_to(tmp_path / "named otherwise")
    (tmp_path / "folder.kv").mkdir()
    left = sorted(path.name for path in tmp_path.iterdir() if path.name != "dead.kv")
    assert [(each.path.name, each.bytes) for each in sweep(tmp_path)] == [("dead.kv", HEADER_BYTES + SIZE)]
    assert sorted(path.name for path in tmp_path.iterdir()) == left
    assert list(sweep(tmp_path / "missing")) == []
    used.remove()


MAKE = """
import os, sys
from pathlib import Path
from engine.tiers import scratch
file = scratch.ScratchFile(Path(sys.argv[1]), 1 << 20)
print("made", flush=True)
"""


@pytest.mark.parametrize(
    ("ending", "gone"),
    [
        ("sys.exit(3)", True),
        ("raise RuntimeError", True),
        ("scratch.remove_all(); os._exit(0)", True),
        ("os.fork() or sys.exit(0); os.wait(); print(Path(sys.argv[1]).exists()); os._exit(0)", False),
        ("os.kill(os.getpid(), 9)", False),
    ],
)
def test_however_a_process_ends(place: Path, ending: str, gone: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAKE + ending, str(place)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.startswith("made")
    assert "False" not in done.stdout, "a child removed the file of its parent"
    assert place.exists() != gone
    if ending.startswith("os.kill"):
        assert done.returncode == -signal.SIGKILL
    ScratchFile(place, SIZE).remove()


def test_remove_all_leaves_what_is_not_open(place: Path) -> None:
    file = ScratchFile(place, SIZE)
    remove_all()
    assert not place.exists()
    file.remove()
    place.write_text("a letter")
    remove_all()
    assert place.exists()
