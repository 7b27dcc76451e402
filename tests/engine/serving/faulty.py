"""A served engine without a model whose runner fails as it is told to."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from engine.requests.batch import BatchItem, BlockCopy, StepOutput
from engine.requests.output_text import TokenBytes
from engine.requests.request import FinishReason
from engine.serving.handle import RequestHandle
from engine.serving.server import Server
from engine.serving.submission import Vocabulary
from engine.serving.telemetry import Telemetry
from kvtop.protocol import Event, IterationFrame, Keyframe
from kvtop.protocol.codec import decode_frame, encode
from kvtop.publish import EncodedKeyframe
from tests.engine.driving import FakeRunner
from tests.engine.fake_model import Clock, make_engine

LETTERS = Vocabulary(100, frozenset(), lambda token: bytes([97 + token % 26]))
"""Token 0 is an a, 1 a b, and so on; nothing ends an output by itself."""


class FaultyRunner(FakeRunner):
    """``fails``: what running these items and copies raises, if anything. ``bad``: requests whose logits are no numbers.
    Whoever reads a block that somebody else wrote is noticed, as in `FakeRunner`."""

    fails: Callable[[Sequence[BatchItem], Sequence[BlockCopy]], Exception | None] = staticmethod(
        lambda items, copies: None
    )
    bad: frozenset[int] = frozenset()

    def run(self, items: Sequence[BatchItem], copies: Sequence[BlockCopy] = ()) -> StepOutput:
        if (error := self.fails(items, copies)) is not None:
            raise error
        output = super().run(items, copies)
        broken = [r.num for item in items for r in (item.drawing or (item.request,)) if r.num in self.bad]
        return replace(output, failures=dict.fromkeys(broken, "the logits are not finite numbers"))


class Kept:
    """The publisher's part of the serving loop, without sockets; every frame goes through its text form."""

    watched = True
    recorded = False
    flight = None

    def __init__(self) -> None:
        self.hello: Any = type("Hello", (), {"engine": type("Engine", (), {"run": "r"})})
        self.frames: list[IterationFrame] = []
        self.nudges = 0

    def commands(self) -> list[Any]:
        return []

    def publish(self, frame: IterationFrame) -> None:
        line = decode_frame(encode(frame))
        assert isinstance(line, IterationFrame)
        self.frames.append(line)

    def keyframe_coming(self, seq: int) -> None: ...

    def publish_keyframe(self, keyframe: Keyframe | EncodedKeyframe) -> None:
        line = keyframe.line if isinstance(keyframe, EncodedKeyframe) else encode(keyframe)
        assert isinstance(decode_frame(line), Keyframe)

    def keyframe_due(self) -> bool:
        return True

    def wait(self, seconds: float) -> None: ...

    def nudge(self) -> None:
        self.nudges += 1


class Served:
    """A server that is driven turn by turn."""

    def __init__(
        self,
        blocks: int = 64,
        *,
        vocabulary: Vocabulary = LETTERS,
        expose_text: bool = False,
        token_bytes: TokenBytes | None = None,
        **policies: Any,
    ):
        self.engine, _ = make_engine(blocks, clock=Clock(), **policies)
        self.runner = FaultyRunner(self.engine.scheduler.pool)
        self.engine.runner = self.runner
        self.telemetry = Telemetry(self.engine, bytes_per_token=8, attention_mode="none", token_bytes=token_bytes)
        self.kept: Any = Kept()
        self.server = Server(
            self.engine, self.telemetry, self.kept, vocabulary=vocabulary, expose_text=expose_text, ledger_every=1
        )
        self.submit = self.server.submit

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.server._turn()
            wrong = self.engine.scheduler.ledger_violations()
            assert not wrong, wrong

    def run_out(self, limit: int = 500) -> None:
        self.turn()
        for _ in range(limit):
            if not self.engine.scheduler.requests:
                return
            self.turn()
        raise AssertionError("requests are left that never end")

    def events(self, kind: str) -> list[Event]:
        return [event for frame in self.kept.frames for event in frame.events if event.kind == kind]


def tokens_of(handle: RequestHandle) -> list[tuple[int, ...]]:
    """Its outputs, complete."""
    return [output.token_ids for output in handle.result(0.0)]


def reasons(handle: RequestHandle) -> list[str | None]:
    return [output.finish_reason for output in handle.result(0.0)]


__all__ = ["LETTERS", "FaultyRunner", "FinishReason", "Kept", "Served", "reasons", "tokens_of"]
