"""A model with its tokenizer: from a GGUF file, or of random weights."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.memory.window import Windows
from engine.model.decoder import Decoder, Layer, ModelConfig, Weights
from engine.model.families import FAMILIES
from engine.model.family import ModelFamily
from engine.model.gguf import GgufError, read_gguf
from engine.model.llama import LLAMA
from engine.model.placer import Placer
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
    family: ModelFamily = LLAMA

    @property
    def weight_dtype(self) -> str:
        """Dtype in memory: ``float32``, ``bfloat16``."""
        return str(self.decoder.dtype).removeprefix("torch.")


def with_windows(model: LoadedModel, windows: Windows) -> LoadedModel:
    """The same weights with layers that see so many tokens. Raises ValueError when there are not as many as layers."""
    config = replace(model.config, windows=windows)
    return replace(model, config=config, decoder=model.family.decoder(config, model.decoder.weights))


def default_dtype(device: str) -> torch.dtype:
    """bfloat16 on a GPU, float32 elsewhere."""
    return torch.bfloat16 if torch.device(device).type == "cuda" else torch.float32


def load_model(path: Path, device: str = "cpu", dtype: torch.dtype | None = None) -> LoadedModel:
    """Read a GGUF file of one of the `FAMILIES`. ``dtype``: `default_dtype` of the device unless given.

    Raises `engine.model.gguf.GgufError` when the file is unreadable or of another architecture.
    """
    file = read_gguf(path)
    try:
        tokenizer = BpeTokenizer(file.fields)
    except TokenizerError as error:
        raise GgufError(f"{path}: {error}") from None
    family = _family(file.fields, path)
    config = replace(
        config_from_fields(family, file.fields, path),
        eos_ids=tokenizer.eos_ids,
        revision=file.sha256[:12],
        stored_as=file.stored_as,
    )
    place = Placer(path, file.tensors, device, dtype or default_dtype(device))
    weights = family.weights(config, place)
    if place.tensors:
        raise GgufError(f"{path}: tensor {min(place.tensors)} is unknown to this decoder; it would be ignored")
    return LoadedModel(config, family.decoder(config, weights), tokenizer, family)


def config_from_fields(family: ModelFamily, fields: Mapping[str, Any], path: Path) -> ModelConfig:
    """The configuration in a file's metadata. Raises `GgufError` for what this decoder does not compute."""
    try:
        return family.config(fields, path)
    except GgufError:
        raise
    except KeyError as error:
        raise GgufError(f"{path}: its metadata lacks {error.args[0]}") from None
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise GgufError(f"{path}: {error}") from None


def _family(fields: Mapping[str, Any], path: Path) -> ModelFamily:
    kind = fields.get("general.architecture")
    if kind not in FAMILIES:
        verb = "is" if len(FAMILIES) == 1 else "are"
        raise GgufError(f"{path}: architecture {kind!r} is not built in; {', '.join(map(repr, FAMILIES))} {verb}")
    return FAMILIES[kind]


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
    return LoadedModel(config, LLAMA.decoder(config, Weights(embedding, layers, ones(), head)), ByteTokenizer())
