"""Qwen2, whose queries, keys and values have biases; Qwen3, which norms queries and keys instead."""

from dataclasses import replace

from engine.memory.window import Windows
from engine.model.config import ModelConfig, Projection
from engine.model.families import gguf_settings, hf_settings
from engine.model.families.base import Description, ModelFamily
from engine.model.files.base import ModelFiles
from engine.model.files.fields import Fields
from engine.model.files.names import GGUF, HF, TensorNames


def _windows(fields: Fields, layers: int) -> Windows:
    """The first ``max_window_layers`` see all, the others the window; nothing of it holds unless ``use_sliding_window``."""
    if not fields.flag("use_sliding_window"):
        fields.whole("sliding_window", 0)
        return hf_settings.windows_by_type(fields, layers, None)
    window = fields.whole("sliding_window")
    full = max(fields.whole("max_window_layers", 28), 0)
    default = tuple(None if layer < full else window for layer in range(layers))
    return hf_settings.windows_by_type(fields, layers, window, default if full < layers else ())


def _qwen2_from_hf(files: ModelFiles) -> ModelConfig:
    config = hf_settings.read_config(files)
    return replace(
        config,
        rope=hf_settings.read_rope(files.fields),
        windows=_windows(files.fields, config.layers),
        biases=frozenset[Projection]({"qkv"}),
    )


def _qwen3_from_hf(files: ModelFiles) -> ModelConfig:
    fields = files.fields
    fields.whole("head_dim")  # must be there: what it is without differs between versions of the format
    config = hf_settings.read_config(files)
    biases: frozenset[Projection] = frozenset()
    if fields.flag("attention_bias"):
        biases = frozenset({"qkv", "attention_out"})
    return replace(
        config,
        rope=hf_settings.read_rope(fields),
        windows=_windows(fields, config.layers),
        biases=biases,
        qk_norm=True,
    )


def _qwen3_from_gguf(files: ModelFiles) -> ModelConfig:
    return replace(gguf_settings.read_config(files), qk_norm=True)


QWEN2 = ModelFamily(
    "qwen2",
    gguf=Description("qwen2", gguf_settings.read_config, TensorNames(GGUF)),
    hf=Description("qwen2", _qwen2_from_hf, TensorNames(HF)),
)

QWEN3 = ModelFamily(
    "qwen3",
    gguf=Description("qwen3", _qwen3_from_gguf, TensorNames(GGUF)),
    hf=Description("qwen3", _qwen3_from_hf, TensorNames(HF)),
)
