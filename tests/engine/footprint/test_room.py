"""How much memory there is, as machines and containers say it: fixtures of /proc and /sys as kernels write them."""

import os
import platform
from pathlib import Path

import pytest

from engine.footprint.room import available_memory, host_room

GIB = 2**30
PAGE = os.sysconf("SC_PAGE_SIZE")


def system(root: Path, *, total: int, available: int, resident: int = 0, addresses: int = 0, cgroup: str = "") -> Path:
    """Files of a machine; sizes in bytes."""
    write(root / "proc/meminfo", f"MemTotal: {total // 1024} kB\nMemFree: 1 kB\nMemAvailable: {available // 1024} kB\n")
    write(root / "proc/self/statm", f"{addresses // PAGE} {resident // PAGE} 1 1 0 1 0\n")
    write(root / "proc/self/cgroup", cgroup)
    return root


def write(path: Path, text: str | int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(text))


def group_v2(folder: Path, limit: int | str, usage: int, inactive: int = 0) -> None:
    write(folder / "memory.max", f"{limit}\n")
    write(folder / "memory.current", f"{usage}\n")
    write(folder / "memory.stat", f"anon 5\ninactive_file {inactive}\nactive_file 7\n")


def group_v1(folder: Path, limit: int, usage: int, inactive: int = 0) -> None:
    write(folder / "memory.limit_in_bytes", limit)
    write(folder / "memory.usage_in_bytes", usage)
    write(folder / "memory.stat", f"inactive_file 3\ntotal_inactive_file {inactive}\n")


def test_a_machine_without_containers(tmp_path: Path) -> None:
    room = host_room(system(tmp_path, total=8 * GIB, available=5 * GIB, resident=GIB, cgroup="0::/\n"), -1)
    assert room is not None
    assert (room.total, room.available, room.own, room.what) == (8 * GIB, 5 * GIB, GIB, "this machine's memory")


@pytest.mark.parametrize("path", ["/", "/docker/abc", "/../../other"])
def test_a_container_that_sees_its_own_group_at_the_top(tmp_path: Path, path: str) -> None:
    """As in most containers: the path is the host's, and may not be there."""
    root = system(tmp_path, total=64 * GIB, available=60 * GIB, resident=GIB, cgroup=f"0::{path}\n")
    group_v2(root / "sys/fs/cgroup", 4 * GIB, 3 * GIB, inactive=GIB)
    room = host_room(root, -1)
    assert room is not None
    assert (room.total, room.available, room.what) == (4 * GIB, 2 * GIB, "the container's limit")


def test_the_tightest_of_nested_groups_counts(tmp_path: Path) -> None:
    root = system(tmp_path, total=64 * GIB, available=60 * GIB, cgroup="0::/user.slice/session/engine\n")
    top = root / "sys/fs/cgroup"
    group_v2(top / "user.slice/session/engine", "max", GIB)
    group_v2(top / "user.slice/session", 8 * GIB, 7 * GIB)
    group_v2(top / "user.slice", 16 * GIB, 8 * GIB)
    room = host_room(root, -1)
    assert room is not None
    assert (room.total, room.available) == (8 * GIB, GIB)


@pytest.mark.parametrize("inside", ["", "docker/abc"])
def test_groups_of_the_first_version(tmp_path: Path, inside: str) -> None:
    lines = "9:name=systemd:/docker/abc\n4:cpu,memory:/docker/abc\n1:cpuset:/\n0::/\n"
    root = system(tmp_path, total=64 * GIB, available=60 * GIB, cgroup=lines)
    group_v1(root / "sys/fs/cgroup/memory" / inside, 2 * GIB, GIB, inactive=GIB // 2)
    room = host_room(root, -1)
    assert room is not None
    assert (room.total, room.available) == (2 * GIB, GIB + GIB // 2)


def test_a_group_without_a_limit_bounds_nothing(tmp_path: Path) -> None:
    root = system(tmp_path, total=8 * GIB, available=5 * GIB, cgroup="4:memory:/\n0::/\n")
    group_v1(root / "sys/fs/cgroup/memory", 9223372036854771712, GIB)
    group_v2(root / "sys/fs/cgroup", "max", GIB)
    assert host_room(root, -1) == host_room(system(tmp_path, total=8 * GIB, available=5 * GIB), -1)


def test_a_container_over_its_limit_has_nothing_left_and_not_less(tmp_path: Path) -> None:
    root = system(tmp_path, total=64 * GIB, available=60 * GIB, cgroup="0::/\n")
    group_v2(root / "sys/fs/cgroup", GIB, 2 * GIB)
    room = host_room(root, -1)
    assert room is not None
    assert room.available == 0


def test_a_limit_of_addresses_counts_all_that_are_taken(tmp_path: Path) -> None:
    root = system(tmp_path, total=64 * GIB, available=60 * GIB, resident=GIB, addresses=3 * GIB)
    room = host_room(root, 4 * GIB)
    assert room is not None
    assert (room.total, room.available, room.own) == (4 * GIB, GIB, 3 * GIB)
    assert "ulimit" in room.what


@pytest.mark.parametrize("damage", ["", "MemTotal: many kB\n", "MemTotal: 5 kB\n"])
def test_what_says_nothing_is_unknown(tmp_path: Path, damage: str) -> None:
    write(tmp_path / "proc/meminfo", damage)
    assert host_room(tmp_path, -1) is None
    assert host_room(tmp_path / "nowhere", -1) is None


def test_damaged_files_of_a_group_are_passed_over(tmp_path: Path) -> None:
    root = system(tmp_path, total=8 * GIB, available=5 * GIB, cgroup="0::/\nnonsense\n4:memory\n::\n")
    group_v2(root / "sys/fs/cgroup", "lots", 3)
    room = host_room(root, -1)
    assert room is not None
    assert room.total == 8 * GIB


def test_this_machine_says_how_much_it_has_or_is_none_that_does() -> None:
    available = available_memory()
    assert available is None or available > 0
    assert (available is None) == (platform.system() != "Linux")
