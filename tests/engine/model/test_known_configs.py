"""``config.json`` as it lies in folders of well-known models, older ways of saying it among them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.model.config import ModelConfig
from engine.model.families import FAMILIES
from engine.model.families.hf_settings import HARMLESS
from engine.model.files.base import ModelFiles
from engine.model.files.fields import Fields
from engine.model.load import load_model
from engine.model.rope import Linear, Llama3, Rope, Yarn, yarn_magnitude
from tests.engine.hf_models import KINDS, write_folder

_GENERAL = {
    "attention_dropout": 0.0,
    "initializer_range": 0.02,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.43.1",
    "use_cache": True,
}

SMOLLM2 = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "is_llama_config": True,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "pad_token_id": 2,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_interleaved": False,
    "rope_scaling": None,
    "rope_theta": 100000,
    "tie_word_embeddings": True,
    "transformers.js_config": {"kv_cache_dtype": {"fp16": "float16"}},
    "vocab_size": 49152,
}

LLAMA_32_1B = {
    "attention_bias": False,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008, 128009],
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "vocab_size": 128256,
}

MISTRAL_7B = {
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "model_type": "mistral",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "sliding_window": 4096,
    "tie_word_embeddings": False,
    "vocab_size": 32000,
}

QWEN25 = {
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "hidden_act": "silu",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "max_position_embeddings": 32768,
    "max_window_layers": 21,
    "model_type": "qwen2",
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}

QWEN3 = {
    **QWEN25,
    "attention_bias": False,
    "head_dim": 128,
    "hidden_size": 1024,
    "max_position_embeddings": 40960,
    "max_window_layers": 28,
    "model_type": "qwen3",
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
}

GEMMA3_1B = {
    "attention_bias": False,
    "attn_logit_softcapping": None,
    "bos_token_id": 2,
    "cache_implementation": "hybrid",
    "eos_token_id": [1, 106],
    "final_logit_softcapping": None,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 1152,
    "intermediate_size": 6912,
    "max_position_embeddings": 32768,
    "model_type": "gemma3_text",
    "num_attention_heads": 4,
    "num_hidden_layers": 26,
    "num_key_value_heads": 1,
    "pad_token_id": 0,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "vocab_size": 262144,
}

GEMMA2_2B = {
    "attention_bias": False,
    "attn_logit_softcapping": 50.0,
    "bos_token_id": 2,
    "cache_implementation": "hybrid",
    "eos_token_id": [1, 107],
    "final_logit_softcapping": 30.0,
    "head_dim": 256,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "max_position_embeddings": 8192,
    "model_type": "gemma2",
    "num_attention_heads": 8,
    "num_hidden_layers": 26,
    "num_key_value_heads": 4,
    "pad_token_id": 0,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_theta": 10000.0,
    "sliding_window": 4096,
    "vocab_size": 256000,
}


def _read(settings: Mapping[str, Any], **changes: Any) -> ModelConfig:
    fields = Fields(Path("config.json"), _GENERAL | dict(settings) | changes)
    called = fields.text("model_type")
    files = ModelFiles(Path("here"), "known", called, fields, fields.whole("vocab_size"), {}, "0" * 12, "BF16")
    described = next(family.hf for family in FAMILIES.values() if family.hf and family.hf.called == called)
    config = described.config(files)
    fields.refuse_unread(HARMLESS)
    return config


def test_smollm2() -> None:
    config = _read(SMOLLM2)
    assert (config.head_size, config.group, config.tied, config.rope) == (64, 3, True, Rope(100_000.0))
    assert (config.windows, config.biases) == ((), frozenset())


def test_llama_with_its_scaling() -> None:
    assert _read(LLAMA_32_1B).rope == Rope(500_000.0, Llama3(32.0, 1.0, 4.0, 8192))


def test_mistral_and_its_window() -> None:
    config = _read(MISTRAL_7B)
    assert (config.windows, config.tied) == ((4096,) * 32, False)
    assert _read(MISTRAL_7B, sliding_window=None, head_dim=None).windows == ()


def test_qwen2_has_no_window_unless_it_uses_it() -> None:
    config = _read(QWEN25)
    assert (config.windows, config.biases, config.head_size) == ((), {"qkv"}, 64)
    assert _read(QWEN25, use_sliding_window=True).windows == (None,) * 21 + (32768,) * 3
    stretched = _read(QWEN25, rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768})
    assert stretched.rope == Rope(1e6, Yarn(4.0, 32768, magnitude=yarn_magnitude(4.0)))


def test_qwen3() -> None:
    config = _read(QWEN3)
    assert (config.qk_norm, config.head_size, config.biases) == (True, 128, frozenset())


def test_gemma3_has_five_windows_to_one_layer_that_sees_all() -> None:
    config = _read(GEMMA3_1B)
    assert config.windows[:7] == (512, 512, 512, 512, 512, None, 512)
    assert config.ropes[:6] == (Rope(10_000.0),) * 5 + (Rope(1e6),)
    assert (config.tied, config.qk_norm, config.post_norms) == (True, True, True)
    assert config.attention_scale == 1 / 16
    assert (config.attention_cap, config.logit_cap) == (None, None)
    assert _read(GEMMA3_1B, rope_scaling={"factor": 8.0, "rope_type": "linear"}).ropes[5].scaling == Linear(8.0)


def test_gemma2_caps_and_sees_a_window_in_every_other_layer() -> None:
    config = _read(GEMMA2_2B)
    assert config.windows[:3] == (4096, None, 4096)
    assert (config.attention_cap, config.logit_cap, config.qk_norm, config.ropes) == (50.0, 30.0, False, ())


_OLDER = {
    "llama": {"rope_theta": 5e5},
    "llama, linear rope": {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 3.0}},
    "llama, yarn rope": {
        "rope_theta": 1e4,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    },
    "gemma3": {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 6, "layer_types": None},
}


@pytest.mark.parametrize("name", _OLDER)
def test_what_older_versions_wrote_means_the_same(name: str, tmp_path: Path) -> None:
    write_folder(tmp_path, KINDS[name])
    now = load_model(tmp_path).config
    path = tmp_path / "config.json"
    written = json.loads(path.read_text())
    del written["rope_parameters"]
    path.write_text(json.dumps(written | _OLDER[name]))
    assert load_model(tmp_path).config == now
