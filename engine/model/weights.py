"""A model's weights as the decoder computes with them."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor


@dataclass(slots=True)
class Layer:
    """Weights of one layer, ``[outputs, inputs]``; projections of the same input are joined into one matrix. None stands
    for what the model's family does not have."""

    attention_norm: Tensor
    qkv: Tensor
    """Rows: query heads, then key heads, then value heads."""

    attention_out: Tensor
    feed_forward_norm: Tensor
    gate_up: Tensor
    """Rows: gate, then up."""

    down: Tensor
    qkv_bias: Tensor | None = None
    attention_out_bias: Tensor | None = None
    gate_up_bias: Tensor | None = None
    down_bias: Tensor | None = None
    qk_norm: Tensor | None = None
    """``[query_heads + kv_heads, head_size]``: the norm of queries, repeated, then that of keys."""

    post_attention_norm: Tensor | None = None
    post_feed_forward_norm: Tensor | None = None

    def tensors(self) -> Iterator[Tensor]:
        """Those that there are."""
        for name in self.__slots__:
            if (tensor := getattr(self, name)) is not None:
                yield tensor


@dataclass(slots=True)
class Weights:
    """All weights. ``head`` is the same tensor as ``embedding`` where they are tied."""

    embedding: Tensor
    layers: list[Layer]
    final_norm: Tensor
    head: Tensor

    def tensors(self) -> Iterator[Tensor]:
        """Each once."""
        yield self.embedding
        for layer in self.layers:
            yield from layer.tensors()
        yield self.final_norm
        if self.head is not self.embedding:
            yield self.head
