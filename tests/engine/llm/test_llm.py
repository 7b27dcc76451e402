"""The engine as an object: outputs as asked for, watched while it works, left in order however it ends."""

import gc
import math
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import LLM, SamplingParams
from engine.config import EngineConfig
from engine.llm import BeamSearchParams, LLMError
from kvtop.app.feed import Feed
from kvtop.sources.discover import live_engines
from kvtop.sources.socket import SocketSource
from tests.publish.kit import wait_until

GREEDY = SamplingParams(temperature=0.0, max_tokens=8, ignore_eos=True)


@pytest.fixture(autouse=True)
def sockets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder))
    return folder


@pytest.fixture
def llm() -> Iterator[LLM]:
    with LLM("random", name="lab", num_gpu_blocks_override=64, block_size=8, device="cpu") as made:
        yield made


def test_each_prompt_gets_its_outputs_in_the_order_asked_for(llm: LLM) -> None:
    prompts = ["one", "two and more", [7, 8, 9], {"prompt": "four"}, {"prompt_token_ids": [1, 2], "cache_salt": "x"}]
    together = llm.generate(prompts, GREEDY)
    assert [each.prompt for each in together] == ["one", "two and more", None, "four", None]
    assert [each.prompt_token_ids for each in together[:3]] == [list(b"one"), list(b"two and more"), [7, 8, 9]]
    assert all(each.finished and len(each.outputs) == 1 for each in together)
    for prompt, whole in zip(prompts, together, strict=True):
        (alone,) = llm.generate(prompt, GREEDY)
        assert alone.outputs[0].token_ids == whole.outputs[0].token_ids
        assert len(alone.outputs[0].token_ids) == 8
        assert (alone.outputs[0].finish_reason, alone.outputs[0].stop_reason) == ("length", None)
        assert alone.outputs[0].text == llm.get_tokenizer().decode(alone.outputs[0].token_ids)
    assert len({each.request_id for each in together}) == len(prompts)


def test_samples_logprobs_and_seeds(llm: LLM) -> None:
    params = SamplingParams(n=3, temperature=1.0, seed=11, max_tokens=6, logprobs=2, ignore_eos=True)
    (first,), (again,) = llm.generate("hello", params), llm.generate("hello", params)
    assert [each.index for each in first.outputs] == [0, 1, 2]
    assert [each.token_ids for each in first.outputs] == [each.token_ids for each in again.outputs]
    assert len({tuple(each.token_ids) for each in first.outputs}) == 3
    for output in first.outputs:
        assert output.logprobs is not None
        assert output.cumulative_logprob is not None
        chosen = [told[token] for told, token in zip(output.logprobs, output.token_ids, strict=True)]
        assert math.isclose(sum(each.logprob for each in chosen), output.cumulative_logprob, abs_tol=1e-6)
        assert all(2 <= len(told) <= 3 for told in output.logprobs)
        assert all({1, 2} <= {each.rank for each in told.values()} for told in output.logprobs)
    assert llm.generate("hello", GREEDY)[0].outputs[0].logprobs is None


def test_what_stopped_an_output_is_its_stop_reason(llm: LLM) -> None:
    tokens = llm.generate("abc", GREEDY)[0].outputs[0].token_ids
    stopped = llm.generate("abc", SamplingParams(temperature=0, max_tokens=8, stop_token_ids=[tokens[2]]))[0].outputs[0]
    assert tokens[2] not in tokens[:2]
    assert (stopped.token_ids, stopped.finish_reason, stopped.stop_reason) == (tokens[:3], "stop", tokens[2])
    bias = {ord("x"): 100.0}
    end = SamplingParams(temperature=0, max_tokens=8, stop=["never", "xxx"], logit_bias=bias)
    found = llm.generate("abc", end)[0].outputs[0]
    assert (found.text, len(found.token_ids), found.finish_reason, found.stop_reason) == ("", 3, "stop", "xxx")


