"""The engine in Python: ``from engine import LLM, SamplingParams``. Names and results are vLLM's."""

from engine.llm.llm import LLM
from engine.llm.params import BeamSearchParams, SamplingParams
from engine.llm.prompts import Prompt
from engine.llm.results import (
    BeamSearchOutput,
    BeamSearchSequence,
    CompletionOutput,
    Logprob,
    RequestOutput,
)
from engine.llm.session import LLMError

__all__ = [
    "LLM",
    "BeamSearchOutput",
    "BeamSearchParams",
    "BeamSearchSequence",
    "CompletionOutput",
    "LLMError",
    "Logprob",
    "Prompt",
    "RequestOutput",
    "SamplingParams",
]
