"""A user's own model, from a folder or a GGUF file, through the whole engine: what it says is what `transformers` says."""

from pathlib import Path

import pytest
import torch

from engine.build import BuildError, build
from engine.config import EngineConfig
from tests.engine.hf_models import KINDS, write_folder, write_gguf, write_tokenizer
from tests.engine.http.kit import Serving

TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
OUTPUT = 30


@pytest.mark.parametrize("form", ["folder", "gguf"])
def test_a_hybrid_model_of_ones_own_is_served(form: str, tmp_path: Path) -> None:
    """Gemma's layers see a window or all: two kinds of KV groups, windows shorter than the prompt."""
    kind = KINDS["gemma3"]
    reference = write_folder(tmp_path / "mine", kind)
    write_tokenizer(tmp_path / "mine", {"chat_template": TEMPLATE, "add_bos_token": True})
    path = tmp_path / "mine" if form == "folder" else write_gguf(tmp_path / "mine.gguf", kind, reference)
    (tmp_path / "s").mkdir()
    serving = Serving(tmp_path / "s", model=str(path))
    try:
        asked = {"max_tokens": OUTPUT, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        status, told, _ = serving.ask("/v1/completions", {"prompt": "hello there " * 3, **asked})
        assert status == 200, told
        choice = told["choices"][0]
        prompt = choice["prompt_token_ids"]
        assert (prompt[0] == 1) == (form == "folder"), "the folder says that prompts begin with a token of their own"
        tokens = list(prompt)
        with torch.inference_mode():
            for _ in range(OUTPUT):
                tokens.append(int(reference(torch.tensor([tokens]), use_cache=False).logits[0, -1].argmax()))
        assert choice["token_ids"] == tokens[len(prompt) :]
        messages = [{"role": "user", "content": "hi<|end|>"}]
        status, told, _ = serving.ask("/v1/chat/completions", {"messages": messages, **asked})
        if form == "folder":
            assert status == 200, told
            assert told["choices"][0]["prompt_token_ids"][0] == 1
            assert 0 not in told["choices"][0]["prompt_token_ids"], "a message spelled a special token"
        else:
            assert status == 400
    finally:
        serving.close()
    assert serving.faults == []


@pytest.mark.parametrize("what", ["nothing there", "an empty folder", "a text"])
def test_what_is_no_model_is_refused_with_what_would_be(what: str, tmp_path: Path) -> None:
    path = tmp_path / "mine"
    if what == "an empty folder":
        path.mkdir()
    elif what == "a text":
        path.write_text("hello")
    with pytest.raises(BuildError, match="mine") as refused:
        build(EngineConfig(model=str(path), name="t"), lambda *_: None, lambda _: None, folder=tmp_path)
    assert refused.value.hint == "give smollm2, random, or the path of a GGUF file or a Hugging Face folder"
