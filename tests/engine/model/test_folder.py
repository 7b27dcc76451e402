"""Folders as Hugging Face writes them, and what becomes of those that are not as they should be."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.model.errors import ModelError
from engine.model.files.folder import CONFIG, INDEX, WEIGHTS
from engine.model.load import load_model
from tests.engine.hf_models import KINDS, VOCABULARY, write_folder, write_tokenizer


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made")
    write_folder(path, KINDS["llama"])
    return path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A sound one to be spoiled."""
    path = tmp_path / "Tiny-Llama"
    path.mkdir()
    for file in made.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    return path


def _configure(folder: Path, **changes: Any) -> None:
    path = folder / CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _shard(folder: Path) -> dict[str, str]:
    """Its weights in two files and an index; which tensor is where."""
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    where = {name: f"part-{place % 2}.safetensors" for place, name in enumerate(sorted(tensors))}
    for shard in set(where.values()):
        save_file({name: tensors[name] for name in tensors if where[name] == shard}, folder / shard)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return where


def _retouch(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


def test_the_facts_of_a_folder(folder: Path) -> None:
    model = load_model(folder)
    config = model.config
    assert (config.name, config.layers, config.vocab, config.context) == ("Tiny-Llama", 3, len(VOCABULARY), 512)
    assert (config.stored_as, len(config.revision or ""), config.eos_ids) == ("F32", 12, {0})
    assert model.weight_dtype == "float32"


def test_shards_give_the_same_as_one_file(folder: Path) -> None:
    whole = load_model(folder)
    _shard(folder)
    parts = load_model(folder)
    for left, right in zip(whole.decoder.weights.tensors(), parts.decoder.weights.tensors(), strict=True):
        assert torch.equal(left, right)


def test_the_revision_follows_the_weights(folder: Path) -> None:
    before = load_model(folder).config.revision
    _configure(folder, initializer_range=0.5)
    assert load_model(folder).config.revision == before

    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors["lm_head.weight"][0, 0] += 1

    _retouch(folder, change)
    assert load_model(folder).config.revision != before


@pytest.mark.parametrize(("dtype", "name"), [(torch.bfloat16, "BF16"), (torch.float16, "F16")])
def test_narrow_weights_are_widened(folder: Path, dtype: torch.dtype, name: str) -> None:
    before = load_model(folder)
    _retouch(folder, lambda tensors: tensors.update({key: value.to(dtype) for key, value in tensors.items()}))
    after = load_model(folder)
    assert after.config.stored_as == name
    for wide, narrow in zip(before.decoder.weights.tensors(), after.decoder.weights.tensors(), strict=True):
        assert torch.equal(wide.to(dtype).float(), narrow)


def test_a_folder_that_is_written_to_while_it_is_loaded_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match=f"{folder} was written to while it was loaded"):
        load_model(folder, look=lambda *_: os.utime(folder / "model.safetensors", (1, 1)))
    load_model(folder)


def test_a_model_in_hugging_faces_cache_has_its_own_name(folder: Path, tmp_path: Path) -> None:
    there = tmp_path / "models--Some--Model" / "snapshots"
    there.mkdir(parents=True)
    folder.rename(there / "0123abc")
    assert load_model(there / "0123abc").config.name == "Some/Model"


def test_weights_may_be_links(folder: Path, tmp_path: Path) -> None:
    (folder / WEIGHTS).rename(tmp_path / "blob")
    (folder / WEIGHTS).symlink_to(tmp_path / "blob")
    assert load_model(folder).config.layers == 3


