"""A Llama-family decoder over a paged KV cache: RMS norms, rotary positions, grouped heads, gated feed-forward.

Architecture: Touvron et al., "LLaMA" (2023); grouped heads: Ainslie et al. (2023); rotary positions in the rotate-half
form: Su et al. (2021).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.memory.groups import KVGroups
from engine.memory.window import Windows
from engine.model.attention.base import AttentionBackend, BatchLayout
from engine.model.kv_cache import KVCache


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What a model is, apart from its weights. Sizes are counts of elements; ``context`` counts tokens."""

    name: str
    layers: int
    hidden: int
    feed_forward: int
    query_heads: int
    kv_heads: int
    head_size: int
    vocab: int
    context: int
    rope_base: float = 10_000.0
    norm_epsilon: float = 1e-5
    windows: Windows = ()
    """Tokens that each layer sees, None for all; empty when all layers see all."""

    eos_ids: frozenset[int] = frozenset()
    revision: str | None = None
    """First 12 hex digits of the file's SHA-256; None for random weights."""

    stored_as: str | None = None
    """Quantisation of the file; the weights in memory have the decoder's dtype."""

    random_weights: bool = False

    def __post_init__(self) -> None:
        for field in ("layers", "hidden", "feed_forward", "query_heads", "kv_heads", "head_size", "vocab", "context"):
            if getattr(self, field) < 1:
                raise ValueError(f"model {self.name}: {field} is {getattr(self, field)}, must be at least 1")
        if self.query_heads % self.kv_heads:
            raise ValueError(
                f"model {self.name}: {self.query_heads} query heads do not divide among {self.kv_heads} KV heads"
            )
        if self.head_size % 2:
            raise ValueError(f"model {self.name}: head size {self.head_size} is odd; rotary positions need pairs")

        if self.windows and len(self.windows) != self.layers:
            raise ValueError(f"model {self.name}: {len(self.windows)} windows for {self.layers} layers")
        if any(window is not None and window < 1 for window in self.windows):
            raise ValueError(f"model {self.name}: a window of {min(w for w in self.windows if w is not None)} tokens")

    def window(self, layer: int) -> int | None:
        """Tokens that a layer sees, None for all."""
        return self.windows[layer] if self.windows else None

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.query_heads // self.kv_heads


@dataclass(slots=True)
class Layer:
    """Weights of one layer, ``[outputs, inputs]``; projections of the same input are joined into one matrix."""

    attention_norm: Tensor
    qkv: Tensor
    """Rows: query heads, then key heads, then value heads."""

    attention_out: Tensor
    feed_forward_norm: Tensor
    gate_up: Tensor
    """Rows: gate, then up."""

    down: Tensor


@dataclass(slots=True)
class Weights:
    """All weights. ``head`` is the same tensor as ``embedding`` where they are tied."""

    embedding: Tensor
    layers: list[Layer]
    final_norm: Tensor
    head: Tensor


class Decoder:
    """The model: token ids and a batch layout in, logits of the rows that sample out. Holds no state of requests."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.config = config
        self.weights = weights
        self.groups = KVGroups.of(config.windows, config.layers)
        self._slots = self.groups.slots
        self.device = weights.embedding.device
        self.dtype = weights.embedding.dtype
        self.rotary = self._rotary_tables()
        """Cosines and signed sines, ``[context, 1, head_size]``: rotated = x * cos + roll(x, head_size / 2) * sin."""

    @property
    def parameters(self) -> int:
        """Number of weights; tied ones count once."""
        tensors = [self.weights.embedding, self.weights.final_norm]
        if self.weights.head is not self.weights.embedding:
            tensors.append(self.weights.head)
        for layer in self.weights.layers:
            tensors += [layer.attention_norm, layer.qkv, layer.attention_out]
            tensors += [layer.feed_forward_norm, layer.gate_up, layer.down]
        return sum(tensor.numel() for tensor in tensors)

    def _rotary_tables(self) -> tuple[Tensor, Tensor]:
        half = self.config.head_size // 2
        frequencies = self.config.rope_base ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(self.config.context, dtype=torch.float64)[:, None] * frequencies
        cosines = torch.cat([angles.cos(), angles.cos()], dim=-1)
        sines = torch.cat([-angles.sin(), angles.sin()], dim=-1)
        return (
            cosines[:, None].to(device=self.device, dtype=self.dtype),
            sines[:, None].to(device=self.device, dtype=self.dtype),
        )

    @torch.inference_mode()
    def forward(
        self, token_ids: Tensor, layouts: Sequence[BatchLayout], cache: KVCache, attention: AttentionBackend
    ) -> Tensor:
        """Write the KV of every row into ``cache`` and return logits ``[rows that sample, vocab]``.

        ``layouts``: one for each of the model's KV groups. ``token_ids``: int64 ``[rows]``, in the layouts' order. With no row to sample the head is not computed and the
        result has no rows. Work and memory follow the rows and the tokens they attend to, never the pool.
        """
        config, weights = self.config, self.weights
        heads, kv_heads, size = config.query_heads, config.kv_heads, config.head_size
        layout = layouts[0]
        attends = [attention.prepare(each, self.dtype) for each in layouts]
        cosines = self.rotary[0].index_select(0, layout.positions)
        sines = self.rotary[1].index_select(0, layout.positions)
        x = weights.embedding.index_select(0, token_ids)
        rows = x.shape[0]
        last = len(weights.layers) - 1
        for number, layer in enumerate(weights.layers):
            qkv = F.linear(self._norm(x, layer.attention_norm), layer.qkv).view(rows, heads + 2 * kv_heads, size)
            rotated = qkv[:, : heads + kv_heads]
            rotated = torch.addcmul(rotated * cosines, rotated.roll(size // 2, dims=-1), sines)
            group, slot = self._slots[number]
            keys, values = cache.layer(slot)
            keys.write(layouts[group].slots, rotated[:, heads:])
            values.write(layouts[group].slots, qkv[:, heads + kv_heads :])
            mixed = attends[group](rotated[:, :heads], keys, values, config.window(number)).reshape(rows, heads * size)
            if number == last:
                # Past the last attention only the rows that sample matter: their KV is written, no layer follows.
                mixed, x = mixed.index_select(0, layout.sample_rows), x.index_select(0, layout.sample_rows)
                if not x.shape[0]:
                    return x.new_empty((0, config.vocab))
            x = x + F.linear(mixed, layer.attention_out)
            gate, up = F.linear(self._norm(x, layer.feed_forward_norm), layer.gate_up).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        return F.linear(self._norm(x, weights.final_norm), weights.head)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (self.config.hidden,), weight, self.config.norm_epsilon)
