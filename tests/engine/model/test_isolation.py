"""Nothing but a request's own tokens reaches it: everything else is poisoned before each batch, and the logits are the
same to the bit.
"""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from engine.memory.window import parse_windows
from engine.model.attention import torch_backend
from engine.model.kv_cache import KVCache
from engine.model.load import LoadedModel, random_model, with_windows
from engine.model.paged_tensor import KV_DTYPES, PagedTensor, kv_dtype
from engine.requests.request import Request
from engine.requests.sampling import Sampling
from engine.scheduling.beam_steps import add_beams
from engine.scheduling.forking import add_samples
from tests.engine.poison import Served, serve
from tests.engine.served import make_request

TIERED = {"preempt_action": "swap", "offload": "on_evict", "prefetch": "queue_head"}
ARRANGEMENTS: dict[str, dict[str, Any]] = {
    "chunks, beams and samples": {"token_budget": 16},
    "a window in all layers": {"token_budget": 24, "window": "13", "blocks": 15},
    "KV groups, blocks moved": {"token_budget": 64, "window": "13,full", "compaction": "continuous"},
    "parts of blocks copied": {"token_budget": 32, "partial_reuse": "copy", "eviction": "fifo"},
    "parts of blocks taken over": {"token_budget": 32, "partial_reuse": "exclusive"},
    "swapped to the host": TIERED | {"token_budget": 32, "tiers": "at once"},
    "swapped to disk, late": TIERED
    | {"preempt_action": "swap_disk", "tiers": "late", "window": "21,full", "blocks": 14},
    "stored and loaded": TIERED | {"preempt_action": "recompute", "offload": "on_fill", "tiers": "late"},
}
OF_THE_ENGINE = ("window", "tiers", "blocks")


@pytest.fixture(scope="module")
def tiny() -> LoadedModel:
    return random_model(seed=3)


@pytest.fixture(scope="module")
def halved() -> LoadedModel:
    """The same in bfloat16, as on a GPU."""
    return random_model(seed=3, dtype=torch.bfloat16)


def _work() -> list[Request]:
    """Some begin alike, up to within a block; one samples three times, one searches with three beams."""
    head = [7 * i % 199 for i in range(27)]
    prompts = [(head if n % 2 else []) + [(31 * n + 13 * i) % 211 for i in range(9 + 6 * n)] for n in range(6)]
    sampling = Sampling(temperature=0.8, top_p=0.9, seed=5)
    work = [make_request(n, prompt, 14, sampling=sampling if n == 3 else None) for n, prompt in enumerate(prompts)]
    add_samples(work[3], [13, 23])
    add_beams(work[4], [14, 24])
    return work


def _serve(model: LoadedModel, name: str, dtype: str, folder: Path, *, poisons: bool) -> Served:
    row = ARRANGEMENTS[name]
    model = with_windows(model, parse_windows(row.get("window", "full"), model.config.layers))
    return serve(
        model,
        _work(),
        {axis: value for axis, value in row.items() if axis not in OF_THE_ENGINE},
        poisons=poisons,
        dtype=dtype,
        blocks=row.get("blocks", 22),
        folder=folder if "tiers" in row else None,
        at_once=row.get("tiers") == "at once",
    )


def _differing(left: list[Tensor], right: list[Tensor]) -> int | None:
    """The first batch whose logits differ in a bit; NaN differs from itself."""
    assert len(left) == len(right)
    return next((step for step, pair in enumerate(zip(left, right, strict=True)) if not torch.equal(*pair)), None)


