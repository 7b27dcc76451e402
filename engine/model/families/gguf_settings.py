"""What GGUF files of every family say in the same way."""

from collections.abc import Mapping

from torch import Tensor

from engine.model.config import ModelConfig, Projection
from engine.model.files.base import ModelFiles
from engine.model.files.fields import Fields
from engine.model.files.names import GGUF
from engine.model.rope import Divided, Linear, Rope, RopeScaling, Yarn, yarn_magnitude

ROPE_FACTORS = "rope_freqs.weight"

HARMLESS = ("vocab_size", "rope.scaling.finetuned", "tensor_data_layout")
"""Fields that change nothing, or are held against others."""


def read_config(files: ModelFiles) -> ModelConfig:
    """Without windows; a family adds what is its own."""
    fields = files.fields
    hidden, query_heads = fields.whole("embedding_length"), fields.whole("attention.head_count")
    head_size = fields.whole("attention.key_length", hidden // max(query_heads, 1))
    if not fields.flag("attention.causal", True):
        fields.refuse("attention.causal", "is false: only tokens that see what is before them are built in")
    for name, what in (
        ("rope.dimension_count", "rotary positions on a part of the head"),
        ("attention.value_length", "values of another size than keys"),
    ):
        if fields.whole(name, head_size) != head_size:
            fields.refuse(name, f"is not the head's size of {head_size}: {what} are not built in")
    return ModelConfig(
        # The file's name says what users call it; the name inside is often an internal one.
        name=files.name,
        layers=fields.whole("block_count"),
        hidden=hidden,
        feed_forward=fields.whole("feed_forward_length"),
        query_heads=query_heads,
        kv_heads=fields.whole("attention.head_count_kv", query_heads),
        head_size=head_size,
        vocab=files.vocab,
        context=fields.whole("context_length"),
        rope=read_rope(fields, files.tensors, head_size),
        norm_epsilon=fields.number("attention.layer_norm_rms_epsilon"),
        biases=_biases(files.tensors),
        tied="output.weight" not in files.tensors,
    )


def read_rope(fields: Fields, tensors: Mapping[str, Tensor], head_size: int) -> Rope:
    """The rotary positions of layers that see all."""
    base = fields.number("rope.freq_base", 10_000.0)
    factor = fields.number("rope.scaling.factor", fields.number("rope.scale_linear", 1.0))
    kind = fields.text("rope.scaling.type", "linear")
    scaling: RopeScaling | None = None
    if kind == "linear":
        scaling = Linear(factor) if factor != 1.0 else None
    elif kind == "yarn":
        scaling = Yarn(
            factor,
            fields.whole("rope.scaling.original_context_length", fields.whole("context_length")),
            fields.number("rope.scaling.yarn_beta_fast", 32.0),
            fields.number("rope.scaling.yarn_beta_slow", 1.0),
            yarn_magnitude(factor) * fields.number("rope.scaling.attn_factor", 1.0),
        )
    elif kind != "none":
        fields.refuse("rope.scaling.type", f"is {kind!r}, which is not built in; none, linear and yarn are")
    if ROPE_FACTORS in tensors:
        if scaling is not None:
            fields.refuse("rope.scaling.type", f"is {kind!r} beside {ROPE_FACTORS}; one of the two is built in")
        factors = tensors[ROPE_FACTORS].flatten().tolist()
        if len(factors) != head_size // 2 or not all(each > 0 for each in factors):
            fields.refuse(ROPE_FACTORS, f"does not hold {head_size // 2} numbers above 0")
        scaling = Divided(tuple(factors))
    return Rope(base, scaling)


_PROJECTIONS: dict[Projection, str] = {
    "qkv": "query",
    "attention_out": "attention_out",
    "gate_up": "gate",
    "down": "down",
}


def _biases(tensors: Mapping[str, Tensor]) -> frozenset[Projection]:
    """The file names none; it has their tensors or not."""
    return frozenset(
        projection for projection, part in _PROJECTIONS.items() if f"{GGUF[part].format(0)}.bias" in tensors
    )
