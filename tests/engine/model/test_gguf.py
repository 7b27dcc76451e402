"""Reading GGUF files, the cache of their weights, and what becomes of damaged ones."""

import fcntl
import hashlib
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.model.errors import ModelError
from engine.model.files.gguf import cache_path, read_gguf
from engine.model.files.placer import rotate_half_rows
from engine.model.load import load_model, random_model
from tests.engine import tiny_gguf
from tests.engine.served import generate, make_request, make_runner


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    return tiny_gguf.write(tmp_path / "tiny.gguf")


def _same(left: Path, right: Path) -> bool:
    return left.read_bytes() == right.read_bytes()


def test_metadata_and_weights_are_read(model_file: Path) -> None:
    file = read_gguf(model_file, use_cache=False)
    assert file.fields["general.architecture"] == "llama"
    assert file.fields["tokenizer.ggml.tokens"] == tiny_gguf.VOCABULARY
    assert file.stored_as == "Q4_1"
    assert file.sha256 == hashlib.sha256(model_file.read_bytes()).hexdigest()
    for name, data in tiny_gguf.tensors().items():
        assert file.tensors[name].shape == data.shape
        # Q4_1 keeps 16 levels of each 32 weights' range; norms are kept exactly.
        tolerance = 0.0 if data.ndim == 1 else (data.max() - data.min()) / 15
        assert np.abs(file.tensors[name].numpy() - data).max() <= tolerance
    assert not cache_path(model_file).exists()


def test_the_cache_gives_the_same_without_the_file_being_parsed(model_file: Path) -> None:
    first = read_gguf(model_file)
    assert cache_path(model_file).exists()
    weights = dict(first.tensors)
    # Same size and time but garbage inside: only a reader of the cache gets through.
    info = model_file.stat()
    model_file.write_bytes(b"\0" * info.st_size)
    os.utime(model_file, ns=(info.st_atime_ns, info.st_mtime_ns))
    second = read_gguf(model_file)
    assert second.fields == first.fields
    assert (second.sha256, second.stored_as) == (first.sha256, first.stored_as)
    assert second.tensors.keys() == weights.keys()
    for name, data in weights.items():
        np.testing.assert_array_equal(second.tensors[name], data)


@pytest.mark.parametrize("damage", ["truncated", "bit flipped", "empty", "garbage", "huge header"])
def test_a_damaged_cache_is_made_anew(model_file: Path, tmp_path: Path, damage: str) -> None:
    expected = dict(read_gguf(model_file).tensors)
    cache = cache_path(model_file)
    good = tmp_path / "good"
    good.write_bytes(cache.read_bytes())
    data = bytearray(cache.read_bytes())
    if damage == "truncated":
        del data[-100:]
    elif damage == "bit flipped":
        data[-1000] ^= 4
    elif damage == "empty":
        data.clear()
    elif damage == "garbage":
        data[:] = os.urandom(len(data))
    else:
        data[12:20] = b"\xff" * 8
    cache.write_bytes(data)
    again = read_gguf(model_file).tensors
    for name in expected:
        np.testing.assert_array_equal(again[name], expected[name])
    assert _same(cache, good)


def test_the_cache_of_another_version_of_the_file_is_not_used(model_file: Path) -> None:
    old = read_gguf(model_file)
    before = old.tensors["blk.0.attn_q.weight"]
    tiny_gguf.write(model_file, seed=1)
    new = read_gguf(model_file)
    assert new.sha256 != old.sha256
    assert not torch.equal(new.tensors["blk.0.attn_q.weight"], before)


def test_nothing_is_left_beside_the_cache(model_file: Path) -> None:
    read_gguf(model_file)
    assert sorted(path.name for path in model_file.parent.iterdir()) == ["tiny.gguf", "tiny.gguf.f32"]


def test_what_an_engine_left_that_was_ended_while_it_wrote_is_removed(model_file: Path) -> None:
    """And nothing else: not what another engine is writing, and no file of the user's."""
    folder, name = model_file.parent, cache_path(model_file).name
    left, written, users = (folder / f"{name}.{part}.part" for part in ("abcd_123", "efgh4567", "mine"))
    for path in (left, written, users):
        path.write_bytes(b"1234")
    with written.open("rb") as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        read_gguf(model_file)
    assert sorted(folder.iterdir()) == sorted([model_file, cache_path(model_file), written, users])


def test_a_cache_that_cannot_be_written_is_done_without(model_file: Path) -> None:
    cache_path(model_file).mkdir()
    assert read_gguf(model_file).stored_as == "Q4_1"
    assert sorted(path.name for path in model_file.parent.iterdir()) == ["tiny.gguf", "tiny.gguf.f32"]


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all" * 10, b"GGUF" + b"\xff" * 64])
def test_a_file_that_is_no_gguf_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"bad\.gguf is not a readable GGUF file: "):
        read_gguf(path)


def test_a_torn_model_is_refused(model_file: Path) -> None:
    with model_file.open("r+b") as file:
        file.truncate(model_file.stat().st_size - 2000)
    with pytest.raises(
        ModelError, match="is not a readable GGUF file: it ends too early, as while it is still being copied"
    ):
        read_gguf(model_file)


