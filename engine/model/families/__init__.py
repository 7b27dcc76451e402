"""The families of models that this engine runs: one entry each."""

from engine.model.families.base import ModelFamily
from engine.model.families.gemma import GEMMA2, GEMMA3
from engine.model.families.llama import LLAMA, MISTRAL
from engine.model.families.qwen import QWEN2, QWEN3

FAMILIES: dict[str, ModelFamily] = {family.name: family for family in (LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA2, GEMMA3)}
"""By name."""
