"""Every family computes what `transformers` computes, through the engine's own blocks, windows and groups."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.model.attention import TorchAttention
from engine.model.attention.base import lay_out_groups
from engine.model.kv_cache import KVCache
from engine.model.load import LoadedModel, load_model
from engine.policies.policy_set import PolicySet
from engine.requests.batch import BatchItem
from tests.engine.hf_models import KINDS, Kind, write_folder, write_gguf
from tests.engine.served import Serving, make_request, make_runner

BLOCK, TOKENS, GREEDY = 4, 90, 48
CHUNKS = (13, 1, 30, 1, 1, 17)
"""Prefill in these; the rest one by one."""

TOLERANCE = 1e-4


def _prompt(vocab: int, count: int) -> list[int]:
    return random.Random(7).choices(range(2, vocab), k=count)


def _reference(reference: Any, tokens: Sequence[int]) -> Tensor:
    with torch.inference_mode():
        logits: Tensor = reference(torch.tensor([list(tokens)]), use_cache=False).logits[0].float()
    return logits


def _greedy(reference: Any, prompt: Sequence[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(_reference(reference, tokens)[-1].argmax()))
    return tokens[len(prompt) :]


def paged_logits(model: LoadedModel, tokens: Sequence[int]) -> dict[int, Tensor]:
    """By position: the logits behind it, of the last of each chunk, over blocks in a scattered order."""
    groups, config = model.decoder.groups, model.config
    needed = -(-len(tokens) // BLOCK) * len(groups)
    cache = KVCache(
        layers=groups.planes,
        blocks=2 * needed,
        block_size=BLOCK,
        kv_heads=config.kv_heads,
        head_size=config.head_size,
    )
    request = make_request(0, tokens, 1, table=random.Random(3).sample(range(2 * needed), needed))
    found, start = {}, 0
    for count in (*CHUNKS, *[1] * (len(tokens) - sum(CHUNKS))):
        layouts = lay_out_groups([BatchItem(request, start, count, True)], BLOCK, "cpu", len(groups))
        part = torch.tensor(tokens[start : start + count])
        found[start + count - 1] = model.decoder.forward(part, layouts, cache, TorchAttention())[0]
        start += count
    return found


def _assert_alike(model: LoadedModel, reference: Any) -> None:
    tokens = _prompt(model.config.vocab, TOKENS)
    expected = _reference(reference, tokens)
    assert expected.std() > 0.3, "logits that say nothing"
    found = paged_logits(model, tokens)
    torch.testing.assert_close(torch.stack([*found.values()]), expected[list(found)], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_a_folder_computes_what_transformers_computes(kind: Kind, tmp_path: Path) -> None:
    reference = write_folder(tmp_path, kind)
    model = load_model(tmp_path)
    windows = [window for window in model.config.windows if window is not None]
    assert all(window < TOKENS / 2 for window in windows)
    _assert_alike(model, reference)
    prompts = [_prompt(model.config.vocab, count) for count in (40, 9)]
    serving = Serving(make_runner(model, blocks=200, block_size=BLOCK), PolicySet.of({"token_budget": 16}), blocks=200)
    served = serving.serve([make_request(num, prompt, GREEDY) for num, prompt in enumerate(prompts)])
    assert served == [_greedy(reference, prompt, GREEDY) for prompt in prompts]


@pytest.mark.parametrize("kind", [k for k in KINDS.values() if k.gguf], ids=[k.name for k in KINDS.values() if k.gguf])
def test_a_gguf_file_computes_the_same(kind: Kind, tmp_path: Path) -> None:
    reference = write_folder(tmp_path / "folder", kind)
    _assert_alike(load_model(write_gguf(tmp_path / "model.gguf", kind, reference)), reference)
