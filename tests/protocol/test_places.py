"""Where engines can have their sockets, whatever the environment of either side was."""

import os
import socket
from pathlib import Path

import pytest

from kvtop.protocol import places as module
from kvtop.protocol.places import PlaceError, places, socket_folder


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable that chooses a place, and a system of our own."""
    for name in ("KVTOP_SOCKET_DIR", "XDG_RUNTIME_DIR", *module.TEMP_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "USERS_RUNTIME", tmp_path / "run")
    monkeypatch.setattr(module, "TEMP_FOLDERS", (str(tmp_path / "tmp"), str(tmp_path / "var")))
    monkeypatch.setattr(module, "BOUND_SOCKETS", tmp_path / "unix")
    for name in ("tmp", "var", f"run/{os.getuid()}"):
        (tmp_path / name).mkdir(parents=True)


def folders() -> list[Path]:
    return [place.folder for place in places() if not place.trouble]


def test_what_cron_starts_a_login_shell_finds_and_the_other_way_round(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    login = tmp_path / "run" / str(os.getuid())
    by_cron = socket_folder()
    assert by_cron == tmp_path / "tmp" / f"kvtop-{os.getuid()}"
    assert login / "kvtop" in folders()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(login))
    assert socket_folder() == login / "kvtop"
    assert folders()[0] == login / "kvtop"
    assert by_cron in folders()
    assert len(set(folders())) == len(folders())


def test_a_temp_folder_of_another_environment_is_found_by_its_sockets(tmp_path: Path) -> None:
    odd = tmp_path / "odd folder" / f"kvtop-{os.getuid()}"
    line = "0000: 00000002 00000000 00010000 0001 01 123 "
    (tmp_path / "unix").write_text(f"Num RefCount\n{line}{odd}/a.sock\n{line}@abstract\n{line}/x/kvtop-99999/b.sock\n")
    assert odd in folders()
    assert not [folder for folder in folders() if "99999" in str(folder)]


def test_the_real_list_of_sockets_is_understood(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(module, "BOUND_SOCKETS", Path("/proc/net/unix"))
    if not module.BOUND_SOCKETS.exists():
        pytest.skip("this system has none")
    place = folder / "kvtop"
    place.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(place / "x.sock"))
        assert place in folders()


def test_a_named_folder_is_the_only_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVTOP_SOCKET_DIR", "here")
    assert folders() == [socket_folder()] == [tmp_path / "here"]


@pytest.mark.parametrize("value", ["relative", "", "/dev/null/none", "/a\nb"])
def test_variables_that_name_no_folder_are_as_good_as_unset(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relative").mkdir()
    for name in ("XDG_RUNTIME_DIR", "TMPDIR", "TEMP"):
        monkeypatch.setenv(name, value)
    assert socket_folder(create=True) == tmp_path / "tmp" / f"kvtop-{os.getuid()}"


def test_a_runtime_folder_of_another_user_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As after ``su`` and ``sudo -E``: root's folder in a user's would keep the user out."""
    theirs = tmp_path / "run" / "theirs"
    theirs.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(theirs))
    owner = module._owner
    monkeypatch.setattr(module, "_owner", lambda path: 4242 if path == theirs else owner(path))
    assert socket_folder() == tmp_path / "tmp" / f"kvtop-{os.getuid()}"
    assert theirs / "kvtop" not in folders()


def test_without_any_folder_it_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "TEMP_FOLDERS", (str(tmp_path / "none"),))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlaceError, match=r"set KVTOP_SOCKET_DIR"):
        socket_folder(create=True)


def test_a_folder_is_ours_alone_whatever_the_umask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for mask in (0o000, 0o777):
        place = tmp_path / f"mask{mask}" / "in"
        monkeypatch.setenv("KVTOP_SOCKET_DIR", str(place))
        (tmp_path / f"mask{mask}").mkdir()
        before = os.umask(mask)
        try:
            assert socket_folder(create=True) == place
        finally:
            os.umask(before)
        assert place.stat().st_mode & 0o777 == 0o700


def test_what_is_wrong_with_a_place_is_told_and_the_others_are_looked_into(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    user = os.getuid()
    (tmp_path / "var" / f"kvtop-{user}").mkdir(mode=0o755)
    (tmp_path / "run" / str(user) / "kvtop").write_text("")
    found = {place.folder.parent.name: place.trouble for place in places()}
    assert found["tmp"] == ""
    assert "is open to others (mode 755); run: chmod 700" in found["var"]
    assert "is not a folder" in found[str(user)]
    monkeypatch.setattr(module.os, "getuid", lambda: user + 1)
    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(tmp_path / "tmp"))
    with pytest.raises(PlaceError, match=f"belongs to uid {user}, not to you"):
        socket_folder()
