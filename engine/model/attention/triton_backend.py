"""Decode rows by the Triton kernel, prefill by torch. Needs a GPU, or Triton's interpreter (slow, for tests)."""

import os

import torch
from torch import Tensor

from engine.model.attention.base import AttentionError, BatchAttention, BatchLayout, DecodeRows
from engine.model.attention.torch_backend import Bucket, attend_bucket, prefill_buckets
from engine.model.kernels.paged_decode import paged_decode
from engine.model.paged_tensor import PagedTensor


class TritonAttention:
    """Reads keys and values where they lie: decoding gathers nothing."""

    name = "triton"

    def __init__(self, device: str) -> None:
        if torch.device(device).type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
            raise AttentionError(
                f"attention backend triton needs a GPU, not {device}; use torch, or set TRITON_INTERPRET=1 (slow)"
            )

    def prepare(
        self, layout: BatchLayout, dtype: torch.dtype, scale: float | None = None, cap: float | None = None
    ) -> BatchAttention:
        return _TritonBatch(layout, dtype, scale, cap)


class _TritonBatch:
    def __init__(self, layout: BatchLayout, dtype: torch.dtype, scale: float | None, cap: float | None) -> None:
        self._decode: DecodeRows | None = layout.decode
        self._decode_rows = len(layout.decode.lengths) if layout.decode else 0
        self._lengths = torch.tensor(
            layout.decode.lengths if layout.decode else [], dtype=torch.int32, device=layout.slots.device
        )
        self._layout = layout
        self._dtype = dtype
        self._scale, self._cap = scale, cap
        self._spans: dict[int | None, list[Bucket]] = {}
        """By window; the layers that share one share its masks."""

    def __call__(self, query: Tensor, keys: PagedTensor, values: PagedTensor, window: int | None = None) -> Tensor:
        if window not in self._spans:
            self._spans[window] = prefill_buckets(self._layout, self._dtype, window)
        parts = []
        if self._decode is not None:
            rows = query[: self._decode_rows]
            parts.append(
                paged_decode(
                    rows,
                    keys.content,
                    values.content,
                    self._decode.tables,
                    self._lengths,
                    window,
                    scale=self._scale,
                    cap=self._cap,
                )
            )
        parts += [
            attend_bucket(span, query[span.rows], keys, values, self._scale, self._cap) for span in self._spans[window]
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)
