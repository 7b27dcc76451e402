"""The weights that a configuration asks for, out of a file."""

import torch
from torch import Tensor

from engine.model.config import ModelConfig, Projection
from engine.model.files.names import TensorNames
from engine.model.files.placer import Part, Placer
from engine.model.weights import Layer, Weights


def assemble(config: ModelConfig, place: Placer, names: TensorNames) -> Weights:
    """Raises `engine.model.errors.ModelError` for a tensor that is missing or of another shape; what is too much stays in
    ``place.left``."""
    hidden, vocab = config.hidden, config.vocab
    layers = [_layer(config, place, names, number) for number in range(config.layers)]
    embedding = place.take(Part(names.of("embedding"), (vocab, hidden)))
    final_norm = place.take(Part(names.of("final_norm"), (hidden,)), plus=names.norm_offset)
    if config.tied:
        place.left.discard(names.of("head"))  # the same once more, in some files
        return Weights(embedding, layers, final_norm, embedding)
    return Weights(embedding, layers, final_norm, place.take(Part(names.of("head"), (vocab, hidden))))


def _layer(config: ModelConfig, place: Placer, names: TensorNames, number: int) -> Layer:
    hidden, size = config.hidden, config.head_size
    width, kv_width, inner = config.query_heads * size, config.kv_heads * size, config.feed_forward
    heads = {"query": config.query_heads, "key": config.kv_heads} if names.interleaved else {}

    def joined(projection: Projection, inputs: int, **outputs: int) -> tuple[Tensor, Tensor | None]:
        """A projection's weights, and its biases if it has any."""

        def take(kind: str, *columns: int) -> Tensor:
            return place.take(
                *(
                    Part(names.of(part, number, kind), (rows, *columns), heads.get(part, 0))
                    for part, rows in outputs.items()
                )
            )

        return take("weight", inputs), take("bias") if projection in config.biases else None

    def norm(part: str, length: int = hidden) -> Tensor:
        return place.take(Part(names.of(part, number), (length,)), plus=names.norm_offset)

    qkv, qkv_bias = joined("qkv", hidden, query=width, key=kv_width, value=kv_width)
    attention_out, attention_out_bias = joined("attention_out", width, attention_out=hidden)
    gate_up, gate_up_bias = joined("gate_up", hidden, gate=inner, up=inner)
    down, down_bias = joined("down", inner, down=hidden)
    qk_norm = None
    if config.qk_norm:
        query, key = norm("query_norm", size), norm("key_norm", size)
        qk_norm = torch.cat([query.expand(config.query_heads, size), key.expand(config.kv_heads, size)])
    return Layer(
        attention_norm=norm("attention_norm"),
        qkv=qkv,
        attention_out=attention_out,
        feed_forward_norm=norm("feed_forward_norm"),
        gate_up=gate_up,
        down=down,
        qkv_bias=qkv_bias,
        attention_out_bias=attention_out_bias,
        gate_up_bias=gate_up_bias,
        down_bias=down_bias,
        qk_norm=qk_norm,
        post_attention_norm=norm("post_attention_norm") if config.post_norms else None,
        post_feed_forward_norm=norm("post_feed_forward_norm") if config.post_norms else None,
    )
