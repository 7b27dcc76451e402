"""A model with its tokenizer: from a GGUF file, or of random weights."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.memory.window import Windows
from engine.model.decoder import Decoder, Layer, ModelConfig, Weights
from engine.model.gguf import GgufError, read_gguf
from engine.model.tokenizer import BpeTokenizer, ByteTokenizer, TextTokenizer, TokenizerError

TINY = ModelConfig(
    name="random",
    layers=2,
    hidden=64,
    feed_forward=128,
    query_heads=4,
    kv_heads=2,
    head_size=16,
    vocab=512,
    context=4096,
    random_weights=True,
)
"""Small enough that a step takes a millisecond on a CPU."""

SMOLLM2_SHAPE = ModelConfig(
    name="random (SmolLM2-135M's shape)",
    layers=30,
    hidden=576,
    feed_forward=1536,
    query_heads=9,
    kv_heads=3,
    head_size=64,
    vocab=49_152,
    context=8192,
    rope_base=100_000.0,
    random_weights=True,
)
"""Stands in for the demo's model where that cannot be had: the text is noise, time and memory are the real ones."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """What the engine serves."""

    config: ModelConfig
    decoder: Decoder
    tokenizer: TextTokenizer

    @property
    def weight_dtype(self) -> str:
        """Dtype in memory: ``float32``, ``bfloat16``."""
        return str(self.decoder.dtype).removeprefix("torch.")


def with_windows(model: LoadedModel, windows: Windows) -> LoadedModel:
    """The same weights with layers that see so many tokens. Raises ValueError when there are not as many as layers."""
    config = replace(model.config, windows=windows)
    return replace(model, config=config, decoder=Decoder(config, model.decoder.weights))


def default_dtype(device: str) -> torch.dtype:
    """bfloat16 on a GPU, float32 elsewhere."""
    return torch.bfloat16 if torch.device(device).type == "cuda" else torch.float32


def load_model(path: Path, device: str = "cpu", dtype: torch.dtype | None = None) -> LoadedModel:
    """Read a Llama-architecture GGUF file. ``dtype``: `default_dtype` of the device unless given.

    Raises `engine.model.gguf.GgufError` when the file is unreadable or of another architecture.
    """
    file = read_gguf(path)
    try:
        tokenizer = BpeTokenizer(file.fields)
    except TokenizerError as error:
        raise GgufError(f"{path}: {error}") from None
    config = config_from_fields(file.fields, path, tokenizer.eos_ids, file.sha256[:12], file.stored_as)
    place = _Placer(path, file.tensors, device, dtype or default_dtype(device))
    return LoadedModel(config, Decoder(config, _weights(config, place)), tokenizer)


