"""What an engine is started with. Fixed for its life; what can change while it serves is in `engine.policies.policy_set`."""

from dataclasses import dataclass, field

from engine.policies.kv_dtype import KV_DTYPES
from engine.serving.watchdog import Limits
from kvtop.protocol import PolicyValue


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Start-up settings. ``blocks``, ``block_size`` and ``rate`` 0 let the engine choose; ``model`` is smollm2, random, or a path to a GGUF file."""

    model: str = "smollm2"
    name: str = "engine"
    blocks: int = 0
    block_size: int = 0
    device: str = "auto"
    attention: str = "auto"
    kv_dtype: str = "auto"
    """Element type of the KV cache at the start: auto is the weights', the others are `KV_DTYPES`. The same as the policy
    kv_dtype."""
    window: str = ""
    """Sliding windows laid over the model's layers, as in `engine.memory.window.parse_windows`; empty leaves the model's own."""
    seed: int = 0
    workload: str = "none"
    rate: float = 0.0
    policies: dict[str, PolicyValue | str] = field(default_factory=dict)
    host_blocks: int = 0
    """Blocks in the host tier; 0: there is none."""
    disk_blocks: int = 0
    """Blocks in the disk tier; 0: there is none."""
    disk_path: str = ""
    """File of the disk tier, made and removed by the engine; empty: one of its own in the cache folder."""
    expose_text: bool = False
    ledger_every: int = 64
    """Iterations between two ledger checks while serving; 0 never checks."""
    watchdog: Limits = field(default_factory=Limits)
    """When the watchdog tells that work waits and nothing comes of it."""

    def __post_init__(self) -> None:
        if self.block_size not in (0, 1, 2, 4, 8, 16, 32, 64, 128, 256):
            raise ValueError(
                f"block size {self.block_size} must be a power of two from 1 to 256 tokens, or 0 for a choice by the engine"
            )
        if self.kv_dtype not in ("auto", *KV_DTYPES):
            raise ValueError(f"KV data type {self.kv_dtype!r} is not one of auto, {', '.join(KV_DTYPES)}")
        for tier, blocks in (("host", self.host_blocks), ("disk", self.disk_blocks)):
            if blocks < 0:
                raise ValueError(f"{tier} blocks {blocks} must not be negative")
        if self.blocks < 0:
            raise ValueError(f"blocks {self.blocks} must not be negative")
        if self.ledger_every < 0:
            raise ValueError(f"ledger interval {self.ledger_every} must not be negative")
