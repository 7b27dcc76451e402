"""What each element type of the KV cache costs in accuracy, on the golden texts.

``python -m tests.perf.kv_error [--types NAME ...]``

Teacher forcing: the model reads each prompt and its golden continuation, and the logits before every token of the
continuation are compared with those over a float32 cache, over all places and the whole vocabulary. A continuation
agrees when the most likely token is the golden one at each place where that is certain (`tests.engine.golden`): then a
greedy run says the same.
"""

import argparse
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.model.attention import TorchAttention
from engine.model.attention.base import lay_out
from engine.model.fetch import cached_model
from engine.model.kv_cache import KVCache
from engine.model.load import LoadedModel, load_model
from engine.model.paged_tensor import KV_DTYPES, kv_dtype
from engine.requests.batch import BatchItem
from tests.engine.golden import CASES, Case
from tests.engine.served import make_request

BLOCK_SIZE = 16


@dataclass(frozen=True)
class Accuracy:
    """Differences of logits from those over float32. ``other_choices``: places, of ``places``, at which another token
    is the most likely one. ``agreeing``: golden continuations, of ``texts``, that come out the same."""

    name: str
    bytes_per_token: int
    largest: float
    mean: float
    other_choices: int
    places: int
    agreeing: int
    texts: int


def teacher_forced(model: LoadedModel, case: Case, dtype: str) -> Tensor:
    """Logits before each token of the continuation, ``[tokens, vocab]``, over a cache of this type."""
    tokens = case.prompt_ids + case.token_ids[:-1]
    blocks = -(-len(tokens) // BLOCK_SIZE)
    config = model.config
    cache = KVCache(
        layers=config.layers,
        blocks=blocks,
        block_size=BLOCK_SIZE,
        kv_heads=config.kv_heads,
        head_size=config.head_size,
        dtype=kv_dtype(dtype),
    )
    request = make_request(0, tokens, 1, table=range(blocks))
    layout = lay_out([BatchItem(request, 0, len(tokens), True)], BLOCK_SIZE, "cpu")
    layout = replace(layout, sample_rows=torch.arange(len(case.prompt_ids) - 1, len(tokens)))
    return model.decoder.forward(torch.tensor(tokens), [layout], cache, TorchAttention())


def measure(model: LoadedModel, names: list[str], cases: list[Case] = CASES) -> list[Accuracy]:
    """One result a type, in the order of ``names``."""
    config = model.config
    largest, total = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    others, agreeing = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for case in cases:
        exact = teacher_forced(model, case, "float32")
        for name in names:
            logits = exact if name == "float32" else teacher_forced(model, case, name)
            error = (logits - exact).abs()
            largest[name] = max(largest[name], error.max().item())
            total[name] += error.double().mean(dim=-1).sum().item()
            choices = logits.argmax(dim=-1)
            others[name] += int((choices != exact.argmax(dim=-1)).sum())
            agreeing[name] += choices[: len(case.required)].tolist() == case.required
    places = sum(len(case.token_ids) for case in cases)
    return [
        Accuracy(
            name,
            config.layers * 2 * config.kv_heads * kv_dtype(name).bytes_per_vector(config.head_size),
            largest[name],
            total[name] / places,
            others[name],
            places,
            agreeing[name],
            len(cases),
        )
        for name in names
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy of each KV data type on the golden texts.")
    parser.add_argument("--types", nargs="+", choices=list(KV_DTYPES), default=list(KV_DTYPES), metavar="NAME")
    types = parser.parse_args().types
    path = cached_model()
    if path is None:
        parser.exit(1, "the SmolLM2 weights are missing; run: make model\n")
    results = measure(load_model(path, dtype=torch.float32), types)
    print(
        f"{'type':<10} {'bytes/token':>11} {'largest error':>13} {'mean error':>10} {'other choices':>14} {'agree':>7}"
    )
    for r in results:
        print(
            f"{r.name:<10} {r.bytes_per_token:>11} {r.largest:>13.4f} {r.mean:>10.5f} "
            f"{f'{r.other_choices} of {r.places}':>14} {f'{r.agreeing} of {r.texts}':>7}"
        )


if __name__ == "__main__":
    main()
