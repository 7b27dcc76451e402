"""Totals of what went through one tier. Meanings as in the protocol's TierLevel."""

from dataclasses import dataclass

SMOOTHING = 0.1
"""Weight of the latest copy in the mean time a block."""


@dataclass(slots=True)
class Level:
    bytes_in: int = 0
    bytes_out: int = 0
    blocks_in: int = 0
    blocks_out: int = 0
    ms_in: float | None = None
    ms_out: float | None = None
    """Milliseconds a block, mean of the latest copies that went well; None before the first."""
    hit_tokens: int = 0
    miss_tokens: int = 0
    stalls: int = 0
    stall_ms: float = 0.0
    drops: int = 0
    """Blocks refused because the tier was full; those given up for others are in its books."""
    failures: int = 0
    prefetched_blocks: int = 0
    prefetch_used_blocks: int = 0

    def came_in(self, size: int, ms: float) -> None:
        self.bytes_in += size
        self.blocks_in += 1
        self.ms_in = _mean(self.ms_in, ms)

    def went_out(self, size: int, ms: float) -> None:
        self.bytes_out += size
        self.blocks_out += 1
        self.ms_out = _mean(self.ms_out, ms)


@dataclass(slots=True)
class Traffic:
    """What was copied from one tier to another."""

    blocks: int = 0
    bytes: int = 0
    ms: float = 0.0
    stalls: int = 0


def _mean(mean: float | None, value: float) -> float:
    return value if mean is None else mean + SMOOTHING * (value - mean)
