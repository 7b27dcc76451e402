"""A decoder over a paged KV cache: RMS norms, rotary positions, grouped heads, gated feed-forward.

Architecture: Touvron et al., "LLaMA" (2023); grouped heads: Ainslie et al. (2023); rotary positions in the rotate-half
form: Su et al. (2021). What only some families have (biases, norms of heads and behind, caps, scales, rotary bases by
layer) is in the configuration and weights, None where it is not.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.memory.groups import KVGroups
from engine.model.attention.base import AttentionBackend, BatchLayout
from engine.model.config import Activation, ModelConfig
from engine.model.kv_cache import KVCache
from engine.model.rotary import RotaryTables
from engine.model.weights import Layer, Weights

_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


class Decoder:
    """The model: token ids and a batch layout in, logits of the rows that sample out. Holds no state of requests."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.config = config
        self.weights = weights
        self.groups = KVGroups.of(config.windows, config.layers)
        self._by_layer = self.groups.by_layer
        self.device = weights.embedding.device
        self.dtype = weights.embedding.dtype
        self._ropes = [config.rope_of(layer) for layer in range(config.layers)]
        self._rotary = {
            rope: RotaryTables(rope, config.head_size, config.context, self.device, self.dtype)
            for rope in dict.fromkeys(self._ropes)
        }
        self._activate = _ACTIVATIONS[config.activation]
        self._embedding_scale = float(torch.tensor(config.embedding_scale, dtype=self.dtype))
        """Rounded as the models were trained with it."""

    @property
    def parameters(self) -> int:
        """Number of weights; tied ones count once."""
        return sum(tensor.numel() for tensor in self.weights.tensors())

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
        attends = [
            attention.prepare(each, self.dtype, config.attention_scale, config.attention_cap) for each in layouts
        ]
        rotary = {rope: tables.at(layout.positions, layout.reach) for rope, tables in self._rotary.items()}
        x = self._embed(token_ids)
        rows = x.shape[0]
        last = len(weights.layers) - 1
        for number, layer in enumerate(weights.layers):
            qkv = F.linear(self._norm(x, layer.attention_norm), layer.qkv, layer.qkv_bias)
            qkv = qkv.view(rows, heads + 2 * kv_heads, size)
            turning = qkv[:, : heads + kv_heads]
            if layer.qk_norm is not None:
                turning = F.rms_norm(turning, (size,), None, config.norm_epsilon) * layer.qk_norm
            cosines, sines = rotary[self._ropes[number]]
            rotated = torch.addcmul(turning * cosines, turning.roll(size // 2, dims=-1), sines)
            group, plane = self._by_layer[number]
            keys, values = cache.plane(plane)
            keys.write(layouts[group].slots, rotated[:, heads:])
            values.write(layouts[group].slots, qkv[:, heads + kv_heads :])
            mixed = attends[group](rotated[:, :heads], keys, values, config.window(number)).reshape(rows, heads * size)
            if number == last:
                # Past the last attention only the rows that sample matter: their KV is written, no layer follows.
                mixed, x = mixed.index_select(0, layout.sample_rows), x.index_select(0, layout.sample_rows)
                if not x.shape[0]:
                    return x.new_empty((0, config.vocab))
            mixed = F.linear(mixed, layer.attention_out, layer.attention_out_bias)
            x = x + self._post(mixed, layer.post_attention_norm)
            x = x + self._post(self._feed_forward(x, layer), layer.post_feed_forward_norm)
        return capped(F.linear(self._norm(x, weights.final_norm), weights.head), config.logit_cap)

    def _embed(self, token_ids: Tensor) -> Tensor:
        x = self.weights.embedding.index_select(0, token_ids)
        return x if self._embedding_scale == 1.0 else x * self._embedding_scale

    def _feed_forward(self, x: Tensor, layer: Layer) -> Tensor:
        joined = F.linear(self._norm(x, layer.feed_forward_norm), layer.gate_up, layer.gate_up_bias)
        gate, up = joined.chunk(2, dim=-1)
        return F.linear(self._activate(gate) * up, layer.down, layer.down_bias)

    def _post(self, x: Tensor, weight: Tensor | None) -> Tensor:
        return x if weight is None else self._norm(x, weight)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (self.config.hidden,), weight, self.config.norm_epsilon)


def capped(x: Tensor, cap: float | None) -> Tensor:
    """``cap * tanh(x / cap)``, which is near ``x`` where that is small."""
    return x if cap is None else torch.tanh(x / cap) * cap