def test_frequencies_that_old_folders_store_are_left_out(folder: Path) -> None:
    _retouch(folder, lambda tensors: tensors.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(6)}))
    assert load_model(folder).config.layers == 3


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model_type": "mamba"}, "architecture 'mamba' is not built in; 'llama', 'mistral', "),
        ({"model_type": None}, r"config\.json: model_type is missing"),
        ({"hidden_size": "48"}, r"config\.json: hidden_size is '48', which is not a whole number"),
        ({"hidden_size": None}, r"config\.json: hidden_size is missing"),
        ({"num_hidden_layers": 10**9}, "layers is 1000000000, must be from 1 to"),
        ({"num_hidden_layers": 10**400}, "num_hidden_layers is|layers is|not JSON"),
        ({"num_attention_heads": 0}, "query_heads is 0"),
        ({"num_attention_heads": True}, "num_attention_heads is True"),
        ({"num_key_value_heads": 3}, "4 query heads do not divide among 3 KV heads"),
        ({"vocab_size": 10}, r"model\.embed_tokens\.weight is \[260, 48\], expected \[10, 48\]"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan, which is not a finite number"),
        ({"rms_norm_eps": -1.0}, "norm_epsilon is -1"),
        ({"hidden_act": "gelu_new"}, "hidden_act is 'gelu_new', which is not built in"),
        ({"attention_multiplier": 0.5}, r"config\.json: attention_multiplier is 0\.5, which this engine does not know"),
        ({"quantization_config": {"bits": 4}}, "quantization_config is there: quantised weights are read from GGUF"),
        ({"is_causal": False}, "is_causal is false"),
        ({"attention_bias": True}, r"q_proj\.bias is missing"),
        ({"rope_parameters": {"rope_type": "longrope"}}, r"rope_parameters\.rope_type is 'longrope', which is not built in"),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2}}, "is 'dynamic', which is not built in"),
        ({"rope_parameters": {"rope_type": "linear"}}, r"rope_parameters\.factor is missing"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 0}}, "rotary scaling: factor 0"),
        ({"rope_parameters": {"rope_theta": -1.0}}, "rotary base -1"),
        ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "partial_rotary_factor is not 1"),
        ({"rope_parameters": {"rope_theta": 1e4, "mrope_section": [1]}}, r"rope_parameters\.mrope_section is \[1\]"),
        ({"rope_parameters": [1]}, r"rope_parameters is \[1\], which holds no settings"),
        ({"model_type": "qwen2", "use_sliding_window": True}, "sliding_window is missing"),
        ({"model_type": "qwen2", "layer_types": ["full_attention"]}, "layer_types names 1 layers of 3"),
        ({"model_type": "qwen2", "layer_types": ["chunked"] * 3}, "layer_types names 'chunked'"),
        ({"model_type": "qwen2", "layer_types": ["sliding_attention"] * 3}, "there is no sliding_window"),
        ({"model_type": "mistral", "sliding_window": -3}, "a window of -3 tokens"),
        ({"model_type": "qwen3", "head_dim": None}, "head_dim is missing"),
        ({"model_type": "gemma3_text", "use_bidirectional_attention": True}, "use_bidirectional_attention is true"),
        ({"eos_token_id": "x"}, r"config\.json: eos_token_id is 'x', which is no token's number"),
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_cannot_be_served_are_refused_by_name(folder: Path, changes: dict[str, Any], field: str) -> None:
    _configure(folder, **changes)
    with pytest.raises(ModelError, match=field) as refused:
        load_model(folder)
    assert str(folder) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "holds no settings"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b" " * (5 << 20), "has more than 4 MiB, which no model's has"),
    ],
    ids=["empty", "torn", "deep", "a list", "not text", "huge"],
)
def test_a_config_that_is_none_is_refused(folder: Path, content: bytes, message: str) -> None:
    (folder / CONFIG).write_bytes(content)
    with pytest.raises(ModelError, match=rf"config\.json {message}"):
        load_model(folder)


@pytest.mark.parametrize("name", [CONFIG, "tokenizer.json", WEIGHTS])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelError, match=name.replace(".", r"\.")):
        load_model(folder)


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    (folder / CONFIG).unlink()
    os.mkfifo(folder / CONFIG)
    with pytest.raises(ModelError, match="is missing, or no file"):
        load_model(folder)


def test_pickled_weights_are_not_read(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"weights as \.bin are not read, because those can hold programs"):
        load_model(folder)


def test_a_missing_shard_is_named(folder: Path) -> None:
    _shard(folder)
    (folder / "part-1.safetensors").unlink()
    with pytest.raises(ModelError, match=r"part-1\.safetensors is missing, though .* says that tensor"):
        load_model(folder)


def test_an_index_that_lies_is_refused(folder: Path) -> None:
    where = _shard(folder)
    tensor = min(where)
    where[tensor] = "part-1.safetensors" if where[tensor] == "part-0.safetensors" else "part-0.safetensors"
    (folder / INDEX).write_text(json.dumps({"weight_map": where}))
    with pytest.raises(ModelError, match=rf"tensor {tensor} is missing, though"):
        load_model(folder)


