"""A family of models is an entry of a registry: one more touches nothing else."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from engine.model.decoder import Decoder, ModelConfig
from engine.model.families import FAMILIES
from engine.model.family import ModelFamily
from engine.model.gguf import GgufError
from engine.model.llama import LLAMA
from engine.model.load import load_model, with_windows
from tests.engine import tiny_gguf
from tests.engine.served import generate, make_request, make_runner


class Stubborn(Decoder):
    """Says one thing whatever it computed."""

    def forward(self, *inputs: Any) -> Tensor:
        logits = super().forward(*inputs).clone()
        logits[:, 7] = 1e4
        return logits


def _half_the_context(fields: Mapping[str, Any], path: Path) -> ModelConfig:
    config = LLAMA.config({name.replace("toy.", "llama."): value for name, value in fields.items()}, path)
    return replace(config, context=config.context // 2)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    family = ModelFamily("toy", _half_the_context, LLAMA.weights, Stubborn)
    monkeypatch.setitem(FAMILIES, family.architecture, family)
    return tiny_gguf.write(tmp_path / "toy.gguf", architecture="toy")


def test_a_registered_family_reads_its_file_and_computes_in_its_own_way(toy: Path) -> None:
    model = load_model(toy)
    assert model.config.context == 64
    request = make_request(0, model.tokenizer.encode("hello"), 3, table=[3, 1])
    assert generate(make_runner(model, blocks=4), [request]) == [[7, 7, 7]]
    assert isinstance(with_windows(model, (4, None)).decoder, Stubborn)


def test_an_unknown_family_is_refused_with_those_there_are(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tiny_gguf.write(tmp_path / "other.gguf", architecture="other")
    with pytest.raises(GgufError, match="architecture 'other' is not built in; 'llama', 'toy' are"):
        load_model(other)
    monkeypatch.delitem(FAMILIES, "toy")
    with pytest.raises(GgufError, match="architecture 'other' is not built in; 'llama' is"):
        load_model(other)