@pytest.mark.parametrize("sizes", [(0, 32), (1 << 32, 1 << 32), (1 << 33, 0)])
def test_a_tensor_of_sizes_that_none_has_is_refused(model_file: Path, sizes: tuple[int, int]) -> None:
    data = bytearray(model_file.read_bytes())
    name = b"blk.0.ffn_up.weight"
    place = data.index(name) + len(name) + 4  # behind the number of sizes
    data[place : place + 16] = b"".join(size.to_bytes(8, "little") for size in sizes)
    model_file.write_bytes(data)
    with pytest.raises(ModelError, match=r"tensor blk\.0\.ffn_up\.weight has the shape|not a readable GGUF file"):
        load_model(model_file)


def test_a_file_that_is_written_to_while_it_is_loaded_is_refused(model_file: Path) -> None:
    load_model(model_file)
    with pytest.raises(ModelError, match=f"{model_file} was written to while it was loaded"):
        load_model(model_file, look=lambda *_: os.utime(model_file, (1, 1)))
    load_model(model_file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none\.gguf: No such file"):
        read_gguf(tmp_path / "none.gguf")


def test_the_models_facts_come_from_the_file(model_file: Path) -> None:
    model = load_model(model_file)
    config = model.config
    assert (config.layers, config.hidden, config.feed_forward) == (2, 32, 64)
    assert (config.query_heads, config.kv_heads, config.head_size, config.group) == (4, 2, 8, 2)
    assert (config.vocab, config.context) == (len(tiny_gguf.VOCABULARY), 128)
    assert config.name == "tiny"
    assert config.revision == hashlib.sha256(model_file.read_bytes()).hexdigest()[:12]
    assert config.stored_as == "Q4_1"
    assert config.windows == ()
    assert config.eos_ids == {0, 2}
    assert not config.random_weights
    assert model.weight_dtype == "float32"
    assert model.decoder.parameters == sum(data.size for data in tiny_gguf.tensors().values())


def test_a_models_sliding_window_comes_from_the_file(tmp_path: Path) -> None:
    config = load_model(tiny_gguf.write(tmp_path / "sliding.gguf", window=24)).config
    assert config.windows == (24, 24)


def test_a_model_from_the_cache_says_the_same(model_file: Path) -> None:
    def output() -> list[list[int]]:
        model = load_model(model_file)
        request = make_request(0, model.tokenizer.encode("hello"), 20, table=[3, 1])
        return generate(make_runner(model, blocks=4), [request])

    assert output() == output()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"settings": {"llama.attention.causal": False}}, r"llama\.attention\.causal is false"),
        ({"settings": {"split.count": 3}}, r"split\.count is 3: it is a part of a model"),
        ({"settings": {"llama.expert_count": 8}}, r"llama\.expert_count is 8, which this engine does not know"),
        ({"settings": {"llama.rope.dimension_count": 4}}, r"llama\.rope\.dimension_count is not the head's size of 8"),
        ({"architecture": "mamba"}, "architecture 'mamba' is not built in"),
        ({"drop": "blk.1.ffn_up.weight"}, r"tensor blk\.1\.ffn_up\.weight is missing"),
        ({"rope_scaling": True}, r"llama\.rope\.scaling\.type is 'longrope', which is not built in"),
        ({"extra": {"blk.0.attn_q.scale": np.ones(4, np.float32)}}, r"tensor blk\.0\.attn_q\.scale is unknown"),
        ({"extra": {"output_norm.weight": np.ones(8, np.float32)}}, r"output_norm\.weight is \[8\], expected \[32\]"),
        (
            {"extra": {"blk.0.attn_k.weight": np.ones((16, 64), np.float32)}},
            r"blk\.0\.attn_k\.weight is \[16, 64\], expected \[16, 32\]",
        ),
    ],
)
def test_a_model_this_decoder_cannot_compute_is_refused(tmp_path: Path, how: dict, message: str) -> None:
    path = tiny_gguf.write(tmp_path / "odd.gguf", **how)
    with pytest.raises(ModelError, match=rf"odd\.gguf: .*{message}"):
        load_model(path)


def test_undoing_the_permutation_turns_one_rotary_form_into_the_other() -> None:
    """Interleaved pairs on the rows as stored equal rotate-half on the rows as reordered."""
    heads, size, columns = 2, 8, 5
    stored = np.random.default_rng(0).standard_normal((heads * size, columns)).astype(np.float32)
    x = np.random.default_rng(1).standard_normal(columns).astype(np.float32)
    angles = np.array([0.3 * 10 ** -(i / (size // 2)) for i in range(size // 2)])
    cos, sin = np.cos(angles), np.sin(angles)

    interleaved = (stored @ x).reshape(heads, size // 2, 2)
    even, odd = interleaved[..., 0], interleaved[..., 1]
    by_pairs = np.stack([even * cos - odd * sin, odd * cos + even * sin], axis=-1)

    halves = (rotate_half_rows(stored, heads) @ x).reshape(heads, 2, size // 2)
    first, second = halves[:, 0], halves[:, 1]
    by_halves = np.stack([first * cos - second * sin, second * cos + first * sin], axis=-1)
    np.testing.assert_allclose(by_halves, by_pairs, rtol=1e-5, atol=1e-6)


def test_random_weights_are_the_same_for_the_same_seed() -> None:
    one, same, other = (random_model(seed=seed).decoder.weights for seed in (1, 1, 2))
    assert torch.equal(one.layers[1].qkv, same.layers[1].qkv)
    assert not torch.equal(one.layers[1].qkv, other.layers[1].qkv)
    # Of a scale that keeps the logits apart but finite.
    assert math.isclose(float(one.layers[0].down.std()), 1 / math.sqrt(one.layers[0].down.shape[1]), rel_tol=0.1)
