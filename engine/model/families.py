"""The families of models that this engine runs: one entry each."""

from engine.model.family import ModelFamily
from engine.model.llama import LLAMA

FAMILIES: dict[str, ModelFamily] = {family.architecture: family for family in (LLAMA,)}
"""By what a file calls its architecture."""
