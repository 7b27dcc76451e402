"""kvtop's own inference engine: written to be read, complete enough to be true."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.llm import LLM, BeamSearchParams, CompletionOutput, RequestOutput, SamplingParams

__all__ = ["LLM", "BeamSearchParams", "CompletionOutput", "RequestOutput", "SamplingParams"]

# Read by OpenMP when torch is imported, hence here. By default its threads spin while they wait for each other; as soon
# as anything else wants a core (the screen does), every matrix product then waits for a thread that is not running:
# steps were seen to take ten times as long. Sleeping at once costs a tenth of a step on a quiet machine; spinning for
# some microseconds first costs nothing there and little under load.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")


def __getattr__(name: str) -> Any:
    """What experiments use, from `engine.llm`: only when it is asked for, since everything here imports this file."""
    if name in __all__:
        import engine.llm

        return getattr(engine.llm, name)
    raise AttributeError(f"module 'engine' has no attribute {name!r}")
