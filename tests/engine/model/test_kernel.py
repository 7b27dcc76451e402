"""The Triton decode kernel: right in the interpreter, and compiled for the GPUs it is meant for. Needs no GPU."""

import json
import math
import os
import platform
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="triton exists for Linux alone")

SHAPES = [f"block {b}, group {g}, head {h}" for b in (8, 16, 32) for g in (1, 3, 4) for h in (64, 128)]
SHAPES += ["block 16, group 20, head 64", "block 16, group 3, head 80", "block 1, group 1, head 16"]
SHAPES += [f"block {b}, window {w}" for b in (8, 16) for w in (1, 7, 64, 67)]
SHAPES += ["cache of bfloat16", "cache of float16", "scale", "cap", "both"]
HALVES = {"queries of bfloat16": 0.02, "queries of float16": 0.002}
HALVES |= {f"{name}, window": error for name, error in HALVES.items()}


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.interpreted"],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_agrees_with_float64(interpreted: dict[str, Any], shape: str) -> None:
    assert interpreted["errors"][shape] < 3e-6


@pytest.mark.parametrize("shape", HALVES)
def test_narrow_queries_agree_as_far_as_their_type_does(interpreted: dict[str, Any], shape: str) -> None:
    assert interpreted["errors"][shape] < HALVES[shape]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_poison_everywhere_else_changes_no_bit(interpreted: dict[str, Any], dtype: str) -> None:
    """`test_isolation.py` in small, with this backend."""
    assert interpreted["isolation"][dtype] == ""


def test_the_whole_model_says_the_same_with_either_backend(interpreted: dict[str, Any]) -> None:
    assert interpreted["triton"] == interpreted["torch"]
    assert [len(output) for output in interpreted["torch"]] == [12, 12, 12]


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize(
    ("dtype", "head_size", "group", "capped"),
    [("bf16", 64, 3, False), ("fp16", 128, 4, False), ("fp32", 64, 3, False), ("bf16", 256, 2, True)],
)
@pytest.mark.parametrize("narrow_cache", [False, True], ids=["cache as queries", "cache of bf16"])
def test_the_kernel_compiles_ahead_of_time(
    capability: int, dtype: str, head_size: int, group: int, narrow_cache: bool, capped: bool
) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from engine.model.kernels.paged_decode import MIN_GROUP, TILE, paged_decode_kernel

    constants = {
        "BLOCK_SIZE": 16,
        "GROUP": group,
        "GROUP_PADDED": MIN_GROUP,
        "HEAD_SIZE": head_size,
        "HEAD_PADDED": head_size,
        "TILE": TILE,
        "CAPPED": capped,
    }
    names: list[str] = paged_decode_kernel.arg_names
    signature = dict.fromkeys(names, "i32")
    signature |= dict.fromkeys(("out_ptr", "query_ptr", "key_ptr", "value_ptr"), f"*{dtype}")
    if narrow_cache:
        signature |= dict.fromkeys(("key_ptr", "value_ptr"), "*bf16")
    signature |= {"table_ptr": "*i32", "length_ptr": "*i32", "scale": "fp32", "cap": "fp32"}
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(
        fn=paged_decode_kernel,
        signature=signature,
        constexprs={(names.index(name),): value for name, value in constants.items()},
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    ptx = compiled.asm["ptx"]
    assert f".target sm_{capability}" in ptx
    assert ".entry paged_decode_kernel" in ptx
    assert compiled.asm["cubin"][:4] == b"\x7fELF"
    # Half-precision products must reach the tensor cores, and a program must fit an SM's shared memory.
    assert ("mma" in ptx) == (dtype != "fp32")
    assert compiled.metadata.shared <= 100 * 1024


def test_errors_are_numbers(interpreted: dict[str, Any]) -> None:
    assert sorted(interpreted["errors"]) == sorted([*SHAPES, *HALVES])
    assert all(math.isfinite(error) for error in interpreted["errors"].values())
