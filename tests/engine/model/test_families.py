"""A family of models is an entry of a registry: one more touches nothing else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from engine.model.config import ModelConfig
from engine.model.decoder import Decoder
from engine.model.errors import ModelError
from engine.model.families import FAMILIES
from engine.model.families.base import Description, ModelFamily
from engine.model.families.llama import LLAMA
from engine.model.files.base import ModelFiles
from engine.model.load import load_model, with_windows
from tests.engine import tiny_gguf
from tests.engine.served import generate, make_request, make_runner

assert LLAMA.gguf is not None
_LIKE_LLAMA = LLAMA.gguf


class Stubborn(Decoder):
    """Says one thing whatever it computed."""

    def forward(self, *inputs: Any) -> Tensor:
        logits = super().forward(*inputs).clone()
        logits[:, 7] = 1e4
        return logits


def _half_the_context(files: ModelFiles) -> ModelConfig:
    config = _LIKE_LLAMA.config(files)
    return replace(config, context=config.context // 2)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    described = Description("toy", _half_the_context, _LIKE_LLAMA.names)
    monkeypatch.setitem(FAMILIES, "toy", ModelFamily("toy", gguf=described, decoder=Stubborn))
    return tiny_gguf.write(tmp_path / "toy.gguf", architecture="toy")


def test_a_registered_family_reads_its_file_and_computes_in_its_own_way(toy: Path) -> None:
    model = load_model(toy)
    assert model.config.context == 64
    request = make_request(0, model.tokenizer.encode("hello"), 3, table=[3, 1])
    assert generate(make_runner(model, blocks=4), [request]) == [[7, 7, 7]]
    assert isinstance(with_windows(model, (4, None)).decoder, Stubborn)


def test_an_unknown_family_is_refused_with_those_there_are(toy: Path, tmp_path: Path) -> None:
    other = tiny_gguf.write(tmp_path / "other.gguf", architecture="other")
    with pytest.raises(ModelError, match=r"architecture 'other' is not built in; 'llama', .*'toy' are"):
        load_model(other)