def config_from_fields(
    fields: Mapping[str, Any], path: Path, eos_ids: frozenset[int], revision: str, stored_as: str
) -> ModelConfig:
    """The configuration in a file's metadata. Raises `GgufError` for what this decoder does not compute."""
    kind = fields.get("general.architecture")
    if kind != "llama":
        raise GgufError(f"{path}: architecture {kind!r} is not built in; 'llama' is")
    scaling = fields.get("llama.rope.scaling.type", "none")
    if scaling != "none":
        raise GgufError(f"{path}: rotary scaling {scaling!r} is not built in")
    try:
        query_heads = int(fields["llama.attention.head_count"])
        hidden = int(fields["llama.embedding_length"])
        head_size = int(fields.get("llama.attention.key_length", hidden // query_heads))
        if int(fields.get("llama.rope.dimension_count", head_size)) != head_size:
            raise GgufError(f"{path}: rotary positions on a part of the head are not built in")
        layers = int(fields["llama.block_count"])
        window = int(fields.get("llama.attention.sliding_window", 0))
        return ModelConfig(
            # The file's name says what users call it; the name inside is often an internal one.
            name=path.stem,
            layers=layers,
            hidden=hidden,
            feed_forward=int(fields["llama.feed_forward_length"]),
            query_heads=query_heads,
            kv_heads=int(fields.get("llama.attention.head_count_kv", query_heads)),
            head_size=head_size,
            vocab=len(fields["tokenizer.ggml.tokens"]),
            context=int(fields["llama.context_length"]),
            rope_base=float(fields.get("llama.rope.freq_base", 10_000.0)),
            norm_epsilon=float(fields["llama.attention.layer_norm_rms_epsilon"]),
            windows=(window,) * layers if window else (),
            eos_ids=eos_ids,
            revision=revision,
            stored_as=stored_as,
        )
    except KeyError as error:
        raise GgufError(f"{path}: its metadata lacks {error.args[0]}") from None
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise GgufError(f"{path}: {error}") from None


class _Placer:
    """Takes tensors out of the file's dictionary, so that the float32 copy goes as the model comes."""

    def __init__(self, path: Path, tensors: dict[str, NDArray[np.float32]], device: str, dtype: torch.dtype) -> None:
        self.path, self.tensors, self.device, self.dtype = path, tensors, device, dtype

    def take(self, shape: tuple[int, ...], *names: str, unpermute: Mapping[str, int] | None = None) -> Tensor:
        """The named tensors joined along their rows. ``unpermute``: heads of those whose rows are interleaved."""
        parts = []
        for name in names:
            data = self.tensors.pop(name, None)
            if data is None:
                raise GgufError(f"{self.path}: tensor {name} is missing")
            if unpermute and name in unpermute:
                data = rotate_half_rows(data, unpermute[name])
            parts.append(data)
        try:
            joined = np.concatenate(parts) if len(parts) > 1 else parts[0]
        except ValueError:
            joined = parts[0]
        if joined.shape != shape:
            raise GgufError(f"{self.path}: {' + '.join(names)} is {list(joined.shape)}, expected {list(shape)}")
        return torch.from_numpy(np.ascontiguousarray(joined)).to(device=self.device, dtype=self.dtype)


def rotate_half_rows(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """GGUF stores the rows of query and key projections for interleaved rotary pairs; order them for rotate-half."""
    rows = weight.shape[0]
    return weight.reshape(heads, rows // heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def _weights(config: ModelConfig, place: _Placer) -> Weights:
    hidden, size = config.hidden, config.head_size
    layers = []
    for number in range(config.layers):
        prefix = f"blk.{number}."
        query, key, value = (prefix + part for part in ("attn_q.weight", "attn_k.weight", "attn_v.weight"))
        layers.append(
            Layer(
                attention_norm=place.take((hidden,), prefix + "attn_norm.weight"),
                qkv=place.take(
                    ((config.query_heads + 2 * config.kv_heads) * size, hidden),
                    query,
                    key,
                    value,
                    unpermute={query: config.query_heads, key: config.kv_heads},
                ),
                attention_out=place.take((hidden, config.query_heads * size), prefix + "attn_output.weight"),
                feed_forward_norm=place.take((hidden,), prefix + "ffn_norm.weight"),
                gate_up=place.take(
                    (2 * config.feed_forward, hidden), prefix + "ffn_gate.weight", prefix + "ffn_up.weight"
                ),
                down=place.take((hidden, config.feed_forward), prefix + "ffn_down.weight"),
            )
        )
    embedding = place.take((config.vocab, hidden), "token_embd.weight")
    final_norm = place.take((hidden,), "output_norm.weight")
    tied = "output.weight" not in place.tensors
    head = embedding if tied else place.take((config.vocab, hidden), "output.weight")
    if place.tensors:
        raise GgufError(f"{place.path}: tensor {min(place.tensors)} is unknown to this decoder; it would be ignored")
    return Weights(embedding, layers, final_norm, head)


def random_model(
    config: ModelConfig = TINY, seed: int = 0, device: str = "cpu", dtype: torch.dtype | None = None
) -> LoadedModel:
    """Noise instead of weights, the same for the same seed; its text is meaningless, its costs are real."""
    generator = torch.Generator().manual_seed(seed)

    def noise(rows: int, columns: int) -> Tensor:
        values = torch.randn(rows, columns, generator=generator) / math.sqrt(columns)
        return values.to(device=device, dtype=dtype or default_dtype(device))

    def ones() -> Tensor:
        return torch.ones(config.hidden, device=device, dtype=dtype or default_dtype(device))

    hidden, width = config.hidden, config.query_heads * config.head_size
    layers = [
        Layer(
            attention_norm=ones(),
            qkv=noise(width + 2 * config.kv_heads * config.head_size, hidden),
            attention_out=noise(hidden, width),
            feed_forward_norm=ones(),
            gate_up=noise(2 * config.feed_forward, hidden),
            down=noise(hidden, config.feed_forward),
        )
        for _ in range(config.layers)
    ]
    embedding, head = noise(config.vocab, hidden), noise(config.vocab, hidden)
    return LoadedModel(config, Decoder(config, Weights(embedding, layers, ones(), head)), ByteTokenizer())
