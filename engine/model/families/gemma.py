"""Gemma: layers that see a window between layers that see all, norms behind as well as before, scaled embeddings.

Gemma 3 norms queries and keys and turns its two kinds of layers at different speeds; Gemma 2 caps scores and logits.
Norms are stored less one by Hugging Face, and as they are in GGUF files.
"""

import math
from dataclasses import replace

from engine.memory.window import Windows
from engine.model.config import ModelConfig
from engine.model.families import gguf_settings, hf_settings
from engine.model.families.base import Description, ModelFamily
from engine.model.files.base import ModelFiles
from engine.model.files.fields import Fields
from engine.model.files.names import GGUF, HF_POST_NORMS, TensorNames
from engine.model.rope import Rope

_GLOBAL_BASE, _LOCAL_BASE = 1_000_000.0, 10_000.0
_LARGEST_LAYERS = {"gemma2": 46, "gemma3": 62}


def _every(period: int, window: int, layers: int) -> Windows:
    """Each ``period``-th layer sees all."""
    windows = tuple(window if (layer + 1) % period else None for layer in range(layers))
    return windows if any(each is not None for each in windows) else ()


def _common(config: ModelConfig) -> ModelConfig:
    return replace(config, post_norms=True, embedding_scale=math.sqrt(config.hidden), activation="gelu_tanh")


def _from_hf(files: ModelFiles, period: int) -> ModelConfig:
    fields = files.fields
    fields.whole("head_dim")
    if fields.flag("use_bidirectional_attention"):
        fields.refuse("use_bidirectional_attention", "is true: only tokens that see what is before them are built in")
    if fields.flag("attention_bias"):
        fields.refuse("attention_bias", "is true, which is not built in for this family")
    config = hf_settings.read_config(files, tied=True)
    if config.activation != "gelu_tanh":
        fields.refuse("hidden_activation", "is not gelu_pytorch_tanh")
    window = fields.whole("sliding_window", 0) or None
    default = _every(period, window, config.layers) if window else ()
    return replace(
        _common(config),
        windows=hf_settings.windows_by_type(fields, config.layers, window, default),
        attention_scale=fields.above_zero("query_pre_attn_scalar") ** -0.5,
        attention_cap=fields.number("attn_logit_softcapping", 0.0) or None,
        logit_cap=fields.number("final_logit_softcapping", 0.0) or None,
    )


def _by_window(windows: Windows, full: Rope, sliding: Rope) -> tuple[Rope, ...]:
    return tuple(full if window is None else sliding for window in windows)


def _gemma3_ropes(fields: Fields, context: int) -> tuple[Rope, Rope]:
    full, sliding = fields.number("rope_theta", _GLOBAL_BASE), fields.number("rope_local_base_freq", _LOCAL_BASE)
    if fields.has("rope_parameters"):
        both = fields.inner("rope_parameters")
        pair = (
            hf_settings.rope_of(both.inner("full_attention"), full, context),
            hf_settings.rope_of(both.inner("sliding_attention"), sliding, context),
        )
        both.refuse_unread()
        return pair
    return hf_settings.rope_of(fields.inner("rope_scaling"), full, context), Rope(sliding)


def _gemma3_from_hf(files: ModelFiles) -> ModelConfig:
    period = files.fields.whole("sliding_window_pattern", 6)
    config = _from_hf(files, max(period, 1))
    full, sliding = _gemma3_ropes(files.fields, config.context)
    return replace(config, rope=full, ropes=_by_window(config.windows, full, sliding), qk_norm=True)


def _gemma2_from_hf(files: ModelFiles) -> ModelConfig:
    return replace(_from_hf(files, 2), rope=hf_settings.read_rope(files.fields))


def _from_gguf(files: ModelFiles, period: int, window: int, attention_cap: float, logit_cap: float) -> ModelConfig:
    """``period`` and what follows: where the file does not say; 0 for no window and no cap."""
    fields = files.fields
    config = _common(gguf_settings.read_config(files))
    window = fields.whole("attention.sliding_window", window)
    period = max(fields.whole("attention.sliding_window_pattern", period), 1)
    # The files do not tell; the largest of a family alone scales by another size than its heads'.
    scale = (config.hidden / config.query_heads) ** -0.5 if config.layers == _LARGEST_LAYERS[files.called] else None
    return replace(
        config,
        windows=_every(period, window, config.layers) if window else (),
        attention_scale=scale,
        attention_cap=fields.number("attn_logit_softcapping", attention_cap) or None,
        logit_cap=fields.number("final_logit_softcapping", logit_cap) or None,
    )


def _gemma3_from_gguf(files: ModelFiles) -> ModelConfig:
    config = _from_gguf(files, 6, 0, 0.0, 0.0)
    sliding = Rope(files.fields.number("rope.freq_base_swa", _LOCAL_BASE))
    return replace(config, ropes=_by_window(config.windows, config.rope, sliding), qk_norm=True)


def _gemma2_from_gguf(files: ModelFiles) -> ModelConfig:
    return _from_gguf(files, 2, 4096, 50.0, 30.0)


GEMMA3 = ModelFamily(
    "gemma3",
    gguf=Description("gemma3", _gemma3_from_gguf, TensorNames(GGUF)),
    hf=Description("gemma3_text", _gemma3_from_hf, TensorNames(HF_POST_NORMS, norm_offset=1.0)),
)

GEMMA2 = ModelFamily(
    "gemma2",
    gguf=Description("gemma2", _gemma2_from_gguf, TensorNames(GGUF)),
    hf=Description("gemma2", _gemma2_from_hf, TensorNames(HF_POST_NORMS, norm_offset=1.0)),
)
