"""The weights that a configuration asks for, out of a file."""

from engine.model.config import ModelConfig
from engine.model.files.names import TensorNames
from engine.model.files.placer import Placer
from engine.model.weights import Layer, Weights


def assemble(config: ModelConfig, place: Placer, names: TensorNames) -> Weights:
    """Raises `engine.model.errors.ModelError` for a tensor that is missing, too much, or of another shape."""
    hidden, vocab = config.hidden, config.vocab
    layers = [_layer(config, place, names, number) for number in range(config.layers)]
    embedding = place.take((vocab, hidden), names.of("embedding"))
    final_norm = place.take((hidden,), names.of("final_norm"), plus=names.norm_offset)
    head = names.of("head")
    if config.tied:
        place.left.discard(head)  # the same once more, in some files
    return Weights(embedding, layers, final_norm, embedding if config.tied else place.take((vocab, hidden), head))


def _layer(config: ModelConfig, place: Placer, names: TensorNames, number: int) -> Layer:
    hidden, size, offset = config.hidden, config.head_size, names.norm_offset
    width = config.query_heads * size
    joined = {
        "qkv": ("query", "key", "value"),
        "attention_out": ("attention_out",),
        "gate_up": ("gate", "up"),
        "down": ("down",),
    }
    shapes = {
        "qkv": (width + 2 * config.kv_heads * size, hidden),
        "attention_out": (hidden, width),
        "gate_up": (2 * config.feed_forward, hidden),
        "down": (hidden, config.feed_forward),
    }
    heads = {"query": config.query_heads, "key": config.kv_heads} if names.interleaved else {}
    taken = {}
    for kind in ("weight", "bias"):
        for projection, parts in joined.items():
            if kind == "weight" or projection in config.biases:
                taken[projection, kind] = place.take(
                    shapes[projection] if kind == "weight" else shapes[projection][:1],
                    *(names.of(part, number, kind) for part in parts),
                    unpermute={names.of(part, number, kind): count for part, count in heads.items()},
                )
    norms = {
        part: place.take((hidden,), names.of(part, number), plus=offset)
        for part in ("attention_norm", "feed_forward_norm")
    }
    post_norms = (
        {
            part: place.take((hidden,), names.of(part, number), plus=offset)
            for part in ("post_attention_norm", "post_feed_forward_norm")
        }
        if config.post_norms
        else {}
    )
    qk_norm = None
    if config.qk_norm:
        query, key = (place.take((size,), names.of(part, number), plus=offset) for part in ("query_norm", "key_norm"))
        qk_norm = query.new_empty((config.query_heads + config.kv_heads, size))
        qk_norm[: config.query_heads], qk_norm[config.query_heads :] = query, key
    return Layer(
        qkv=taken["qkv", "weight"],
        attention_out=taken["attention_out", "weight"],
        gate_up=taken["gate_up", "weight"],
        down=taken["down", "weight"],
        qkv_bias=taken.get(("qkv", "bias")),
        attention_out_bias=taken.get(("attention_out", "bias")),
        gate_up_bias=taken.get(("gate_up", "bias")),
        down_bias=taken.get(("down", "bias")),
        qk_norm=qk_norm,
        **norms,
        **post_norms,
    )
