"""Small random models of each family, as `transformers` makes and saves them, and the same as GGUF files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from gguf import GGUFWriter

from engine.model.vocabulary_tokenizer import byte_alphabet

VOCABULARY = ["<|end|>", "<|start|>", *sorted(byte_alphabet()), "he", "ll"]
MERGES = [("h", "e"), ("l", "l")]

_COMMON: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 0,
    "pad_token_id": None,
}


@dataclass(frozen=True)
class Kind:
    """A configuration worth comparing. ``settings`` go over `_COMMON`. ``gguf``: what a GGUF file calls it, empty when its
    family never comes in one; ``gguf_settings``: keys without the architecture, over those that follow from the rest."""

    name: str
    config: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    gguf: str = ""
    gguf_settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def norm_offset(self) -> float:
        """What the norms of the folder are stored less."""
        return 1.0 if self.config.startswith("Gemma") else 0.0


_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
_HYBRID = ["sliding_attention", "full_attention", "sliding_attention"]
_GEMMA = {"head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 20}

KINDS = {
    kind.name: kind
    for kind in (
        Kind("llama", "LlamaConfig", {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, "llama"),
        Kind("llama, tied, heads of their own size", "LlamaConfig", {"tie_word_embeddings": True, "head_dim": 20}, "llama"),
        Kind("llama with biases", "LlamaConfig", {"attention_bias": True, "mlp_bias": True}, "llama"),
        Kind("llama, linear rope", "LlamaConfig", {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0}}, "llama", {"rope.scaling.type": "linear", "rope.scaling.factor": 3.0}),
        Kind("llama, llama3 rope", "LlamaConfig", {"rope_parameters": _LLAMA3}, "llama"),
        Kind("llama, yarn rope", "LlamaConfig", {"rope_parameters": _YARN}, "llama", {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64}),
        Kind("llama, yarn rope, all of it told", "LlamaConfig", {"rope_parameters": {**_YARN, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False, "mscale": 0.7, "mscale_all_dim": 0.4}}),
        Kind("llama, yarn rope with a factor", "LlamaConfig", {"rope_parameters": {**_YARN, "attention_factor": 1.3}}),
        Kind("mistral", "MistralConfig", {"sliding_window": 24}, "llama", {"attention.sliding_window": 24}),
        Kind("mistral without a window", "MistralConfig", {"sliding_window": None, "head_dim": 16}, "llama"),
        Kind("qwen2", "Qwen2Config", {}, "qwen2"),
        Kind("qwen2 with a window", "Qwen2Config", {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1}),
        Kind("qwen2, layers named", "Qwen2Config", {"use_sliding_window": True, "sliding_window": 20, "layer_types": _HYBRID}),
        Kind("qwen3", "Qwen3Config", {"head_dim": 16, "tie_word_embeddings": True}, "qwen3"),
        Kind("qwen3 with biases", "Qwen3Config", {"head_dim": 16, "attention_bias": True}, "qwen3"),
        Kind("gemma2", "Gemma2Config", {**_GEMMA, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
        Kind("gemma2, as files have it", "Gemma2Config", {**_GEMMA, "query_pre_attn_scalar": 16, "num_hidden_layers": 4}, "gemma2", {"attention.sliding_window": 20}),
        Kind("gemma3", "Gemma3TextConfig", {**_GEMMA, "query_pre_attn_scalar": 16, "num_hidden_layers": 7}, "gemma3", {"attention.sliding_window": 20}),
        Kind("gemma3, global layers stretched", "Gemma3TextConfig", {**_GEMMA, "layer_types": _HYBRID, "rope_parameters": {"full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}),
    )
}  # fmt: skip


def write_folder(path: Path, kind: Kind, seed: int = 0, **saving: Any) -> Any:
    """A model of this kind in ``path``, and the model itself, which computes on its own. ``saving``: for
    ``save_pretrained``."""
    settings = _COMMON | {"pad_token_id": None} | dict(kind.settings)
    config = getattr(transformers, kind.config)(**settings)
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # Norms near 1 and the rest so large that every part of the model tells in the logits.
            spread = weight.shape[-1] ** -0.5 if weight.dim() > 1 else 0.3
            weight.normal_(1.0 - kind.norm_offset if "norm" in name else 0.0, spread)
    model.save_pretrained(path, **saving)
    write_tokenizer(path)
    return model


def write_tokenizer(path: Path, settings: Mapping[str, Any] | None = None) -> None:
    """Byte-level BPE with two merges."""
    specials = [
        {"id": number, "content": VOCABULARY[number], "special": True, "normalized": False}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        for number in (0, 1)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": specials,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(VOCABULARY)},
            "merges": [" ".join(pair) for pair in MERGES],
        },
    }
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    own = {"bos_token": "<|start|>", "eos_token": {"content": "<|end|>"}} | dict(settings or {})
    (path / "tokenizer_config.json").write_text(json.dumps(own))


_PARTS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def write_gguf(path: Path, kind: Kind, model: Any) -> Path:
    """The same weights as llama.cpp's converter lays them out, in float32."""
    config = model.config
    writer = GGUFWriter(path, kind.gguf)
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    ropes = config.rope_parameters
    keys = {
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": head_size,
        "attention.value_length": head_size,
        "attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        "rope.freq_base": float(ropes.get("full_attention", ropes)["rope_theta"]),
    }
    for key, value in {**keys, **kind.gguf_settings}.items():
        add = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32}[type(value)]
        add(f"{kind.gguf}.{key}", value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(VOCABULARY)
    writer.add_token_types([3, 3] + [1] * (len(VOCABULARY) - 2))
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_eos_token_id(0)
    parts = _PARTS | {"post_attention_layernorm": "post_attention_norm" if kind.norm_offset else "ffn_norm"}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stem, _, what = name.rpartition(".")
        data = weight.numpy().astype(np.float32)
        if stem.startswith("model.layers."):
            _, _, layer, part = stem.split(".", 3)
            stem, called = f"blk.{layer}.{parts[part]}", parts[part]
        else:
            stem = called = parts[stem]
        if kind.gguf == "llama" and called in ("attn_q", "attn_k"):
            heads = config.num_attention_heads if called == "attn_q" else config.num_key_value_heads
            data = data.reshape(heads, 2, head_size // 2, -1).swapaxes(1, 2).reshape(data.shape)
        if "norm" in called:
            data = data + np.float32(kind.norm_offset)
        writer.add_tensor(f"{stem}.{what}", np.ascontiguousarray(data))
    if ropes.get("rope_type") == "llama3":
        plain = ropes["rope_theta"] ** (-np.arange(head_size // 2) / (head_size // 2))
        factors = plain / model.model.rotary_emb.inv_freq.numpy()
        writer.add_tensor("rope_freqs.weight", factors.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
