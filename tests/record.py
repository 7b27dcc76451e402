"""Records what the tests of the screen look at: ``python -m tests.record``, and with ``--screens`` how the screen draws it.

Every scene is the real scheduler, pool, tiers and telemetry on a clock set by hand, with fixed seeds and without a model,
so the same code writes the same bytes. `tests.test_record` fails where a file is not what the engine would say now.
"""

import argparse
import asyncio
import gzip
from collections.abc import Callable, Iterator

from kvtop.protocol import AnyFrame, Bye, encode
from tests import screens
from tests.app.live_engine import LiveEngine
from tests.recording import FOLDER

WARM = 300
"""Iterations before a scene begins."""


def _warm(engine: LiveEngine, iterations: int = WARM) -> LiveEngine:
    for _ in range(iterations):
        engine.step()
    return engine


def _told(engine: LiveEngine, iterations: int) -> Iterator[AnyFrame]:
    yield engine.hello()
    yield engine.keyframe()
    for _ in range(iterations):
        yield engine.step()


def _crowded() -> Iterator[AnyFrame]:
    return _told(_warm(LiveEngine()), 150)


def _idle() -> Iterator[AnyFrame]:
    engine = _warm(LiveEngine())
    engine.go_idle()
    return _told(engine, 5)


def _paused() -> Iterator[AnyFrame]:
    engine = _warm(LiveEngine())
    engine.pause()
    return _told(engine, 5)


def _tiers() -> Iterator[AnyFrame]:
    return _told(_warm(LiveEngine(tiers={"host": 96, "disk": 200}, arrivals=0.1)), 100)


def _families() -> Iterator[AnyFrame]:
    return _told(_warm(LiveEngine(families=True)), 60)


def _restart() -> Iterator[AnyFrame]:
    yield from _told(_warm(LiveEngine(), 60), 20)
    yield Bye(reason="shutting down")
    yield from _told(_warm(LiveEngine(seed=99, run="run-2"), 60), 20)


def _other_run() -> Iterator[AnyFrame]:
    return _told(_warm(LiveEngine(seed=99, run="run-2")), 60)


SCENES: dict[str, Callable[[], Iterator[AnyFrame]]] = {
    "crowded": _crowded,
    "idle": _idle,
    "paused": _paused,
    "tiers": _tiers,
    "families": _families,
    "restart": _restart,
    "other-run": _other_run,
}


def lines(scene: str) -> bytes:
    """The scene as the engine tells it now."""
    return b"".join(encode(frame) for frame in SCENES[scene]())


def record() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for scene in SCENES:
        path = FOLDER / f"{scene}.ndjson.gz"
        # Without a time in it: the same lines are the same file.
        path.write_bytes(gzip.compress(lines(scene), mtime=0))
        print(f"{path.relative_to(FOLDER.parent)}  {path.stat().st_size:,d} bytes")


def draw() -> None:
    screens.FOLDER.mkdir(parents=True, exist_ok=True)
    for name in screens.NAMES:
        path = screens.FOLDER / f"{name}.txt"
        path.write_text(asyncio.run(screens.drawn(name)), encoding="utf-8")
        print(path.relative_to(screens.FOLDER.parent))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--screens", action="store_true", help="draw the screens of the recordings there are, record nothing"
    )
    if parser.parse_args().screens:
        draw()
    else:
        record()


if __name__ == "__main__":
    main()
