"""Whatever stands in the settings of a model's files: it is served, or refused in one sentence. Nothing else happens."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import engine.model.load
from engine.model.errors import ModelError
from engine.model.files.gguf import GgufFile, read_gguf
from engine.model.load import load_model
from tests.engine.hf_models import KINDS, write_folder, write_gguf

ODD: list[Any] = [None, "x", -1, 0, 3, 10**30, float("nan"), True, [], ["x"], [1] * 4, {"a": {"b": 1}}]


def _served(load: Callable[[], object], what: str) -> bool:
    """Whether it is; where it is refused, that is said in a sentence."""
    try:
        load()
    except ModelError as error:
        refusal = str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    else:
        return True
    assert "\n" not in refusal, what
    assert len(refusal) < 700, what
    return False


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("gemma3, global layers stretched", "config.json"),
        ("qwen2 with a window", "config.json"),
        ("qwen2 with a window", "tokenizer_config.json"),
        ("qwen2 with a window", "generation_config.json"),
        ("qwen2 with a window", "tokenizer.json"),
    ],
)
def test_each_setting_of_a_folder(name: str, file: str, tmp_path: Path) -> None:
    write_folder(tmp_path, KINDS[name])
    path = tmp_path / file
    settings = json.loads(path.read_text())
    served = 0
    for field in {**settings, "chat_template": 0, "add_bos_token": 0, "eos_token_id": 0}:
        for odd in ODD:
            path.write_text(json.dumps(settings | {field: odd}))
            served += _served(lambda: load_model(tmp_path), f"{field} = {odd!r}")
    assert served, "everything is refused"


@pytest.mark.parametrize("name", ["llama, yarn rope", "gemma3"])
def test_each_setting_of_a_gguf_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = KINDS[name]
    file = read_gguf(write_gguf(tmp_path / "m.gguf", kind, write_folder(tmp_path / "folder", kind)))
    served = 0
    for field in file.fields:
        for odd in ODD:
            fields = {**file.fields, field: odd}
            changed = GgufFile(file.path, file.sha256, file.stored_as, fields, file.tensors)
            monkeypatch.setattr(engine.model.load, "read_gguf", lambda _, changed=changed: changed)
            served += _served(lambda: load_model(tmp_path / "m.gguf"), f"{field} = {odd!r}")
    assert served, "everything is refused"
