"""A served engine without a model, on real sockets and in a thread of this process, where a test can look into it."""

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from engine.core import Engine
from engine.memory.groups import KVGroups
from engine.serving.describe import hello
from engine.serving.server import Server
from engine.serving.telemetry import Telemetry
from engine.workload.arrivals import Arrival
from kvtop.protocol import AnyCommand, Event, ModelFacts, Reply
from kvtop.publish import FlightLimits, Publisher
from kvtop.sources.control import ControlClient
from tests.engine.fake_model import FakeRunner, make_engine


class SlowRunner(FakeRunner):
    """Takes ``seconds`` a batch, so that tests can look at a running engine."""

    seconds = 0.002

    def run(self, items, copies=()):  # type: ignore[no-untyped-def]
        time.sleep(self.seconds)
        return super().run(items, copies)


def _arrivals() -> Iterator[Arrival]:
    for i in itertools.count():
        yield Arrival(0.0, "T", [i * 7 % 997, *range(20)], 40, 0)


class RunningEngine:
    """A served engine and its controller."""

    def __init__(self, folder: Path, flight: FlightLimits | None = None) -> None:
        self.engine: Engine
        self.engine, _ = make_engine(blocks=40, block_size=4, max_running=8, token_budget=64)
        self.engine.clock = time.monotonic
        self.runner = self.engine.runner = SlowRunner()
        self.telemetry = Telemetry(self.engine, bytes_per_token=8, attention_mode="none")
        self.publisher = Publisher(
            hello(
                "t",
                model=ModelFacts(name="fake"),
                blocks=40,
                block_size=4,
                cache_dtype="float32",
                bytes_per_token=8,
                groups=KVGroups.of((), 1),
                device="none",
                attention="none",
                max_model_len=160,
                workload=None,
                notice=None,
                threads=None,
                seed=0,
                ledger_every=64,
                exposes_text=False,
            ),
            folder,
            flight=flight,
        )
        self.server = Server(
            self.engine, self.telemetry, self.publisher, arrivals=_arrivals(), queue_limit=6, ledger_every=5
        )
        self.publisher.start()
        self.thread = threading.Thread(target=self.server.run, args=(60.0,))
        self.thread.start()
        self.client = ControlClient(self.publisher.places[1])

    def ask(self, command: AnyCommand) -> Reply:
        return self.client.send(command, 20.0)

    def events(self, kind: str) -> list[Event]:
        return [e for e in self.telemetry.log.recent() if e.kind == kind]

    def until(self, condition, seconds: float = 20.0) -> None:  # type: ignore[no-untyped-def]
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.005)

    def close(self) -> None:
        self.server.stop()
        self.thread.join(10)
        self.publisher.stop()
