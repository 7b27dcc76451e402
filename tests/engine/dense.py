"""The model by plain matrix products over whole sequences: no cache, no blocks, no table. For references."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.load import LoadedModel
from engine.requests.hypotheses import Candidate


def dense_logits(model: LoadedModel, sequences: Sequence[Sequence[int]]) -> Tensor:
    """The logits after each of these sequences, which are equally long."""
    config, weights = model.config, model.decoder.weights
    rows, length, size, half = len(sequences), len(sequences[0]), config.head_size, config.head_size // 2
    dtype = weights.embedding.dtype
    angles = torch.arange(length).double()[:, None] * config.rope.base ** (-torch.arange(half).double() / half)
    cosines, sines = (part[:, None].to(dtype) for part in (angles.cos(), angles.sin()))
    later = torch.ones(length, length, dtype=torch.bool).triu(1)

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + config.norm_epsilon) * weight

    def rotate(x: Tensor) -> Tensor:
        left, right = x[..., :half], x[..., half:]
        return torch.cat([left * cosines - right * sines, right * cosines + left * sines], dim=-1)

    x = weights.embedding[torch.tensor(sequences)]
    for layer in weights.layers:
        qkv = F.linear(norm(x, layer.attention_norm), layer.qkv).view(rows, length, -1, size)
        query, key, value = qkv.split([config.query_heads, config.kv_heads, config.kv_heads], dim=2)
        key, value = (part.repeat_interleave(config.group, dim=2) for part in (rotate(key), value))
        scores = torch.einsum("bqhd,bthd->bhqt", rotate(query), key) / math.sqrt(size)
        mixed = torch.einsum("bhqt,bthd->bqhd", scores.masked_fill(later, float("-inf")).softmax(dim=-1), value)
        x = x + F.linear(mixed.reshape(rows, length, -1), layer.attention_out)
        gate, up = F.linear(norm(x, layer.feed_forward_norm), layer.gate_up).chunk(2, dim=-1)
        x = x + F.linear(F.silu(gate) * up, layer.down)
    return F.linear(norm(x[:, -1], weights.final_norm), weights.head)


def dense_candidates(model: LoadedModel, sequences: Sequence[Sequence[int]], count: int) -> list[list[Candidate]]:
    """The likeliest next tokens of each."""
    with torch.inference_mode():
        best = torch.log_softmax(dense_logits(model, sequences).float(), dim=-1).topk(count)
    return [
        list(zip(tokens, values, strict=True))
        for tokens, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
