"""Folders as Hugging Face writes them: ``config.json``, weights in ``*.safetensors``, and the tokenizer's files.

Weights are mapped into memory. Whatever a folder holds, nothing outside it is opened, but for what links in it point to,
as they do in Hugging Face's own cache.
"""

import hashlib
import json
import stat
from collections import Counter
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.model.errors import ModelError
from engine.model.files.base import ModelFiles
from engine.model.files.fields import Fields
from engine.model.files.gguf import file_sha256
from engine.model.files.lazy import LazyTensors

CONFIG, INDEX, WEIGHTS = "config.json", "model.safetensors.index.json", "model.safetensors"

MIB = 1 << 20
MOST_BYTES = {CONFIG: 4 * MIB, INDEX: 64 * MIB, "generation_config.json": 4 * MIB, "tokenizer_config.json": 32 * MIB}
MOST_BYTES |= {"tokenizer.json": 256 * MIB, "chat_template.jinja": 2 * MIB, "chat_template.json": 2 * MIB}
"""Far above any there is."""

_TYPES = ("F32", "F16", "BF16")
_UNUSED = "rotary_emb.inv_freq"
"""How tensors end that older folders have: frequencies, which are computed."""


def read_folder(path: Path) -> ModelFiles:
    """Raises `ModelError`, naming the file, for what is missing, damaged or too large."""
    fields = Fields(path / CONFIG, read_json(path, CONFIG))
    tensors, types, shards = _open(path)
    return ModelFiles(
        path=path,
        name=_name(path),
        called=fields.text("model_type"),
        fields=fields,
        vocab=fields.whole("vocab_size"),
        tensors=tensors,
        revision=_digest([path / shard for shard in shards])[:12],
        stored_as=types.most_common(1)[0][0],
    )


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A file of settings. Raises `ModelError`, also where it is missing."""
    path = folder / name
    try:
        value = json.loads(read_text(folder, name))
    except (ValueError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{path} is not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds no settings")
    return value


def read_text(folder: Path, name: str) -> str:
    """A small file. Raises `ModelError`, also where it is missing or larger than `MOST_BYTES`."""
    path, most = folder / name, MOST_BYTES[name]
    if not has(folder, name):
        raise ModelError(f"{path} is missing, or no file")
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from None
    if len(content) > most:
        raise ModelError(f"{path} has more than {most // MIB} MiB, which no model's has")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ModelError(f"{path} is not UTF-8 text") from None


def has(folder: Path, name: str) -> bool:
    """Whether there is a file of this name: no folder, no pipe that one would wait for."""
    try:
        return stat.S_ISREG((folder / name).stat().st_mode)
    except OSError:
        return False


def _name(path: Path) -> str:
    """The folder's name; of a folder in Hugging Face's cache the model's."""
    full = path.resolve()
    if full.parent.name == "snapshots":
        return full.parent.parent.name.removeprefix("models--").replace("--", "/")
    return full.name or str(full)


def _digest(shards: list[Path]) -> str:
    try:
        digests = [file_sha256(shard) for shard in shards]
    except OSError as error:
        raise ModelError(f"{error.filename}: {error.strerror}") from None
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _open(folder: Path) -> tuple[LazyTensors, Counter[str], list[str]]:
    """The tensors, how many elements of each type they have, and the files they lie in."""
    by_shard = _shards(folder)
    opened: dict[str, Any] = {}
    where: dict[str, str] = {}
    types: Counter[str] = Counter()
    for shard, names in by_shard.items():
        path = folder / shard
        try:
            opened[shard] = safe_open(path, framework="pt")
            there = set(opened[shard].keys())
            for name in sorted(there if names is None else names):
                if name not in there:
                    raise ModelError(f"{path}: tensor {name} is missing, though {INDEX} says that it is there")
                if name.endswith(_UNUSED):
                    continue
                part = opened[shard].get_slice(name)
                kind, elements = part.get_dtype(), 1
                for size in part.get_shape():
                    elements *= size
                if kind not in _TYPES:
                    raise ModelError(f"{path}: tensor {name} is {kind}, which is not built in; {', '.join(_TYPES)} are")
                where[name] = shard
                types[kind] += elements
        except ModelError:
            raise
        except (SafetensorError, OSError, ValueError, MemoryError) as error:
            raise ModelError(f"{path} is not a readable safetensors file: {str(error)[:200]}") from None
    if not where:
        raise ModelError(f"{folder} holds no tensors")

    def read(name: str) -> Tensor:
        tensor: Tensor = opened[where[name]].get_tensor(name)
        return tensor

    return LazyTensors(where, read), types, list(by_shard)


def _shards(folder: Path) -> dict[str, list[str] | None]:
    """The files that weights lie in, and the names of those of each; None for all that are in it."""
    if has(folder, INDEX):
        index = folder / INDEX
        listed = read_json(folder, INDEX).get("weight_map")
        if not isinstance(listed, dict) or not listed:
            raise ModelError(f"{index}: weight_map is missing")
        shards: dict[str, list[str] | None] = {}
        for tensor, shard in sorted(listed.items()):
            if not isinstance(shard, str) or Path(shard).name != shard or "\\" in shard or "\0" in shard:
                raise ModelError(
                    f"{index}: tensor {tensor} lies in {shard!r}, which is no name of a file in the folder"
                )
            if shard not in shards and not has(folder, shard):
                raise ModelError(f"{folder / shard} is missing, though {INDEX} says that tensor {tensor} is in it")
            names = shards.setdefault(shard, [])
            assert names is not None
            names.append(tensor)
        return shards
    if not has(folder, WEIGHTS):
        pickled = ": weights as .bin are not read, because those can hold programs" if any(folder.glob("*.bin")) else ""
        raise ModelError(f"{folder} has neither {WEIGHTS} nor {INDEX}{pickled}")
    return {WEIGHTS: None}