@pytest.mark.parametrize("shard", ["../outside.safetensors", "/etc/passwd", "a/b", "", 7, "x\0y", "..", None])
def test_an_index_leads_to_no_file_outside_the_folder(folder: Path, shard: object) -> None:
    (folder.parent / "outside.safetensors").write_bytes((folder / WEIGHTS).read_bytes())
    (folder / INDEX).write_text(json.dumps({"weight_map": {"lm_head.weight": shard}}))
    with pytest.raises(ModelError, match=r"which is no name of a file in the folder|is missing"):
        load_model(folder)


def test_a_tensor_of_another_shape_is_named(folder: Path) -> None:
    _retouch(folder, lambda tensors: tensors.update({"model.norm.weight": torch.ones(40)}))
    with pytest.raises(ModelError, match=r"model\.norm\.weight is \[40\], expected \[48\]"):
        load_model(folder)


def test_rows_that_only_add_up_are_no_projections(folder: Path) -> None:
    """Queries, keys and values are joined; what one has too much must not make up for what the next lacks."""

    def change(tensors: dict[str, torch.Tensor]) -> None:
        prefix = "model.layers.1.self_attn."
        query, key = tensors[prefix + "q_proj.weight"], tensors[prefix + "k_proj.weight"]
        tensors[prefix + "q_proj.weight"] = torch.cat([query, key[:12]])
        tensors[prefix + "k_proj.weight"] = key[12:].clone()

    _retouch(folder, change)
    with pytest.raises(ModelError, match=r"layers\.1\.self_attn\.q_proj\.weight is \[60, 48\], expected \[48, 48\]"):
        load_model(folder)


def test_a_tensor_of_another_type_is_named(folder: Path) -> None:
    _retouch(folder, lambda tensors: tensors.update({"model.norm.weight": torch.ones(48, dtype=torch.int8)}))
    with pytest.raises(
        ModelError, match=r"tensor model\.norm\.weight is I8, which is not built in; F32, F16, BF16 are"
    ):
        load_model(folder)


def test_a_tensor_that_would_be_ignored_is_named(folder: Path) -> None:
    _retouch(folder, lambda tensors: tensors.update({"model.layers.0.extra.weight": torch.ones(2)}))
    with pytest.raises(ModelError, match=r"tensor model\.layers\.0\.extra\.weight is unknown to this decoder"):
        load_model(folder)


@pytest.mark.parametrize("damage", ["torn", "no header", "header beyond the end", "offsets", "no tensors"])
def test_damaged_weights_are_refused(folder: Path, damage: str) -> None:
    path = folder / WEIGHTS
    content = path.read_bytes()
    header = json.dumps({"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(
        {
            "torn": content[: len(content) // 2],
            "no header": b"",
            "header beyond the end": struct.pack("<Q", 1 << 60) + content[8:],
            "offsets": struct.pack("<Q", len(header)) + header + b"\0" * 4,
            "no tensors": struct.pack("<Q", 2) + b"{}",
        }[damage]
    )
    with pytest.raises(ModelError, match=r"model\.safetensors is not a readable safetensors file|holds no tensors"):
        load_model(folder)


def test_a_head_that_is_stored_though_it_is_tied_is_left_out(folder: Path) -> None:
    _configure(folder, tie_word_embeddings=True)
    weights = load_model(folder).decoder.weights
    assert weights.head is weights.embedding


def test_ends_come_from_both_files(folder: Path) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 7]}))
    assert load_model(folder).config.eos_ids == {0, 5, 7}


def test_the_template_comes_from_its_own_file_first(folder: Path) -> None:
    assert load_model(folder).tokenizer.chat_template is None
    write_tokenizer(folder, {"chat_template": "{{ bos_token }}settings"})
    template = load_model(folder).tokenizer.chat_template
    assert template is not None
    assert template.render([{"role": "user", "content": "x"}]) == "<|start|>settings"
    write_tokenizer(
        folder, {"chat_template": [{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}]}
    )
    template = load_model(folder).tokenizer.chat_template
    assert template is not None
    assert template.render([{"role": "user", "content": "x"}]) == "d"
    (folder / "chat_template.jinja").write_text("{{ messages[0]['content'] }}{{ eos_token }}")
    template = load_model(folder).tokenizer.chat_template
    assert template is not None
    assert template.render([{"role": "user", "content": "x"}]) == "x<|end|>"
