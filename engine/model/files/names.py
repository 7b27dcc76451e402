"""What a file calls the parts of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

GGUF = MappingProxyType(
    {
        "embedding": "token_embd",
        "final_norm": "output_norm",
        "head": "output",
        "attention_norm": "blk.{}.attn_norm",
        "query": "blk.{}.attn_q",
        "key": "blk.{}.attn_k",
        "value": "blk.{}.attn_v",
        "query_norm": "blk.{}.attn_q_norm",
        "key_norm": "blk.{}.attn_k_norm",
        "attention_out": "blk.{}.attn_output",
        "post_attention_norm": "blk.{}.post_attention_norm",
        "feed_forward_norm": "blk.{}.ffn_norm",
        "gate": "blk.{}.ffn_gate",
        "up": "blk.{}.ffn_up",
        "down": "blk.{}.ffn_down",
        "post_feed_forward_norm": "blk.{}.post_ffw_norm",
    }
)

HF = MappingProxyType(
    {
        "embedding": "model.embed_tokens",
        "final_norm": "model.norm",
        "head": "lm_head",
        "attention_norm": "model.layers.{}.input_layernorm",
        "query": "model.layers.{}.self_attn.q_proj",
        "key": "model.layers.{}.self_attn.k_proj",
        "value": "model.layers.{}.self_attn.v_proj",
        "query_norm": "model.layers.{}.self_attn.q_norm",
        "key_norm": "model.layers.{}.self_attn.k_norm",
        "attention_out": "model.layers.{}.self_attn.o_proj",
        "feed_forward_norm": "model.layers.{}.post_attention_layernorm",
        "gate": "model.layers.{}.mlp.gate_proj",
        "up": "model.layers.{}.mlp.up_proj",
        "down": "model.layers.{}.mlp.down_proj",
    }
)

HF_POST_NORMS = MappingProxyType(
    {
        **HF,
        "post_attention_norm": "model.layers.{}.post_attention_layernorm",
        "feed_forward_norm": "model.layers.{}.pre_feedforward_layernorm",
        "post_feed_forward_norm": "model.layers.{}.post_feedforward_layernorm",
    }
)
"""Where there are norms behind attention and feed-forward."""


@dataclass(frozen=True, slots=True)
class TensorNames:
    """How a file of one family and format names its tensors, and what it stores differently from what is computed with.

    ``interleaved``: rows of query and key projections lie for interleaved rotary pairs. ``norm_offset``: what is to be
    added to the weights of norms.
    """

    parts: Mapping[str, str]
    interleaved: bool = False
    norm_offset: float = 0.0

    def of(self, part: str, layer: int = 0, kind: str = "weight") -> str:
        """``kind``: weight or bias."""
        return f"{self.parts[part].format(layer)}.{kind}"
