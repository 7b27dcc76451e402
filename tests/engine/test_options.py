"""Every option of the engine with values that make no sense: one line, exit code 2, before a model is loaded."""

import argparse
import errno
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from engine import __main__ as program
from engine.config import EngineConfig
from kvtop.cli import build_parser
from kvtop.publish import PublishError
from kvtop.sources.discover import live_engines

NUMBERS = ("", "x", "-1", "nan", "inf", "-inf", "1e400", "9" * 5000, "0x10", "½")

HOSTILE: dict[str, tuple[str, ...]] = {
    "--blocks": (*NUMBERS, "1.5", str(10**9)),
    "--memory-fraction": (*NUMBERS, "0.96", "2"),
    "--kv-gib": (*NUMBERS, "1e9"),
    "--max-model-len": (*NUMBERS, "1.5", "1", str(10**9)),
    "--block-size": (*NUMBERS, "3", "512"),
    "--host-blocks": (*NUMBERS, "1.5", str(10**9)),
    "--disk-blocks": (*NUMBERS, "1.5", str(10**9)),
    "--seed": (*NUMBERS, "1.5", str(2**63)),
    "--ledger-every": (*NUMBERS, "1.5", str(10**9)),
    "--rate": (*NUMBERS, "1e7"),
    "--warn-stall": ("", "x", "-1", "nan", "inf", "1e400"),
    "--warn-paused": ("", "x", "-1", "nan", "inf", "1e400"),
    "--warn-head": ("", "x", "-1", "nan", "inf", "1e400"),
    "--flight-minutes": ("", "x", "-1", "nan", "inf", "1441"),
    "--flight-mib": ("", "x", "-1", "nan", "inf", "1e6"),
    "--model": ("",),
    "--name": ("", ".", "../x", "a/b", "a b", "a\nb", "x.ctl", "n" * 65, "é"),
    "--disk-path": ("/tmp/kv",),  # of no tier
    "--device": ("", "tpu"),
    "--attention": ("", "flash"),
    "--kv-dtype": ("", "float8", "int4"),
    "--window": ("0", "-1", "nan", "64,", ",", "half", "9" * 5000, "3000000000"),
    "--workload": ("", "mixed"),
    "--set": (
        "",
        "x",
        "=",
        "a=b",
        "capacity=nonsense",
        "max_running=0",
        "max_running=nan",
        "watermark=2",
        "kv_dtype=x",
    ),
    "--http": ("x", "x:y", ":", "127.0.0.1:65536", "127.0.0.1:-1", "::1:80", "a b:80", "0.0.0.0:80", "192.0.2.1:80"),
    "--http-token": ("t",),  # without --http
    "--http-max-body-bytes": (*NUMBERS, "0", "1.5", "1000"),  # the last without --http, as the following
    "--http-max-prompt-tokens": (*NUMBERS, "1.5", "100"),
    "--http-max-requests": (*NUMBERS, "0"),
    "--http-max-queue": (*NUMBERS, "0"),
    "--http-max-request-seconds": ("", "x", "-1", "0", "nan", "inf"),
    "--http-max-body-seconds": ("", "x", "-1", "0", "nan", "inf"),
    "--metrics-names": ("", "x", "vllm"),  # the last without --http
    "--drain-seconds": ("", "x", "-1", "nan", "inf"),
    "--bogus": ("1",),
}
"""Values by option; those without values are `FLAGS`."""

FLAGS = {"--help", "--expose-text", "--fallback-random", "--http-open", "--parent-stdin", "--ready-json"}

TOGETHER = (
    ["--blocks", "1", "--block-size", "1"],
    ["--blocks", "3", "--block-size", "1", "--window", "64,full"],
    ["--kv-dtype", "int8", "--set", "kv_dtype=float16"],
    ["--http-open"],
    ["--http", "127.0.0.1:0", "--http-token", "två"],
    ["--blocks", "100", "--kv-gib", "1"],
    ["--memory-fraction", "0.5", "--kv-gib", "1"],
    ["--memory-fraction", "0.5", "--blocks", "100"],
    ["surplus"],
    ["--blocks"],
)


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    return {name for action in parser._actions for name in action.option_strings if name.startswith("--")}