def test_a_prompt_seen_before_is_found_in_the_cache(llm: LLM) -> None:
    prompt = list(range(40))
    first, again = llm.generate(prompt, GREEDY)[0], llm.generate(prompt, GREEDY)[0]
    assert (first.num_cached_tokens, again.num_cached_tokens) == (0, 32)
    assert first.outputs == again.outputs


def test_parameters_priorities_and_conversations_one_each(llm: LLM) -> None:
    params = [SamplingParams(temperature=0, max_tokens=count, ignore_eos=True) for count in (2, 5)]
    outputs = llm.generate(["a", "b"], params, priority=[1, 0])
    assert [len(each.outputs[0].token_ids) for each in outputs] == [2, 5]
    turns = [{"role": "user", "content": "hi"}]
    (one,) = llm.chat(turns, GREEDY)
    assert one.prompt == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert llm.chat([turns, turns], GREEDY)[1].outputs == one.outputs
    with pytest.raises(ValueError, match=r"^sampling_params: 2 for 3 prompts"):
        llm.generate(["a", "b", "c"], params)


def test_beams_are_ranked_and_begin_with_the_prompt(llm: LLM) -> None:
    (found,) = llm.beam_search("abc", BeamSearchParams(beam_width=3, max_tokens=5, ignore_eos=True))
    assert len(found.sequences) == 3
    assert all(each.tokens[:3] == list(b"abc") and len(each.tokens) == 8 for each in found.sequences)
    scores = [each.cum_logprob for each in found.sequences]
    assert scores == sorted(scores, key=lambda score: -(score or 0.0))
    assert all(each.text.startswith("abc") for each in found.sequences)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"beam_width": 17}, "^beam_width: 17"),
        ({"max_tokens": 0}, "^max_tokens: 0"),
        ({"length_penalty": 99.0}, "^length_penalty: 99"),
    ],
)
def test_parameters_of_beams_are_refused_by_their_names(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        BeamSearchParams(**{"beam_width": 2, "max_tokens": 2, **wrong})


def test_a_prompt_that_no_beams_can_be_of_is_named_by_its_place(llm: LLM) -> None:
    with pytest.raises(ValueError, match=r"^prompts\[1\]: "):
        llm.beam_search(["a", ""], BeamSearchParams(beam_width=2, max_tokens=2))


@pytest.mark.parametrize(
    ("prompts", "params", "says"),
    [
        (["a", ""], GREEDY, r"prompts\[1\]: token_ids: a prompt has one token at least"),
        (["a", 3], GREEDY, r"prompts\[1\]: 3 is neither a text"),
        (["a", "\ud800"], GREEDY, r"prompts\[1\]: U\+D800 is half of a surrogate pair"),
        ({"prompt": "\ud800"}, GREEDY, r"prompts\.prompt: U\+D800 is half of a surrogate pair"),
        (7, GREEDY, "prompts: 7 is neither a prompt"),
        ({"text": "a"}, GREEDY, "prompts: 'text' is not one of cache_salt, prompt"),
        ([[1, 10**6]], GREEDY, r"prompts\[0\]: token_ids: 1000000 is not in the model's vocabulary"),
        ([[1] * 600], GREEDY, r"prompts\[0\]: "),
    ],
)
def test_what_cannot_be_served_is_refused_by_its_place(llm: LLM, prompts: Any, params: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        llm.generate(prompts, params)
    assert llm.generate("a", GREEDY)[0].finished


@pytest.mark.parametrize(
    ("field", "value"),
    [("temperature", float("nan")), ("max_tokens", 0), ("top_k", -2), ("stop", [""]), ("logprobs", 99), ("n", 0)],
)
def test_a_parameter_out_of_range_is_refused_where_it_is_made(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        SamplingParams(**{field: value})


def test_max_tokens_of_none_goes_on_as_far_as_there_is_room() -> None:
    with LLM("random", max_model_len=48, device="cpu") as llm:
        (output,) = llm.generate([5] * 40, SamplingParams(temperature=0, max_tokens=None, ignore_eos=True))
    assert len(output.outputs[0].token_ids) == 8


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="block size 3"):
        LLM("random", block_size=3)
    with pytest.raises(ValueError, match="policies: max_running is given twice"):
        LLM("random", max_num_seqs=3, policies={"max_running": 4})
    with pytest.raises(TypeError, match="'tensor_parallel_size' is no setting"):
        LLM("random", tensor_parallel_size=2)
    with pytest.raises(LLMError, match="requests of 99999 tokens: the model has a context of 4096"):
        LLM("random", max_model_len=99_999)


@pytest.mark.parametrize("name", ["num_gpu_blocks_override", "max_model_len", "block_size", "gpu_memory_utilization"])
@pytest.mark.parametrize("size", [0, -1, float("nan")])
def test_a_size_of_nothing_is_refused_by_its_name_and_not_taken_for_none_given(name: str, size: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}: {size} is not above 0"):
        LLM("random", device="cpu", **{name: size}).close()


def test_policies_and_memory_are_those_asked_for(sockets: Path) -> None:
    with LLM(
        "random",
        name="lab",
        num_gpu_blocks_override=20,
        enable_prefix_caching=False,
        max_num_seqs=3,
        policies={"order": "shortest_prompt"},
        kv_cache_dtype="fp8",
        host_blocks=5,
        device="cpu",
    ) as llm:
        (found,) = live_engines(sockets)
        assert found.hello is not None
        assert {pool.tier: pool.blocks for pool in found.hello.geometry.pools} == {"device": 20, "host": 5}
        assert found.hello.geometry.cache_dtype == "fp8_e4m3"
        policies = llm._session.server.engine.scheduler.policies
        assert (policies.prefix_cache, policies.max_running, policies.order) == (False, 3, "shortest_prompt")


def test_two_in_one_process_have_names_of_their_own_and_can_be_watched(sockets: Path) -> None:
    with LLM("random", device="cpu") as one, LLM("random", device="cpu", seed=1) as two:
        assert {found.name for found in live_engines(sockets)} == {one.name, two.name}
        assert one.name.startswith(f"llm-{os.getpid()}")
        assert one.generate("a", GREEDY)[0].outputs != two.generate("a", GREEDY)[0].outputs
        with pytest.raises(LLMError, match=f"an engine named '{one.name}' is already running"):
            LLM("random", name=one.name, device="cpu")
    assert live_engines(sockets) == []


def test_a_viewer_sees_the_requests_under_the_ids_of_their_results(llm: LLM, sockets: Path) -> None:
    feed = Feed(SocketSource(sockets / "lab.sock"))
    feed.source.start()
    try:

        def heard() -> bool:
            feed.drain(time.monotonic())
            return feed.live.seq is not None

        wait_until(heard, "the engine")
        ids = {each.request_id for each in llm.generate(["a", "b", "c"], GREEDY)}

        def seen() -> set[str]:
            feed.drain(time.monotonic())
            return {row.id for row in (feed.live.requests or {}).values() if row.output_tokens == 8}

        wait_until(lambda: seen() >= ids, "the requests")
    finally:
        feed.source.close()


def test_any_thread_can_make_one() -> None:
    """As a notebook's; signal handlers can be set by the main thread alone."""
    texts: list[str] = []

    def work() -> None:
        with LLM("random", device="cpu") as made:
            texts.append(made.generate("a", GREEDY)[0].outputs[0].text)

    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 2
    assert texts[0] == texts[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_threads_share_one(llm: LLM) -> None:
    found: dict[int, list[int]] = {}

    def ask(number: int) -> None:
        found[number] = llm.generate([number] * 5, GREEDY)[0].outputs[0].token_ids

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: llm.generate([number] * 5, GREEDY)[0].outputs[0].token_ids for number in range(6)}


def test_after_close_it_says_so_and_its_memory_goes(sockets: Path) -> None:
    llm = LLM("random", device="cpu")
    llm.generate("a", GREEDY)
    memory = weakref.ref(llm._session.server.engine.runner)
    llm.close()
    llm.close()
    with pytest.raises(LLMError, match="this LLM is closed"):
        llm.generate("a", GREEDY)
    assert live_engines(sockets) == []
    gc.collect()
    assert memory() is None
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("llm ")]


def test_one_that_nobody_has_any_more_ends_by_itself(sockets: Path) -> None:
    llm = LLM("random", device="cpu")
    llm.generate("a", GREEDY)
    del llm
    gc.collect()
    assert live_engines(sockets) == []


def test_closing_it_ends_what_another_thread_waits_for(llm: LLM) -> None:
    told: list[BaseException] = []
    began = threading.Event()

    def ask() -> None:
        began.set()
        try:
            llm.generate(list(range(20)), SamplingParams(max_tokens=450, ignore_eos=True))
        except LLMError as error:
            told.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    began.wait()
    llm.close()
    thread.join(30)
    assert not thread.is_alive()
    assert [str(error) for error in told] in (["this LLM is closed"], ["the engine stopped"], ["the LLM was closed"])


def test_an_engine_that_fails_says_why_then_and_later(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("the floor is gone")

    monkeypatch.setattr(llm._session.server.engine, "step", broken)
    for _ in range(2):
        with pytest.raises(LLMError, match="the floor is gone"):
            llm.generate("a", GREEDY)


INTERRUPTED = """
import os, signal, sys, threading
from engine import LLM, SamplingParams
llm = LLM("random", device="cpu")
long = SamplingParams(max_tokens=3000, ignore_eos=True)
def interrupt():
    while not llm._session.server.engine.scheduler.running:
        pass
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    llm.generate([[1] * 20] * 2, long)
except KeyboardInterrupt:
    print("interrupted")
print(len(llm.generate("a", SamplingParams(max_tokens=4, ignore_eos=True))[0].outputs[0].token_ids))
while llm._session.server.engine.scheduler.running:
    pass
"""


def _run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)


def test_an_interrupt_cancels_what_runs_and_the_end_of_the_program_ends_the_engine(sockets: Path) -> None:
    done = _run(INTERRUPTED)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n4\n", "")
    assert live_engines(sockets) == []
    assert not list(sockets.glob("*.sock"))


def test_a_program_that_is_interrupted_dies_of_it_and_leaves_no_socket(sockets: Path) -> None:
    done = _run(INTERRUPTED.replace("except KeyboardInterrupt:", "except ZeroDivisionError:"))
    assert done.returncode != 0
    assert done.stderr.endswith("KeyboardInterrupt\n")
    assert not list(sockets.glob("*.sock"))


FORKED = """
import os, sys
from engine import LLM, SamplingParams
llm = LLM("random", device="cpu", name="parent", disk_blocks=4, host_blocks=4)
child = os.fork()
try:
    print(len(llm.generate("a", SamplingParams(max_tokens=4, ignore_eos=True))[0].outputs[0].token_ids), flush=True)
except RuntimeError as error:
    print(error, flush=True)
if child == 0:
    llm.close()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print(len(llm.generate("a", SamplingParams(max_tokens=3, ignore_eos=True))[0].outputs[0].token_ids), child and os.getpid())
"""


def test_a_forked_process_is_told_that_the_engine_is_not_its_own_and_does_no_harm_to_it(sockets: Path) -> None:
    done = _run(FORKED)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    parent = lines[-1].split()[1]
    assert sorted(lines) == sorted([
        "4",
        f"this LLM is of process {parent}; make one of its own in each process",
        f"3 {parent}",
    ])  # fmt: skip
    assert not list(sockets.glob("*.sock"))


def test_the_parameters_alone_need_no_torch() -> None:
    program = "import sys, engine; engine.SamplingParams(n=2); engine.LLM; assert 'torch' not in sys.modules"
    assert _run(program).returncode == 0


def test_every_setting_of_an_engine_can_be_given_by_name(sockets: Path) -> None:
    with LLM("random", device="cpu", kv_gib=0.001, ledger_every=1, window="8", host_blocks=2) as llm:
        assert llm.generate("abcdefghijkl", GREEDY)[0].finished
    assert "kv_gib" in EngineConfig.__dataclass_fields__
