"""What a model is, apart from its weights."""

import math
from dataclasses import dataclass
from typing import Literal

from engine.memory.window import Windows
from engine.model.rope import PLAIN, Rope

Activation = Literal["silu", "gelu_tanh"]
Projection = Literal["qkv", "attention_out", "gate_up", "down"]

_MOST = {"layers": 4096, "hidden": 1 << 20, "feed_forward": 1 << 22, "query_heads": 4096, "head_size": 4096}
_MOST |= {"kv_heads": 4096, "vocab": 1 << 24, "context": 1 << 31}
"""Far above any model there is: a damaged file must not ask for more memory than there is before a tensor is read."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes are counts of elements; ``context`` counts tokens. What only some families have is absent by default."""

    name: str
    layers: int
    hidden: int
    feed_forward: int
    query_heads: int
    kv_heads: int
    head_size: int
    vocab: int
    context: int
    rope: Rope = PLAIN
    ropes: tuple[Rope, ...] = ()
    """By layer; empty when all have ``rope``."""

    norm_epsilon: float = 1e-5
    windows: Windows = ()
    """Tokens that each layer sees, None for all; empty when all layers see all."""

    activation: Activation = "silu"
    biases: frozenset[Projection] = frozenset()
    """Projections that add a bias."""

    qk_norm: bool = False
    """Whether each head's query and key are normed before they are rotated."""

    post_norms: bool = False
    """Whether what attention and feed-forward give is normed before it is added."""

    embedding_scale: float = 1.0
    attention_scale: float | None = None
    """Factor on the dot products of queries and keys; None: one by the square root of the head's size."""

    attention_cap: float | None = None
    """Magnitude that attention scores approach and never pass: ``cap * tanh(score / cap)``."""

    logit_cap: float | None = None
    """The same of the logits."""

    tied: bool = False
    """Whether the embedding is the head as well."""

    eos_ids: frozenset[int] = frozenset()
    revision: str | None = None
    """First 12 hex digits of the file's SHA-256; None for random weights."""

    stored_as: str | None = None
    """Quantisation of the file; the weights in memory have the decoder's dtype."""

    random_weights: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError in a sentence that names the field."""
        for field, most in _MOST.items():
            if not 1 <= getattr(self, field) <= most:
                raise ValueError(f"model {self.name}: {field} is {getattr(self, field)}, must be from 1 to {most}")
        if self.query_heads % self.kv_heads:
            raise ValueError(
                f"model {self.name}: {self.query_heads} query heads do not divide among {self.kv_heads} KV heads"
            )
        if self.head_size % 2:
            raise ValueError(f"model {self.name}: head size {self.head_size} is odd; rotary positions need pairs")
        for what, by_layer in (("windows", self.windows), ("rotary bases", self.ropes)):
            if by_layer and len(by_layer) != self.layers:
                raise ValueError(f"model {self.name}: {len(by_layer)} {what} for {self.layers} layers")
        if any(window is not None and window < 1 for window in self.windows):
            raise ValueError(f"model {self.name}: a window of {min(w for w in self.windows if w is not None)} tokens")
        for field in ("norm_epsilon", "embedding_scale", "attention_scale", "attention_cap", "logit_cap"):
            value = getattr(self, field)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"model {self.name}: {field} is {value}, must be above 0")

    def window(self, layer: int) -> int | None:
        """Tokens that a layer sees, None for all."""
        return self.windows[layer] if self.windows else None

    def rope_of(self, layer: int) -> Rope:
        """The rotary positions of a layer."""
        return self.ropes[layer] if self.ropes else self.rope

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.query_heads // self.kv_heads
