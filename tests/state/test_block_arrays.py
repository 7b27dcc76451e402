"""What is written of many blocks at once is what would be written one by one, whatever a keyframe says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.state import block_arrays
from kvtop.state.block_arrays import BlockArrays

TOTAL = 40
BLOCKS = st.integers(-2, TOTAL + 2)
TEXTS = st.one_of(
    st.integers(0, 2**64 - 1).map(lambda value: f"{value:016x}"),
    st.sampled_from([None, "", "abc", "ABCDEF0123456789", "g" * 16, "0" * 17, "é" * 16, "0123 56789abcdef", "٣" * 16]),
)
GOOD_HASHES = st.dictionaries(st.integers(0, TOTAL - 1), TEXTS.filter(lambda t: t is None or len(t) == 16))
HASHES = st.one_of(
    st.lists(st.tuples(BLOCKS, TEXTS), max_size=30), GOOD_HASHES.map(lambda found: sorted(found.items()))
)
AGES = st.lists(
    st.tuples(BLOCKS, st.integers(-1, 6), st.floats(-1, 100) | st.just(float("nan"))), max_size=20
) | st.lists(st.integers(1, 3), max_size=12).map(
    lambda counts: [(sum(counts[:at]), count, at * 0.5) for at, count in enumerate(counts)]
)


def written(many: int, hashes: list, ages: list, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    said: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(block_arrays, "_MANY", many)
        arrays = BlockArrays(TOTAL, 8)
        changed = arrays.apply_hashes(hashes, said.append)
        arrays.apply_ages(ages, 1000.0, said.append)
    return (
        changed,
        [arrays.hash_of(block) for block in range(TOTAL)],
        np.nan_to_num(arrays.touched, nan=-1.0).tolist(),
        said,
    )


@pytest.fixture(scope="module")
def patching() -> pytest.MonkeyPatch:
    return pytest.MonkeyPatch()


@given(hashes=HASHES, ages=AGES)
def test_many_at_once_and_one_by_one_are_the_same(patching: pytest.MonkeyPatch, hashes: list, ages: list) -> None:
    assert written(1, hashes, ages, patching) == written(10**9, hashes, ages, patching)
