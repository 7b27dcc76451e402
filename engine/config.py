"""What an engine is started with. Fixed for its life; what can change while it serves is in `engine.policies.policy_set`."""

from dataclasses import dataclass, field

from engine.memory.window import read_windows
from engine.policies.kv_dtype import KV_DTYPES
from engine.policies.policy_set import PolicySet
from engine.serving.watchdog import Limits
from kvtop.protocol import PolicyValue
from kvtop.protocol.places import valid_name
from kvtop.publish.flight import FlightLimits

MOST_BLOCKS = 16_777_216
"""In one tier; sixteen times what the screen and the books are measured with."""

MOST_RATE = 1e6

NAMED_MODELS = ("smollm2", "random")
"""What is no path."""

MOST_FRACTION = 0.95
"""Of the memory there is: the system ends a process that takes all of it."""

MOST_GIB = 2**20
"""A petabyte."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Start-up settings. ``blocks``, ``block_size`` and ``rate`` 0 let the engine choose; ``model`` is smollm2, random, or the path
    of a GGUF file or a Hugging Face folder."""

    model: str = "smollm2"
    name: str = "engine"
    blocks: int = 0
    memory_fraction: float = 0.0
    """Share of the memory there is that the engine takes in all, instead of ``blocks``; 0: not said."""
    kv_gib: float = 0.0
    """Size of the pool in GiB, instead of ``blocks``; 0: not said."""
    block_size: int = 0
    max_model_len: int = 0
    """Tokens of a request, prompt and output, at most; 0: as many as the model and the pool have room for."""
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
    """Iterations from the beginning of one round of the ledger's audit to the next, at least; 0: never."""
    watchdog: Limits = field(default_factory=Limits)
    """When the watchdog tells that work waits and nothing comes of it."""
    flight: FlightLimits = field(default_factory=FlightLimits)
    """What the flight recorder keeps; 0 minutes or MiB: there is none."""

    def __post_init__(self) -> None:
        """Raises ValueError, in a sentence, for what can be right with no model and on no machine."""
        if not valid_name(self.name):
            raise ValueError(
                f"{self.name!r} cannot name an engine: up to 64 letters, digits, '.', '_', '-', not ending in .ctl"
            )
        if self.block_size not in (0, 1, 2, 4, 8, 16, 32, 64, 128, 256):
            raise ValueError(
                f"block size {self.block_size} must be a power of two from 1 to 256 tokens, or 0 for a choice by the engine"
            )
        _within("blocks", self.blocks, MOST_BLOCKS)
        self._check_pool()
        _within("host blocks", self.host_blocks, MOST_BLOCKS)
        _within("disk blocks", self.disk_blocks, MOST_BLOCKS)
        _within("ledger interval", self.ledger_every, MOST_BLOCKS)
        if self.max_model_len:
            if self.max_model_len < 2:
                raise ValueError(f"model length {self.max_model_len} has no room for a prompt and an answer")
            _within("model length", self.max_model_len, MOST_BLOCKS)
        _within("seed", self.seed, 2**63 - 1)
        if self.disk_path and not self.disk_blocks:
            raise ValueError(
                "a disk path without disk blocks: there is no disk tier; give the number of its blocks too"
            )
        if self.kv_dtype not in ("auto", *KV_DTYPES):
            raise ValueError(f"KV data type {self.kv_dtype!r} is not one of auto, {', '.join(KV_DTYPES)}")
        if not 0.0 <= self.rate <= MOST_RATE:
            raise ValueError(
                f"rate {self.rate:g} must be above 0 and at most {MOST_RATE:g} requests/s, or 0 for a choice"
            )
        if not self.model or "\0" in self.model + self.disk_path:
            raise ValueError(
                "the model has no name: smollm2, random, or the path of a GGUF file or a Hugging Face folder"
            )
        self._check_policies()
        self._check_room()

    @property
    def pool_option(self) -> str:
        """By which option the pool's size was given, or could have been."""
        return "--kv-gib" if self.kv_gib else "--memory-fraction" if self.memory_fraction else "--blocks"

    def _check_pool(self) -> None:
        if not 0.0 <= self.memory_fraction <= MOST_FRACTION:
            raise ValueError(f"memory fraction {self.memory_fraction:g} must be above 0 and at most {MOST_FRACTION}")
        if not 0.0 <= self.kv_gib <= MOST_GIB:
            raise ValueError(f"KV GiB {self.kv_gib:g} must be above 0 and at most {MOST_GIB}")
        sizes = {"blocks": self.blocks, "memory fraction": self.memory_fraction, "KV GiB": self.kv_gib}
        given = [f"{name} {value:g}" for name, value in sizes.items() if value]
        if len(given) > 1:
            raise ValueError(f"the pool has one size: {' and '.join(given)} are {len(given)}; give one of them")

    def _check_policies(self) -> None:
        PolicySet.of(self.policies)
        wanted = {self.kv_dtype, str(self.policies.get("kv_dtype", "auto"))} - {"auto"}
        if len(wanted) > 1:
            raise ValueError(f"two KV data types to start with: {' and '.join(sorted(wanted))}; give one of them")

    def _check_room(self) -> None:
        """A pool must hold a prompt and an answer, a token each, in the blocks of every KV group."""
        groups = len(set(read_windows(self.window))) if self.window else 1
        if self.blocks and self.block_size and self.blocks // groups * self.block_size < 2:
            of_groups = f" of {groups} KV groups" if groups > 1 else ""
            raise ValueError(
                f"{self.blocks} blocks of {self.block_size} tokens{of_groups} have no room for a prompt and an answer"
            )


def _within(name: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        raise ValueError(f"{name} {value if abs(value) < 10**20 else 'given'} must be a whole number from 0 to {most}")
