"""What shells propose, asked of real ones where they are: bash always, zsh and fish where they are installed."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from kvtop.cli import build_parser, run
from kvtop.commands.shells import SCRIPTS
from kvtop.commands.tree import tree_of
from tests.cli.fakes import FakeEngine

TREE = tree_of(build_parser())
COMMANDS = {command.path[0] for command in TREE.commands}

IN_BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_kvtop
printf '%s\\n' "${COMPREPLY[@]}"
"""
IN_ZSH = """
compdef() { : }
source "$1"; shift
_kvtop_look "$argv[-1]" "${(@)argv[1,-2]}" && for word in ${(f)_kvtop_found}; do [[ $word == "${argv[-1]#$_kvtop_prefix}"* ]] && print -r -- $word; done
true
"""
IN_FISH = """
source $argv[1]
complete -C "$argv[2]" | string replace -r '\\t.*' ''
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scripts, and a ``kvtop`` that knows two engines."""
    folder = tmp_path_factory.mktemp("completion")
    for shell, script in SCRIPTS.items():
        (folder / shell).write_text(script(TREE))
    stub = folder / "kvtop"
    stub.write_text(
        '#!/bin/sh\ncase "$*" in\n("ls --names") echo prod; echo proxy ;;\n("config --profiles") echo night ;;\nesac\n'
    )
    stub.chmod(0o755)
    return folder


def proposed(scripts: Path, shell: str, *words: str) -> set[str]:
    """What ``shell`` proposes for the last of the words."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    script = str(scripts / shell)
    command = {
        "bash": ["bash", "--norc", "-c", IN_BASH, "bash", script, *words],
        "zsh": ["zsh", "-f", "-c", IN_ZSH, "zsh", script, *words],
        "fish": ["fish", "--no-config", "-c", IN_FISH, script, " ".join(words)],
    }[shell]
    env = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "HOME": str(scripts), "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, cwd=scripts)
    assert (done.returncode, done.stderr) == (0, "")
    return set(filter(None, done.stdout.splitlines()))


@pytest.mark.parametrize("shell", SCRIPTS)
def test_it_proposes_what_can_be_typed(scripts: Path, shell: str) -> None:
    def after(*words: str) -> set[str]:
        return proposed(scripts, shell, "kvtop", *words)

    assert after("") >= COMMANDS
    assert after("sn") == {"snapshot"}
    assert after("ctl", "p") == {"policies", "preempt", "pause", "pin"}
    assert after("ctl", "--engine", "x", "u") == {"unpin"}
    assert after("ctl", "set", "--tr") == {"--transition"}
    assert after("ctl", "set", "--transition", "") == {"drain", "preempt"}
    assert after("attach", "--theme", "high") == {"high-contrast", "high-contrast-dark", "high-contrast-light"}
    assert after("--theme", "dark", "co") == {"config", "completion"}
    assert after("attach", "p") == {"prod", "proxy"}
    assert after("ctl", "-e", "prox") == {"proxy"}
    assert after("--profile", "n") == {"night"}
    assert after("completion", "") == {"bash", "zsh", "fish"}
    assert {"--mouse", "--config"} <= after("attach", "--")


def test_bash_splits_words_at_equals_signs(scripts: Path) -> None:
    themes = {"high-contrast", "high-contrast-dark", "high-contrast-light"}
    assert proposed(scripts, "bash", "kvtop", "--theme", "=", "high") == themes
    assert "auto" in proposed(scripts, "bash", "kvtop", "--theme", "=")
    assert proposed(scripts, "bash", "kvtop", "--theme", "=", "dark", "sn") == {"snapshot"}
    assert proposed(scripts, "zsh", "kvtop", "--theme=high") == themes


@pytest.mark.parametrize("shell", SCRIPTS)
def test_every_command_and_option_is_in_the_script(scripts: Path, shell: str) -> None:
    text = (scripts / shell).read_text()
    assert text.isascii()
    for command in TREE.all():
        assert not command.path or f"{command.path[-1]}" in text
        for option in command.options:
            for flag in option.flags:
                assert (f"-l {flag[2:]} " if shell == "fish" and flag.startswith("--") else flag) in text


def test_names_are_those_of_engines_that_live_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def names() -> str:
        assert run(["ls", "--names"]) == 0
        return capsys.readouterr().out

    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder))
    assert names() == ""
    with FakeEngine(folder, "prod"), socket.socket(socket.AF_UNIX) as other:
        (folder / "dead.sock").touch()
        other.bind(str(folder / "$(id).sock"))
        other.listen()
        assert names() == "prod\n"
    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder / "nowhere"))
    assert names() == ""
