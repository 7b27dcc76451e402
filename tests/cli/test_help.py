from pathlib import Path

import pytest

from kvtop import __version__
from tests.cli.run import HEAVY, assert_one_line, imported_by, kvtop


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["demo", "--help"], ["ctl", "set", "--help"], ["load", "--help"], ["--version"], ["bogus"]],
)
def test_what_is_answered_at_once_imports_nothing_heavy(arguments: list[str]) -> None:
    assert not imported_by(*arguments) & set(HEAVY)


def test_help_names_every_command_and_the_exit_codes(folder: Path) -> None:
    done = kvtop(folder, "--help")
    assert done.returncode == 0
    for word in ("attach", "demo", "engine", "ls", "ctl", "load", "snapshot", "2 wrong usage"):
        assert word in done.stdout


def test_version(folder: Path) -> None:
    assert kvtop(folder, "--version").stdout == f"kvtop {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bogus"], ["bogus", "--help"]),
        (["ls", "--frob"], ["--frob"]),
        (["ctl"], ["VERB"]),
        (["ctl", "set", "capacity"], ["'capacity'", "AXIS=VALUE"]),
        (["ctl", "set", "a=1", "a=2"], ["set twice"]),
        (["demo", "--blocks", "0", "--once"], ["--blocks", "above 0"]),
        (["demo", "--once", "--seconds", "nan"], ["--seconds"]),
        (["demo", "--once", "--name", "../x"], ["../x"]),
        (["snapshot", "--size", "10x10"], ["80x24"]),
        (["snapshot", "a", "-o", "b"], ["twice"]),
        (["attach", "no/../such\x1b[31m name"], ["no socket"]),
    ],
)
def test_wrong_usage_is_one_line(folder: Path, arguments: list[str], words: list[str]) -> None:
    done = kvtop(folder, *arguments)
    assert_one_line(done, 1 if arguments[0] == "attach" else 2, *words)
    assert "\x1b" not in done.stderr


def test_reset_terminal_switches_off_what_a_viewer_switches_on(folder: Path) -> None:
    out = kvtop(folder, "--reset-terminal").stdout
    for sequence in ("\x1b[?1000l", "\x1b[?1003l", "\x1b[?1006l", "\x1b[?1049l", "\x1b[?25h"):
        assert sequence in out
