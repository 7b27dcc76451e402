"""Llama, SmolLM2, and what else calls itself ``llama``; Mistral, which is a Llama with a window."""

from dataclasses import replace

from engine.model.config import ModelConfig, Projection
from engine.model.families import gguf_settings, hf_settings
from engine.model.families.base import Description, ModelFamily
from engine.model.files.base import ModelFiles
from engine.model.files.names import GGUF, HF, TensorNames


def _from_gguf(files: ModelFiles) -> ModelConfig:
    config = gguf_settings.read_config(files)
    window = files.fields.whole("attention.sliding_window", 0)
    return replace(config, windows=(window,) * config.layers if window else ())


def _from_hf(files: ModelFiles) -> ModelConfig:
    fields = files.fields
    biases: set[Projection] = set()
    if fields.flag("attention_bias"):
        biases |= {"qkv", "attention_out"}
    if fields.flag("mlp_bias"):
        biases |= {"gate_up", "down"}
    config = hf_settings.read_config(files)
    return replace(config, rope=hf_settings.read_rope(fields), biases=frozenset(biases))


def _mistral_from_hf(files: ModelFiles) -> ModelConfig:
    fields = files.fields
    config = hf_settings.read_config(files)
    window = fields.whole("sliding_window", 0)
    windows = (window,) * config.layers if window else ()
    return replace(config, rope=hf_settings.read_rope(fields), windows=windows)


LLAMA = ModelFamily(
    "llama",
    gguf=Description("llama", _from_gguf, TensorNames(GGUF, interleaved=True)),
    hf=Description("llama", _from_hf, TensorNames(HF)),
)

MISTRAL = ModelFamily("mistral", hf=Description("mistral", _mistral_from_hf, TensorNames(HF)))
"""GGUF files call it ``llama``."""
