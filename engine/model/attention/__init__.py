"""Attention over a paged KV cache: one interface, one file a backend."""

from engine.model.attention.base import AttentionBackend, AttentionError, BatchAttention, BatchLayout
from engine.model.attention.torch_backend import TorchAttention
from engine.model.paged_tensor import KVDtype

BACKENDS = ("torch", "triton")

TRITON_READS = ("float32", "bfloat16", "float16")
"""KV data types that the Triton kernel reads; the torch backend reads all."""


def attention_backend(name: str, device: str, cache: KVDtype) -> AttentionBackend:
    """The backend called ``name`` on ``device`` (``cpu``, ``cuda``, …) for a KV cache of this element type.

    Raises `AttentionError`, in a sentence, for a name that is not known or a backend that cannot run there.
    """
    if name == "torch":
        return TorchAttention()
    if name == "triton":
        if cache.name not in TRITON_READS:
            raise AttentionError(
                f"attention backend triton reads KV caches of {', '.join(TRITON_READS)}, not of {cache.name}"
            )
        # Imported only when asked for: triton exists on some platforms only, and reads TRITON_INTERPRET on import.
        try:
            from engine.model.attention.triton_backend import TritonAttention
        except ImportError:
            raise AttentionError("attention backend triton needs the triton package: pip install triton") from None
        return TritonAttention(device)
    raise AttentionError(f"attention backend {name!r} is not one of {', '.join(BACKENDS)}")


__all__ = [
    "BACKENDS",
    "TRITON_READS",
    "AttentionBackend",
    "AttentionError",
    "BatchAttention",
    "BatchLayout",
    "TorchAttention",
    "attention_backend",
]