@pytest.mark.parametrize("dtype", KV_DTYPES)
@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_poison_everywhere_else_changes_no_bit(tiny: LoadedModel, name: str, dtype: str, tmp_path: Path) -> None:
    clean, poisoned = (_serve(tiny, name, dtype, tmp_path, poisons=poisons) for poisons in (False, True))
    assert _differing(poisoned.logits, clean.logits) is None
    assert poisoned.outputs == clean.outputs
    assert poisoned.preemptions > 0
    assert poisoned.copies > 0
    if "tiers" in ARRANGEMENTS[name]:
        assert poisoned.loads > 3
        assert "load_failed" not in poisoned.kinds


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_model_in_bfloat16_is_not_reached_either(halved: LoadedModel, dtype: str, tmp_path: Path) -> None:
    name = "swapped to disk, late"
    clean, poisoned = (_serve(halved, name, dtype, tmp_path, poisons=poisons) for poisons in (False, True))
    assert _differing(poisoned.logits, clean.logits) is None
    assert poisoned.outputs == clean.outputs


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_nor_do_proposed_tokens_that_were_wrong(tiny: LoadedModel, dtype: str) -> None:
    """Their KV stays behind what is known, in the request's own blocks; and several rows of one request are sampled."""
    policies = {"token_budget": 48}
    plain = serve(tiny, _work(), policies, poisons=False, dtype=dtype, blocks=22)
    greedy = {num: plain.outputs[num] for num in (0, 1, 2, 5)}
    clean, poisoned = (
        serve(tiny, _work(), policies, poisons=poisons, dtype=dtype, blocks=22, expected=greedy)
        for poisons in (False, True)
    )
    assert _differing(poisoned.logits, clean.logits) is None
    assert poisoned.outputs == clean.outputs == plain.outputs
    assert poisoned.accepted > 10
    assert len(poisoned.logits) < len(plain.logits)


def test_a_backend_that_only_weights_with_zero_would_be_noticed(tiny: LoadedModel, tmp_path: Path) -> None:
    """A fault planted: what is not seen is not made 0. The tests above must be able to see that."""
    name = "chunks, beams and samples"
    clean = _serve(tiny, name, "float32", tmp_path, poisons=False)
    with (
        patch.object(torch_backend, "_hidden", lambda seen: torch.empty(0, dtype=torch.int64)),
        pytest.raises(AssertionError),
    ):
        assert _differing(_serve(tiny, name, "float32", tmp_path, poisons=True).logits, clean.logits) is None


@pytest.mark.parametrize("name", KV_DTYPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_a_type_cannot_hold_saturates(name: str, dtype: torch.dtype) -> None:
    """And nothing becomes infinite that was not: a request whose KV grew out of float16 goes on with the largest."""
    side = _side(name)
    largest = 3.0e38
    side.write(torch.tensor([0, 1]), torch.tensor([[[largest, -1.0e5]], [[-largest, 7e4]]], dtype=dtype))
    read = side.gather(torch.tensor([0]), torch.float32)[0, :2, 0]
    assert torch.isfinite(read).all()
    assert (read[0] > 0).tolist() == [True, False]
    if name == "float16":
        assert read.tolist() == [[65504.0, -65504.0], [-65504.0, 65504.0]]
    if name == "fp8_e4m3":
        assert read.tolist() == [[448.0, -448.0], [-448.0, 448.0]]


def _side(name: str) -> PagedTensor:
    cache = KVCache(layers=1, blocks=1, block_size=4, kv_heads=1, head_size=2, dtype=kv_dtype(name))
    return cache.plane(0)[0]


def test_an_overflow_in_one_request_leaves_the_others_as_they_are(tiny: LoadedModel, tmp_path: Path) -> None:
    """float16, and values far beyond it in the KV of one request, whose blocks others take afterwards."""
    model = random_model(seed=3)
    loud = 300
    model.decoder.weights.embedding[loud] *= 1e4
    model.decoder.weights.layers[0].qkv[-32:] *= 1e6
    runs = []
    for token in (loud, 301):
        work = _work()[:3]
        work[1].token_ids[4] = token
        served = serve(model, work, {"token_budget": 16}, poisons=True, dtype="float16", blocks=8)
        runs.append(served.outputs)
        assert all(torch.isfinite(logits).all() for logits in served.logits)
    assert runs[0][0] == runs[1][0]
    assert runs[0][2] == runs[1][2]
