"""The device's blocks as a store: what the mover copies from and to while the model runs on other blocks."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from engine.tiers.fence import Fences, nothing_queued


class DeviceStore:
    """Blocks of a KV cache, each as one row of bytes: its share of every part, one after the other.

    ``parts``: tensors ``[layers, 2, blocks, …]`` (`KVCache.parts`). On the CPU the copies are plain ones. On CUDA they
    run on a stream of their own and are waited for in the mover's thread, which first waits for each copy's fence: that
    is all the order there is with the model's own stream.
    """

    name = "device"

    def __init__(self, parts: Sequence[Tensor]) -> None:
        self._parts = [_bytes_of(part) for part in parts]
        self._sizes = [part[:, :, 0].numel() for part in self._parts]
        self._device = parts[0].device
        self.slots = parts[0].shape[2]
        self.block_bytes = sum(self._sizes)
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def read(self, slot: int, generation: int = 0) -> Tensor:
        with torch.cuda.stream(self._stream):
            shares = [part[:, :, slot].reshape(-1) for part in self._parts]
            data = torch.cat(shares).to("cpu", non_blocking=True)
        if self._stream is not None:
            self._stream.synchronize()
        return data

    def write(self, slot: int, generation: int, data: Tensor) -> None:
        with torch.cuda.stream(self._stream):
            arrived, start = data.to(self._device, non_blocking=True), 0
            for part, size in zip(self._parts, self._sizes, strict=True):
                target = part[:, :, slot]
                target.copy_(arrived[start : start + size].view(target.shape))
                start += size
        if self._stream is not None:
            self._stream.synchronize()

    def close(self) -> None:
        self._parts = []


def _bytes_of(part: Tensor) -> Tensor:
    """The same memory as bytes ``[layers, 2, blocks, bytes of a block]``: a block's share of one layer is contiguous."""
    return part.view(torch.uint8).flatten(3)


class _StreamFence:
    """An event on the stream that the calling thread queues on."""

    def __init__(self, device: torch.device) -> None:
        self._event = torch.cuda.current_stream(device).record_event()

    def wait(self) -> None:
        self._event.synchronize()


def fences_on(device: torch.device) -> Fences:
    """For whoever copies blocks of a cache that lies there."""
    return partial(_StreamFence, device) if device.type == "cuda" else nothing_queued
