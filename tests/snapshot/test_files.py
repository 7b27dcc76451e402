"""The files of a snapshot: private, whole, under names of their own, whatever an engine is called."""

import errno
import io
import os
import time
from pathlib import Path
from typing import Any

import pytest

from kvtop.errors import UserError
from kvtop.protocol import EngineIdentity
from kvtop.snapshot.document import snapshot_document
from kvtop.snapshot.files import default_stem, file_name, save, save_new, save_texts, write_snapshot
from kvtop.state import EngineState
from tests.cli.fakes import fake_hello, fake_keyframe

WALL = 1_790_000_000.0


def state(name: str = "fake") -> EngineState:
    made = EngineState()
    hello = fake_hello()
    identity = EngineIdentity(**(hello.engine.model_dump() | {"name": name}))
    for frame in (hello.model_copy(update={"engine": identity}), fake_keyframe()):
        made.apply(frame, time.monotonic())
    return made


def document() -> dict[str, Any]:
    return snapshot_document(state(), time.time(), time.monotonic())


def test_snapshots_within_one_second_are_all_written(tmp_path: Path) -> None:
    written = [write_snapshot(state(), tmp_path, "<svg/>", time.monotonic(), WALL) for _ in range(3)]
    stem = default_stem("fake", WALL)
    assert [[path.name for path in paths] for paths in written] == [
        [f"{stem}{end}.json", f"{stem}{end}.svg"] for end in ("", "-2", "-3")
    ]
    assert all(path.stat().st_size for paths in written for path in paths)


def test_a_name_is_free_only_where_the_picture_has_its_place_too(tmp_path: Path) -> None:
    stem = default_stem("fake", WALL)
    (tmp_path / f"{stem}.svg").write_text("mine")
    json, svg = save_new(document(), tmp_path, "fake", WALL, "<svg/>")
    assert (json.name, svg.name) == (f"{stem}-2.json", f"{stem}-2.svg")
    assert (tmp_path / f"{stem}.svg").read_text() == "mine"
    assert not (tmp_path / f"{stem}.json").exists()


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("../../etc/passwd", ".._.._etc_passwd"),
        ("a/b", "a_b"),
        ("-rf *", "-rf__"),
        ("new\nline\x1b[2J\x00", "new_line__2J_"),
        ("Größe 日本", "Größe_日本"),
        ("\ud800", "_"),
        ("", "engine"),
    ],
)
def test_whatever_an_engine_is_called_its_snapshot_lies_in_the_folder(tmp_path: Path, name: str, part: str) -> None:
    assert file_name(name) == part
    paths = save_new(document(), tmp_path, name, WALL, "<svg/>")
    assert [path.parent for path in paths] == [tmp_path, tmp_path]
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in paths}


def test_a_long_name_is_cut_between_characters(tmp_path: Path) -> None:
    assert file_name("語" * 128) == "語" * 33
    assert len(save_new(document(), tmp_path, "語" * 128, WALL)) == 1


def test_a_file_system_of_few_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "ascii")
    assert file_name("Größe 日本") == "Gr__e___"


def test_files_are_private_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / f"{default_stem('fake', time.time())}.json"
    assert [p.suffix for p in save(document(), path, "<svg/>")] == [".json", ".svg"]
    assert {p.stat().st_mode & 0o777 for p in tmp_path.iterdir()} == {0o600}
    with pytest.raises(UserError, match="exists"):
        save(document(), path)
    path.unlink()
    with pytest.raises(UserError, match="exists"):
        save(document(), path, "<svg/>")
    assert [p.suffix for p in tmp_path.iterdir()] == [".svg"], "half a snapshot was left"


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        save(document(), tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write"):
        save(document(), tmp_path / "no" / "x.json")


def test_many_small_pieces_are_few_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write lets go of the interpreter, and takes it back before the screen's thread has woken up."""
    writes: list[int] = []

    class Counted(io.FileIO):
        def write(self, data: Any) -> int:
            writes.append(len(data))
            return super().write(data)

    def counting(descriptor: int, mode: str, buffering: int = io.DEFAULT_BUFFER_SIZE) -> io.BufferedWriter:
        return io.BufferedWriter(Counted(descriptor, mode), buffering)

    monkeypatch.setattr(os, "fdopen", counting)
    path = tmp_path / "texts.txt"
    save_texts({path: ("x" * 1000 for _ in range(3000))}, "hint")
    assert path.stat().st_size == sum(writes) == 3_000_000
    assert len(writes) <= 4
