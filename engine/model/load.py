"""A model with its tokenizer: from a file or folder, or of random weights."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from engine.memory.window import Windows
from engine.model.config import ModelConfig
from engine.model.decoder import Decoder
from engine.model.errors import ModelError
from engine.model.families import FAMILIES
from engine.model.families.base import Description, ModelFamily
from engine.model.families.gguf_settings import HARMLESS as HARMLESS_IN_GGUF
from engine.model.families.gguf_settings import ROPE_FACTORS
from engine.model.families.hf_settings import HARMLESS as HARMLESS_IN_HF
from engine.model.families.llama import LLAMA
from engine.model.files.assembly import assemble
from engine.model.files.base import ModelFiles
from engine.model.files.fields import Fields
from engine.model.files.folder import read_folder
from engine.model.files.gguf import read_gguf
from engine.model.files.placer import Placer
from engine.model.folder_tokenizer import folder_tokenizer
from engine.model.gguf_tokenizer import gguf_tokenizer
from engine.model.rope import Rope
from engine.model.tokenizer import ByteTokenizer, TextTokenizer, TokenizerError
from engine.model.vocabulary_tokenizer import VocabularyTokenizer
from engine.model.weights import Layer, Weights

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
    rope=Rope(100_000.0),
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


def load_model(
    path: Path,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
    look: Callable[[ModelConfig, torch.dtype], None] = lambda *_: None,
) -> LoadedModel:
    """Read a GGUF file or a Hugging Face folder of one of the `FAMILIES`. ``dtype``: `default_dtype` of the device unless
    given. ``look`` may refuse it, by raising, before any weight is read.

    Raises `engine.model.errors.ModelError` where it is unreadable or asks for what is not built in.
    """
    as_found = _stamp(path)
    files, tokenizer, form = _from_folder(path) if path.is_dir() else _from_gguf(path)
    family, description = _family(files, form)
    config = _config(files, description, tokenizer)
    files.fields.refuse_unread(HARMLESS_IN_HF if form == "hf" else HARMLESS_IN_GGUF)
    dtype = dtype or default_dtype(device)
    look(config, dtype)
    place = Placer(files.path, files.tensors, device, dtype)
    place.left.discard(ROPE_FACTORS)
    weights = assemble(config, place, description.names)
    if place.left:
        raise ModelError(f"{path}: tensor {min(place.left)} is unknown to this decoder; it would be ignored")
    if _stamp(path) != as_found:  # what was read may be of two files
        raise ModelError(f"{path} was written to while it was loaded; start again when that has ended")
    return LoadedModel(config, family.decoder(config, weights), tokenizer, family)


def _stamp(path: Path) -> list[tuple[str, int, int]]:
    """Name, bytes and time of the last change of each file of weights; what is missing is told by those who read it."""
    found = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    with contextlib.suppress(OSError):
        return [(file.name, (info := file.stat()).st_size, info.st_mtime_ns) for file in found]
    return []


def _from_folder(path: Path) -> tuple[ModelFiles, VocabularyTokenizer, str]:
    return read_folder(path), folder_tokenizer(path), "hf"


def _from_gguf(path: Path) -> tuple[ModelFiles, VocabularyTokenizer, str]:
    file = read_gguf(path)
    if (parts := file.fields.get("split.count", 0)) not in (0, 1):
        raise ModelError(
            f"{path}: split.count is {str(parts)[:20]}: it is a part of a model; join the parts to one file"
        )
    try:
        tokenizer = gguf_tokenizer(file.fields)
    except TokenizerError as error:
        raise ModelError(f"{path}: {error}") from None
    called = str(file.fields.get("general.architecture"))
    prefix = called + "."
    own = {name.removeprefix(prefix): value for name, value in file.fields.items() if name.startswith(prefix)}
    files = ModelFiles(
        path=path,
        name=path.stem,
        called=called,
        fields=Fields(path, own, prefix),
        vocab=len(file.fields["tokenizer.ggml.tokens"]),
        tensors=file.tensors,
        revision=file.sha256[:12],
        stored_as=file.stored_as,
    )
    return files, tokenizer, "gguf"


def _config(files: ModelFiles, description: Description, tokenizer: VocabularyTokenizer) -> ModelConfig:
    try:
        return replace(
            description.config(files),
            eos_ids=tokenizer.eos_ids,
            revision=files.revision,
            stored_as=files.stored_as,
        )
    except ModelError:
        raise
    except ValueError as error:
        raise ModelError(f"{files.path}: {error}") from None


def _family(files: ModelFiles, form: str) -> tuple[ModelFamily, Description]:
    """``form``: gguf or hf."""
    described = {
        description.called: (family, description)
        for family in FAMILIES.values()
        if (description := getattr(family, form)) is not None
    }
    if files.called not in described:
        known = ", ".join(map(repr, described))
        raise ModelError(f"{files.path}: architecture {files.called!r} is not built in; {known} are")
    return described[files.called]


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
