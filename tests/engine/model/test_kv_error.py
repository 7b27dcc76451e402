"""The real model over each element type of the cache: as exact as the documentation says, give or take the machine."""

import pytest

from engine.model.load import LoadedModel
from engine.model.paged_tensor import KV_DTYPES
from tests.engine.golden import CASES
from tests.perf.kv_error import Accuracy, measure

pytestmark = pytest.mark.model

TEXTS = CASES[1:4]


@pytest.fixture(scope="module")
def accuracy(smollm: LoadedModel) -> dict[str, Accuracy]:
    return {result.name: result for result in measure(smollm, list(KV_DTYPES), TEXTS)}


@pytest.mark.parametrize(
    ("name", "largest", "mean"),
    [("float16", 0.1, 0.005), ("bfloat16", 1.0, 0.04), ("int8", 2.5, 0.2), ("fp8_e4m3", 8.0, 0.6)],
)
def test_logits_are_about_as_exact_as_documented(
    accuracy: dict[str, Accuracy], name: str, largest: float, mean: float
) -> None:
    result = accuracy[name]
    assert 0 < result.largest < largest
    assert 0 < result.mean < mean


def test_fewer_bits_are_less_exact(accuracy: dict[str, Accuracy]) -> None:
    means = [accuracy[name].mean for name in ("float32", "float16", "bfloat16", "int8", "fp8_e4m3")]
    assert means == sorted(means)


def test_float_types_say_the_golden_texts(accuracy: dict[str, Accuracy]) -> None:
    assert [accuracy[name].agreeing for name in ("float32", "float16", "bfloat16")] == [len(TEXTS)] * 3
