"""What ``config.json`` says of every family in the same way."""

from engine.memory.window import Windows
from engine.model.config import Activation, ModelConfig
from engine.model.files.base import ModelFiles
from engine.model.files.fields import Fields
from engine.model.rope import Linear, Llama3, Rope, RopeScaling, Yarn, yarn_magnitude

_ABOUT = """
    _attn_implementation_autoset _name_or_path architectures cache_implementation dtype id2label is_llama_config label2id
    max_window_layers model_type problem_type sliding_window_pattern _sliding_window_pattern tokenizer_class torch_dtype
    transformers.js_config transformers_version unsloth_fixed unsloth_version use_cache
"""
"""Told of the file and of how others compute, or only together with fields that are read."""

_TRAINING = """
    attention_dropout attn_pdrop embd_pdrop gradient_checkpointing hidden_dropout initializer_range neftune_noise_alpha
    pretraining_tp resid_pdrop
"""

_SAMPLING = """
    bos_token_id do_sample eos_token_id max_length max_new_tokens min_length num_beams pad_token_id repetition_penalty
    temperature top_k top_p unk_token_id
"""
"""Clients say how to sample; where outputs end is read with the tokenizer."""

_OTHERS = "chunk_size_feed_forward output_attentions output_hidden_states return_dict"

HARMLESS = frozenset(f"{_ABOUT} {_TRAINING} {_SAMPLING} {_OTHERS}".split())
"""Fields that do not change what a model computes from its tokens."""

_ACTIVATIONS: dict[str, Activation] = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu_tanh"}


def read_config(files: ModelFiles, *, tied: bool = False) -> ModelConfig:
    """Without windows; a family adds what is its own. ``tied``: where the file does not say."""
    fields = files.fields
    if fields.has("quantization_config"):
        fields.refuse("quantization_config", "is there: quantised weights are read from GGUF files only")
    if not fields.flag("is_causal", True):
        fields.refuse("is_causal", "is false: only tokens that see what is before them are built in")
    hidden, query_heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    return ModelConfig(
        name=files.name,
        layers=fields.whole("num_hidden_layers"),
        hidden=hidden,
        feed_forward=fields.whole("intermediate_size"),
        query_heads=query_heads,
        kv_heads=fields.whole("num_key_value_heads", query_heads),
        head_size=fields.whole("head_dim", hidden // max(query_heads, 1)),
        vocab=files.vocab,
        context=fields.whole("max_position_embeddings"),
        norm_epsilon=fields.number("rms_norm_eps"),
        tied=fields.flag("tie_word_embeddings", tied),
        activation=_activation(fields),
    )


def _activation(fields: Fields) -> Activation:
    name = "hidden_activation" if fields.has("hidden_activation") else "hidden_act"
    value = fields.text(name)
    fields.text("hidden_act", "")
    if value not in _ACTIVATIONS:
        fields.refuse(name, f"is {value!r}, which is not built in; {', '.join(_ACTIVATIONS)} are")
    return _ACTIVATIONS[value]


def read_rope(fields: Fields) -> Rope:
    """One for all layers: ``rope_parameters``, or as files said it before, ``rope_theta`` and ``rope_scaling``."""
    base = fields.number("rope_theta", 10_000.0)
    settings = fields.inner("rope_parameters" if fields.has("rope_parameters") else "rope_scaling")
    return rope_of(settings, base, fields.whole("max_position_embeddings"))


def rope_of(settings: Fields, base: float, context: int) -> Rope:
    """What one group of rotary settings says; ``base`` where it names none."""
    base = settings.number("rope_theta", base)
    kind = settings.text("type", "default")
    kind = settings.text("rope_type", kind)
    if settings.number("partial_rotary_factor", 1.0) != 1.0:
        settings.refuse("partial_rotary_factor", "is not 1: rotary positions on a part of the head are not built in")
    scaling: RopeScaling | None = None
    if kind == "linear":
        scaling = Linear(settings.number("factor"))
    elif kind == "llama3":
        scaling = Llama3(
            settings.number("factor"),
            settings.number("low_freq_factor"),
            settings.number("high_freq_factor"),
            settings.whole("original_max_position_embeddings", context),
        )
    elif kind == "yarn":
        scaling = _yarn(settings, context)
    elif kind != "default":
        settings.refuse("rope_type", f"is {kind!r}, which is not built in; default, linear, llama3 and yarn are")
    settings.refuse_unread()
    return Rope(base, scaling)


def _yarn(settings: Fields, context: int) -> Yarn:
    factor = settings.number("factor")
    magnitude = yarn_magnitude(factor)
    if settings.has("mscale") and settings.has("mscale_all_dim"):
        above, below = settings.number("mscale"), settings.number("mscale_all_dim")
        if above and below:
            magnitude = yarn_magnitude(factor, above) / yarn_magnitude(factor, below)
    return Yarn(
        factor,
        settings.whole("original_max_position_embeddings", context),
        settings.number("beta_fast", 32.0),
        settings.number("beta_slow", 1.0),
        settings.number("attention_factor", magnitude),
        settings.flag("truncate", True),
    )


def windows_by_type(fields: Fields, layers: int, window: int | None, default: Windows = ()) -> Windows:
    """What each layer sees: as ``layer_types`` says where it is there, else ``default``."""
    if not fields.has("layer_types"):
        return default
    kinds = fields.texts("layer_types")
    if strange := sorted(set(kinds) - {"full_attention", "sliding_attention"}):
        fields.refuse("layer_types", f"names {strange[0]!r}; full_attention and sliding_attention are built in")
    if len(kinds) != layers:
        fields.refuse("layer_types", f"names {len(kinds)} layers of {layers}")
    if window is None and "sliding_attention" in kinds:
        fields.refuse("layer_types", "names sliding_attention, and there is no sliding_window")
    windows = tuple(window if kind == "sliding_attention" else None for kind in kinds)
    return windows if any(each is not None for each in windows) else ()
