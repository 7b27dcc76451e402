"""What the runner's times are of: preparing a batch, the forward pass, choosing tokens; each for itself."""

from typing import Any

import pytest

from engine.model import runner as runner_module
from engine.model.load import random_model
from engine.requests.batch import BatchItem, BlockCopy
from tests.engine.served import make_request, make_runner, scattered_table


class Watch:
    """Seconds that pass only where told."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def lasting(self, seconds: float, function: Any) -> Any:
        def call(*args: Any, **more: Any) -> Any:
            self.now += seconds
            return function(*args, **more)

        return call


def test_laying_out_and_copying_are_no_part_of_the_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, watch = make_runner(random_model(seed=5), blocks=16, block_size=8), Watch()
    monkeypatch.setattr(runner_module, "time", watch)
    monkeypatch.setattr(runner_module, "lay_out_groups", watch.lasting(1.0, runner_module.lay_out_groups))
    monkeypatch.setattr(runner.cache, "copy_blocks", watch.lasting(2.0, runner.cache.copy_blocks))
    monkeypatch.setattr(runner.decoder, "forward", watch.lasting(40.0, runner.decoder.forward))
    monkeypatch.setattr(runner.sampler, "sample", watch.lasting(500.0, runner.sampler.sample))
    request = make_request(0, [1, 2, 3], 2, table=scattered_table(16, 8, 8, 0))
    output = runner.run([BatchItem(request, 0, 3, True)], [BlockCopy(14, 15, 8)])
    assert (output.prepare_ms, output.forward_ms, output.sample_ms) == (3_000.0, 40_000.0, 500_000.0)
    copied = runner.run([], [BlockCopy(14, 15, 8)])
    assert (copied.prepare_ms, copied.forward_ms, copied.sample_ms) == (2_000.0, 0.0, 0.0)
