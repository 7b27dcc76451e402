"""Attention over a paged KV cache: one interface, one file a backend."""

from engine.attention.base import AttentionBackend, AttentionError, BatchAttention, BatchLayout
from engine.attention.torch_backend import TorchAttention

BACKENDS = ("torch", "triton")


def attention_backend(name: str, device: str) -> AttentionBackend:
    """The backend called ``name`` on ``device`` (``cpu``, ``cuda``, …).

    Raises `AttentionError`, in a sentence, for a name that is not known or a backend that cannot run there.
    """
    if name == "torch":
        return TorchAttention()
    if name == "triton":
        # Imported only when asked for: triton exists on some platforms only, and reads TRITON_INTERPRET on import.
        try:
            from engine.attention.triton_backend import TritonAttention
        except ImportError:
            raise AttentionError("attention backend triton needs the triton package: pip install triton") from None
        return TritonAttention(device)
    raise AttentionError(f"attention backend {name!r} is not one of {', '.join(BACKENDS)}")


__all__ = [
    "BACKENDS",
    "AttentionBackend",
    "AttentionError",
    "BatchAttention",
    "BatchLayout",
    "TorchAttention",
    "attention_backend",
]