def test_the_table_has_every_option() -> None:
    assert options_of(program.parser()) == (set(HOSTILE) - {"--bogus"}) | FLAGS


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A model that is loaded, or as much as looked for, fails the test."""
    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder))
    monkeypatch.setitem(sys.modules, "engine.build", None)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line with which the engine refuses to start."""
    assert program.main(list(arguments)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("kvtop engine: ")
    assert line.isprintable()
    assert len(line) < 500
    return line


@pytest.mark.parametrize(
    ("option", "value"),
    [(option, value) for option, values in HOSTILE.items() for value in values],
    ids=lambda text: repr(text)[:30],
)
def test_a_value_that_makes_no_sense(capsys: pytest.CaptureFixture[str], option: str, value: str) -> None:
    line = refusal(capsys, f"{option}={value}")
    words = option.removeprefix("--").split("-")
    # Of the warnings' limits and the policies the sentence names what is meant, not how it was spelt.
    assert any(word in line.lower() for word in (*words, "watchdog", "axis", "cannot be", "data type")), line


@pytest.mark.parametrize("arguments", TOGETHER, ids=" ".join)
def test_values_that_make_no_sense_together(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    refusal(capsys, *arguments)


def test_what_makes_sense_is_taken() -> None:
    for arguments in (
        [],
        ["--blocks", "2", "--block-size", "1"],
        ["--blocks", "4", "--block-size", "1", "--window", "64,full"],
        ["--disk-blocks", "4", "--disk-path", "x.kv"],
        ["--memory-fraction", "0.95"],
        ["--kv-gib", "0.01"],
        ["--rate", "0.5", "--warn-stall", "0", "--ledger-every", "0", "--seed", "0"],
        ["--kv-dtype", "int8", "--set", "kv_dtype=int8", "--set", "max_running=3"],
    ):
        assert isinstance(program.config_from(program.parser().parse_args(arguments)), EngineConfig)


def test_a_program_is_told_in_its_own_format(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--rate", "-1", "--ready-json"], ["--ready-json", "--blocks", "many"]):
        assert program.main(arguments) == 2
        said = capsys.readouterr()
        assert said.err == ""
        assert json.loads(said.out)["failed"]


# -- the place of its sockets


def test_a_name_that_is_taken(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(folder / "mine.sock"))
        other.listen()
        assert "'mine' is already running" in refusal(capsys, "--name", "mine")
        assert (folder / "mine.sock").is_socket()


@pytest.mark.parametrize("path", ["x.sock", "x.ctl.sock"])
def test_a_plain_file_in_the_way_stays(capsys: pytest.CaptureFixture[str], folder: Path, path: str) -> None:
    (folder / path).write_text("precious")
    assert "is not a socket" in refusal(capsys, "--name", "x")
    assert (folder / path).read_text() == "precious"
    assert [entry.name for entry in folder.iterdir()] == [path]


def test_a_path_that_is_too_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder / ("d" * 90)))
    assert "set KVTOP_SOCKET_DIR to a shorter folder" in refusal(capsys, "--name", "x")


def test_a_folder_that_cannot_be_used(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    folder.chmod(0o755)
    assert "is open to others" in refusal(capsys)
    (folder / "file").write_text("")
    for place, words in (("file", "is not a folder"), ("file/below", "Not a directory")):
        monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder / place))
        assert words in refusal(capsys)


def test_a_rehearsal_leaves_nothing_behind(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "x.sock"))
    with pytest.raises(ImportError):  # `no_model`: the arguments held and the place is free
        program.main(["--name", "x", "--model", "random"])
    assert list(folder.iterdir()) == []


