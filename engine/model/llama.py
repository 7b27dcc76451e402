"""The Llama family: SmolLM2, Llama, and what else calls itself ``llama`` in a GGUF file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.model.decoder import Layer, ModelConfig, Weights
from engine.model.family import ModelFamily
from engine.model.gguf import GgufError
from engine.model.placer import Placer


def _config(fields: Mapping[str, Any], path: Path) -> ModelConfig:
    scaling = fields.get("llama.rope.scaling.type", "none")
    if scaling != "none":
        raise GgufError(f"{path}: rotary scaling {scaling!r} is not built in")
    query_heads = int(fields["llama.attention.head_count"])
    hidden = int(fields["llama.embedding_length"])
    head_size = int(fields.get("llama.attention.key_length", hidden // query_heads))
    if int(fields.get("llama.rope.dimension_count", head_size)) != head_size:
        raise GgufError(f"{path}: rotary positions on a part of the head are not built in")
    layers = int(fields["llama.block_count"])
    window = int(fields.get("llama.attention.sliding_window", 0))
    return ModelConfig(
        # The file's name says what users call it; the name inside is often an internal one.
        name=path.stem,
        layers=layers,
        hidden=hidden,
        feed_forward=int(fields["llama.feed_forward_length"]),
        query_heads=query_heads,
        kv_heads=int(fields.get("llama.attention.head_count_kv", query_heads)),
        head_size=head_size,
        vocab=len(fields["tokenizer.ggml.tokens"]),
        context=int(fields["llama.context_length"]),
        rope_base=float(fields.get("llama.rope.freq_base", 10_000.0)),
        norm_epsilon=float(fields["llama.attention.layer_norm_rms_epsilon"]),
        windows=(window,) * layers if window else (),
    )


def _weights(config: ModelConfig, place: Placer) -> Weights:
    hidden, size = config.hidden, config.head_size
    layers = []
    for number in range(config.layers):
        prefix = f"blk.{number}."
        query, key, value = (prefix + part for part in ("attn_q.weight", "attn_k.weight", "attn_v.weight"))
        layers.append(
            Layer(
                attention_norm=place.take((hidden,), prefix + "attn_norm.weight"),
                qkv=place.take(
                    ((config.query_heads + 2 * config.kv_heads) * size, hidden),
                    query,
                    key,
                    value,
                    unpermute={query: config.query_heads, key: config.kv_heads},
                ),
                attention_out=place.take((hidden, config.query_heads * size), prefix + "attn_output.weight"),
                feed_forward_norm=place.take((hidden,), prefix + "ffn_norm.weight"),
                gate_up=place.take(
                    (2 * config.feed_forward, hidden), prefix + "ffn_gate.weight", prefix + "ffn_up.weight"
                ),
                down=place.take((hidden, config.feed_forward), prefix + "ffn_down.weight"),
            )
        )
    embedding = place.take((config.vocab, hidden), "token_embd.weight")
    final_norm = place.take((hidden,), "output_norm.weight")
    tied = "output.weight" not in place.tensors
    head = embedding if tied else place.take((config.vocab, hidden), "output.weight")
    return Weights(embedding, layers, final_norm, head)


LLAMA = ModelFamily("llama", _config, _weights)
