"""kvtop: a live view of an LLM inference engine's KV cache and scheduler."""

__version__ = "0.1.0"