def test_a_process_that_may_open_no_more_files_is_told_so_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("kvtop.publish.sockets.socket.socket", none_left)
    assert program.main(["--model", "random"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "kvtop engine: no socket for viewers: Too many open files"


# -- the process


@pytest.fixture
def engine_process(folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def test_streams_that_are_closed_or_full_and_an_environment_that_lacks_all(
    folder: Path, engine_process: list[subprocess.Popen[bytes]]
) -> None:
    """No socket may get the number of a standard stream, and nothing that is said may end the engine; nor may a folder
    that has been deleted, a umask that allows nothing, or a home that is not there."""
    script = f"exec {sys.executable} -m kvtop engine --model random --name x <&- >&- 2>&-"
    odd = "cd $(mktemp -d) && rmdir $PWD && umask 0777 && export HOME=/nonexistent PYTHONOPTIMIZE=2 TMPDIR=nowhere"
    full = f"{odd} && exec {sys.executable} -m kvtop engine --model random --name y > /dev/full 2> /dev/full"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(program.__file__).parents[1])}
    for command in (script, full):
        engine_process.append(subprocess.Popen(["bash", "-c", command], env=env))
    for process, name in zip(engine_process, "xy", strict=True):
        until = time.monotonic() + 120
        while not [found for found in live_engines(folder, name=name) if found.alive]:
            assert process.poll() is None, "it ended"
            assert time.monotonic() < until
            time.sleep(0.1)
    if sys.platform == "linux":
        streams = [os.readlink(f"/proc/{engine_process[0].pid}/fd/{number}") for number in range(3)]
        assert streams == ["/dev/null"] * 3
    for process in engine_process:
        process.terminate()
        assert process.wait(60) == 0


class _Builds(ModuleType):
    """In place of `engine.build`: ``build`` raises ``fault``, or returns what cannot open sockets for it."""

    class BuildError(Exception): ...

    def __init__(self, fault: Exception) -> None:
        super().__init__("engine.build")
        self.fault = fault

    def build(self, *_: object, **__: object) -> SimpleNamespace:
        if isinstance(self.fault, MemoryError):
            raise self.fault
        return SimpleNamespace(
            publisher=SimpleNamespace(start=self._start, stop=lambda why: None), close=lambda why: None
        )

    def _start(self) -> None:
        raise self.fault


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (MemoryError("Unable to allocate 2.50 MiB"), "not enough memory to start: MemoryError: Unable to allocate 2.50 MiB (give --blocks less"),
        (OSError(errno.EMFILE, "Too many open files"), "kvtop engine: no socket for viewers: Too many open files"),
        (PublishError("an engine named x is running"), "kvtop engine: an engine named x is running"),
    ],
)  # fmt: skip
def test_what_the_system_has_not_enough_of_is_said_with_what_it_is_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, fault: Exception, words: str
) -> None:
    monkeypatch.setitem(sys.modules, "engine.build", _Builds(fault))
    assert program.main(["--model", "random"]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


@pytest.mark.parametrize("model", ["mine.gguf", "my-folder"])
def test_a_model_by_a_deleted_folder_is_nowhere(folder: Path, model: str) -> None:
    command = f"cd $(mktemp -d) && rmdir $PWD && exec {sys.executable} -m kvtop engine --model {model}"
    env = {**os.environ, "PYTHONPATH": str(Path(program.__file__).parents[1])}
    done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert f"the current folder has been deleted, so {model} is nowhere" in done.stderr


def test_the_demos_own_options_are_checked_before_anything_starts() -> None:
    demo = build_parser()
    for arguments in (["--blocks", "0"], ["--rate", "nan"], ["--seconds", "inf"], ["--seed", "x"], ["--preset", "x"]):
        with pytest.raises(Exception, match=re.escape(arguments[0])):
            demo.parse_args(["demo", *arguments])
