"""Rows made by columns say what a JSON library would say."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.serving import json_rows as module
from engine.serving.json_rows import Column, Hashes, Seconds, json_rows

INTS = st.integers(-(2**31), 2**31 - 1)


@given(st.lists(st.tuples(INTS, INTS, st.integers(1, 2**64 - 1), st.floats(0, 1e7)), max_size=40), st.integers(1, 50))
def test_they_parse_back(rows: list[tuple[int, int, int, float]], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", chunk)
        columns = [np.array([row[i] for row in rows], kind) for i, kind in enumerate(("i8", "i4", "u8", "f8"))]
        text = json_rows([Column(columns[0]), Column(columns[1]), Hashes(columns[2]), Seconds(columns[3])])
    parsed = json.loads(b"[" + text + b"]")
    assert [row[:2] for row in parsed] == [list(row[:2]) for row in rows]
    assert [row[2] for row in parsed] == [f"{row[2]:016x}" for row in rows]
    assert [row[3] for row in parsed] == pytest.approx([row[3] for row in rows], abs=0.0006)
