"""Planted faults in a server with a model, and in the process that serves."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from engine.build import build
from engine.config import EngineConfig
from engine.model.draw import Draw
from engine.model.runner import ModelRunner
from engine.model.sampler import SamplerOutput
from engine.requests.stopping import StopRules
from engine.serving.server import Server

PROMPTS = [[40 + i, *range(i, i + 30)] for i in range(8)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    config = EngineConfig(
        name="failing",
        model="random",
        blocks=64,
        block_size=8,
        device="cpu",
        host_blocks=64,
        disk_blocks=0,
        policies={"offload": "on_fill", "max_running": 8},
    )
    made = build(config, lambda *_: None, lambda _: None, folder=tmp_path)
    yield made
    made.close()


def run_out(server: Server) -> None:
    for _ in range(2000):
        server._turn()
        if not server.engine.scheduler.requests:
            return
    raise AssertionError("requests are left that never end")


def runner_of(server: Server) -> ModelRunner:
    assert isinstance(server.engine.runner, ModelRunner)
    return server.engine.runner


def poison(server: Server, num: int) -> None:
    """The logits of this request are NaN from now on."""
    sampler = runner_of(server).sampler
    sample = sampler.sample

    def poisoned(logits: torch.Tensor, draws: Sequence[Draw]) -> SamplerOutput:
        logits = logits.clone()
        for row, draw in enumerate(draws):
            if draw.request == num:
                logits[row, 3] = torch.nan
        return sample(logits, draws)

    sampler.sample = poisoned  # type: ignore[method-assign]


def test_logits_of_one_row_of_eight_that_are_no_numbers_change_nothing_for_the_others(server: Server) -> None:
    handles = [server.submit(prompt, 8) for prompt in PROMPTS]
    run_out(server)
    expected = [handle.result(0.0)[0].token_ids for handle in handles]
    server.engine.scheduler.reset_prefix_cache()
    handles = [server.submit(prompt, 8) for prompt in PROMPTS]
    poison(server, handles[5].num)
    run_out(server)
    outputs = [handle.result(0.0)[0] for handle in handles]
    assert [output.finish_reason for output in outputs] == ["length"] * 5 + ["error"] + ["length"] * 2
    assert [output.token_ids for i, output in enumerate(outputs) if i != 5] == expected[:5] + expected[6:]
    assert outputs[5].detail == "the logits at position 31 are not finite numbers"
    assert server.engine.scheduler.ledger_violations() == []


@pytest.mark.parametrize("failing", [False, True])
def test_what_a_failed_row_computed_is_found_in_no_tier(server: Server, failing: bool) -> None:
    first = server.submit(PROMPTS[0], 8)
    server.take_up()
    for _ in range(4):
        server._turn()
    tiers = server.engine.scheduler.tiers
    assert tiers is not None
    tiers.wait(1.0)
    server._turn()
    if failing:
        poison(server, first.num)
    run_out(server)
    assert first.result(0.0)[0].finish_reason == ("error" if failing else "length")
    late = server.submit(PROMPTS[0], 8)
    run_out(server)
    (output,) = late.result(0.0)
    assert output.usage is not None
    assert output.usage.cached_tokens == (0 if failing else 24)
    assert server.engine.scheduler.ledger_violations() == []


@pytest.mark.parametrize("error", [MemoryError("no room"), torch.OutOfMemoryError("CUDA out of memory")])
def test_a_model_that_runs_out_of_memory_once_gives_the_same_tokens(server: Server, error: Exception) -> None:
    handles = [server.submit(prompt, 8, n=2) for prompt in PROMPTS[:4]]
    run_out(server)
    expected = [[output.token_ids for output in handle.result(0.0)] for handle in handles]
    server.engine.scheduler.reset_prefix_cache()
    decoder, calls = runner_of(server).decoder, 0
    forward = decoder.forward

    def fails(*args: object) -> torch.Tensor:
        nonlocal calls
        calls += 1
        logits = forward(*args)  # type: ignore[arg-type]
        if calls % 3 == 1:
            raise error
        return logits

    decoder.forward = fails  # type: ignore[method-assign,assignment]
    handles = [server.submit(prompt, 8, n=2) for prompt in PROMPTS[:4]]
    run_out(server)
    assert [[output.token_ids for output in handle.result(0.0)] for handle in handles] == expected
    assert server.engine.scheduler.ledger_violations() == []


def test_an_accelerator_that_fails_is_lost_and_not_tried_again(server: Server) -> None:
    calls = 0

    def fails(*_: object) -> torch.Tensor:
        nonlocal calls
        calls += 1
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    runner_of(server).decoder.forward = fails  # type: ignore[method-assign,assignment]
    handle = server.submit(PROMPTS[0], 8)
    with pytest.raises(RuntimeError, match=r"the device is lost: .*illegal memory access"):
        server.run()
    assert calls == 1
    assert handle.result(0.0)[0].finish_reason == "error"


PLANTED = {
    "the runner": "from engine.model.decoder import Decoder\ndef fails(*_): raise RuntimeError('planted\\nfault')\nDecoder.forward = fails",
    "telemetry": "from engine.serving.telemetry import Telemetry\ndef fails(*_): raise RuntimeError('planted\\nfault')\nTelemetry.frame = fails",
    "the publisher": "from kvtop.publish import Publisher\ndef fails(*_): raise RuntimeError('planted\\nfault')\nPublisher.publish = fails",
    "the scheduler": "from engine.scheduling.scheduler import Scheduler\ndef fails(*_, **__): raise RuntimeError('planted\\nfault')\nScheduler.commit = fails",
}
OPTIONS = "['--model', 'random', '--workload', 'mix', '--rate', '30', '--name', 'planted']"


@pytest.mark.parametrize("where", PLANTED)
def test_a_process_that_cannot_go_on_ends_in_one_line_with_code_1(where: str, tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    program = (
        "import sys, engine.build as b\n"
        f"from engine.__main__ import main\nb._rate = lambda *_: 30.0\n{PLANTED[where]}\nsys.exit(main({OPTIONS}))"
    )
    environment = os.environ | {"KVTOP_SOCKET_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 1, done.stderr
    told = ("serves; watch it", "measuring", "memory: ", "the flight recorder was written")
    lines = [line for line in done.stderr.splitlines() if not any(word in line for word in told)]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("kvtop engine: ")
    assert "RuntimeError: planted fault" in lines[0]
    assert not [entry for entry in tmp_path.iterdir() if entry.is_socket()]


def test_a_program_that_started_the_engine_reads_why_it_ended(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    program = (
        "import sys, engine.build as b\nfrom engine.__main__ import main\nb._rate = lambda *_: 30.0\n"
        f"{PLANTED['telemetry']}\nsys.exit(main({OPTIONS} + ['--ready-json']))"
    )
    environment = os.environ | {"KVTOP_SOCKET_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 1
    assert json.loads(done.stdout.splitlines()[-1])["failed"] == "the engine failed: RuntimeError: planted fault"
    flight, failed = done.stderr.splitlines()
    assert flight.startswith(
        "kvtop: the flight recorder was written (the engine failed: RuntimeError: planted fault): "
    )
    assert failed == "kvtop engine: the engine failed: RuntimeError: planted fault"


def test_the_models_end_of_sequence_ends_a_request_unless_it_ignores_that(server: Server) -> None:
    handle = server.submit(PROMPTS[0], 8)
    run_out(server)
    tokens = handle.result(0.0)[0].token_ids
    server.vocabulary = type(server.vocabulary)(512, frozenset({tokens[3]}), server.vocabulary.token_bytes)
    first = tokens.index(tokens[3])
    handles = [server.submit(PROMPTS[0], 8), server.submit(PROMPTS[0], 8, stop=StopRules(ignore_eos=True))]
    run_out(server)
    ended, ignored = (handle.result(0.0)[0] for handle in handles)
    assert (ended.finish_reason, ended.token_ids) == ("stop", tokens[: first + 1])
    assert ended.detail == f"end-of-sequence token {tokens[3]}"
    assert (ignored.finish_reason, ignored.token_ids) == ("length", tokens)
