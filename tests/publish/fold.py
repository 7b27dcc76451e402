"""A viewer's state in its simplest form, to compare one stream of frames with another."""

from dataclasses import dataclass, field
from typing import Any

from kvtop.protocol import AnyFrame, Gap, IterationFrame, Keyframe, RequestChange, Status

SKIP = {"num", "table_at", "table"}


@dataclass
class Fold:
    seq: int | None = None
    blocks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    hashes: dict[int, str | None] = field(default_factory=dict)
    requests: dict[int, dict[str, Any]] = field(default_factory=dict)
    gauges: dict[str, Any] = field(default_factory=dict)
    counters: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    verdict: Any = None
    queue: Any = None
    tiers: list[Any] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    events_lost: int = 0
    prefill_tokens: int = 0

    def facts(self) -> dict[str, Any]:
        """What two viewers of one engine must agree on, however their frames were merged."""
        return {k: v for k, v in vars(self).items() if k not in {"events", "events_lost", "prefill_tokens"}}

    def apply(self, message: AnyFrame) -> None:
        if isinstance(message, Keyframe):
            self._everything(message)
        elif isinstance(message, Gap):
            assert message.first == self.seq_or(-1) + 1, "a gap begins after the last frame that came"
            self.seq = None
            self._note(message)
            self.events_lost += message.events_lost
        elif isinstance(message, IterationFrame):
            assert self.seq is not None, "an iteration frame without a keyframe"
            assert message.seq - message.merged == self.seq, "a hole without a gap"
            self._step(message)

    def seq_or(self, other: int) -> int:
        return other if self.seq is None else self.seq

    def _note(self, message: IterationFrame | Gap) -> None:
        self.events += [event.id for event in message.events]

    def _step(self, frame: IterationFrame) -> None:
        self.seq = frame.seq
        self._note(frame)
        self._change(frame.blocks, frame.hashes, frame.requests, frame.gauges, frame.counters)
        for num in frame.forgotten:
            self.requests.pop(num, None)
        self.policy = self.policy if frame.policy is None else frame.policy
        self.queue = frame.queue or self.queue
        self.tiers = frame.tiers or self.tiers
        self.verdict = frame.verdict
        self.prefill_tokens += frame.batch.prefill_tokens if frame.batch else 0

    def _everything(self, key: Keyframe) -> None:
        self.seq = key.seq
        self.blocks, self.hashes, self.requests, self.gauges, self.counters = {}, {}, {}, {}, {}
        self._change(key.blocks or [], key.hashes, key.requests or [], key.gauges, key.counters)
        self.policy, self.queue, self.verdict, self.tiers = key.policy, key.queue, key.verdict, key.tiers

    def _change(self, blocks: Any, hashes: Any, requests: list[RequestChange], gauges: Any, counters: Any) -> None:
        for start, count, *rest in blocks:
            for block in range(start, start + count):
                self.blocks[block] = tuple(rest)
        self.hashes |= dict(hashes)
        for change in requests:
            known = self.requests.setdefault(change.num, {"table": []})
            known |= {k: v for k, v in change if v is not None and k not in SKIP}
            if change.table_at is not None:
                assert change.table_at <= len(known["table"])
                known["table"] = known["table"][: change.table_at] + (change.table or [])
        self.gauges |= {k: v for k, v in (gauges or ()) if v is not None}
        self.counters |= {k: v for k, v in (counters or ()) if v is not None}

    def keyframe(self) -> Keyframe:
        """All of it, as an engine would tell it."""
        return Keyframe.model_validate(
            {
                "seq": self.seq or 0,
                "iteration": self.seq or 0,
                "wall": 0.0,
                "mono": 0.0,
                "status": Status(state="running"),
                "policy": self.policy,
                "blocks": [(block, 1, *rest) for block, rest in self.blocks.items()],
                "hashes": list(self.hashes.items()),
                "requests": [{"num": num, "table_at": 0, **known} for num, known in self.requests.items()],
                "queue": self.queue,
                "verdict": self.verdict,
                "gauges": self.gauges,
                "counters": self.counters,
                "tiers": self.tiers,
            }
        )
