"""Writes small GGUF files for tests, with the `gguf` package's own writer."""

from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

from engine.model.vocabulary_tokenizer import byte_alphabet

HEADS, KV_HEADS, HEAD_SIZE, FEED_FORWARD, LAYERS = 4, 2, 8, 64, 2
HIDDEN = HEADS * HEAD_SIZE
VOCABULARY = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(byte_alphabet()), "he"]


def tensors(seed: int = 0) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    rng = np.random.default_rng(seed)
    shapes = {
        "token_embd.weight": (len(VOCABULARY), HIDDEN),
        "output_norm.weight": (HIDDEN,),
    }
    for layer in range(LAYERS):
        shapes |= {
            f"blk.{layer}.attn_norm.weight": (HIDDEN,),
            f"blk.{layer}.attn_q.weight": (HEADS * HEAD_SIZE, HIDDEN),
            f"blk.{layer}.attn_k.weight": (KV_HEADS * HEAD_SIZE, HIDDEN),
            f"blk.{layer}.attn_v.weight": (KV_HEADS * HEAD_SIZE, HIDDEN),
            f"blk.{layer}.attn_output.weight": (HIDDEN, HEADS * HEAD_SIZE),
            f"blk.{layer}.ffn_norm.weight": (HIDDEN,),
            f"blk.{layer}.ffn_gate.weight": (FEED_FORWARD, HIDDEN),
            f"blk.{layer}.ffn_up.weight": (FEED_FORWARD, HIDDEN),
            f"blk.{layer}.ffn_down.weight": (HIDDEN, FEED_FORWARD),
        }
    return {name: rng.standard_normal(shape).astype(np.float32) / 4 for name, shape in shapes.items()}


def write(
    path: Path,
    *,
    architecture: str = "llama",
    drop: str = "",
    extra: dict[str, np.ndarray[Any, np.dtype[np.float32]]] | None = None,
    rope_scaling: bool = False,
    window: int = 0,
    settings: dict[str, bool | int] | None = None,
    seed: int = 0,
) -> Path:
    """A Llama of a few thousand weights; matrices are Q4_1, norms float32. ``drop``: a tensor to leave out."""
    writer = GGUFWriter(path, architecture)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    for name, value in (settings or {}).items():
        (writer.add_bool if isinstance(value, bool) else writer.add_uint32)(name, value)
    if window:
        writer.add_sliding_window(window)
    if rope_scaling:
        writer.add_string("llama.rope.scaling.type", "longrope")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(VOCABULARY)
    writer.add_token_types([3, 3, 3] + [1] * (len(VOCABULARY) - 3))
    writer.add_token_merges(["h e"])
    writer.add_eos_token_id(2)
    for name, data in {**tensors(seed), **(extra or {})}.items():
        if name == drop:
            continue
        if data.ndim == 1:
            writer.add_tensor(name, data)
        else:
            kind = GGMLQuantizationType.Q4_1
            writer.add_tensor(name, quantize(data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
