"""The memory of all blocks: the KV cache that the runner computes on, and the stores of the tiers below it."""

from collections.abc import Callable, Sequence

from torch import Tensor

from engine.model.kv_cache import KVCache, KVCacheError
from engine.model.paged_tensor import KVDtype, kv_dtype
from engine.model.runner import ModelRunner
from engine.scheduling.kv_switch import KVSwitchError
from engine.tiers.device import DeviceStore
from engine.tiers.mover import Mover
from engine.tiers.shut import ShutStore
from engine.tiers.store import BlockStore, StoreError
from engine.tiers.tiers import Tiers

OpenStores = Callable[[Sequence[Tensor]], dict[int, BlockStore]]
"""Opens the tiers' stores over the parts of a cache, the device's own among them. Raises `StoreError`."""


class KVStorage:
    """Implements `engine.scheduling.kv_switch.Storage`. ``open_stores``: given where there are ``tiers``."""

    def __init__(
        self, runner: ModelRunner, *, tiers: Tiers | None = None, open_stores: OpenStores | None = None
    ) -> None:
        self._runner = runner
        self._tiers = tiers
        self._open_stores = open_stores

    @property
    def bytes_per_token(self) -> int:
        return self._runner.cache.bytes_per_token

    def switch(self, kv_dtype_name: str) -> None:
        """The old memory is given up first: there may not be room for both.

        Tiers that cannot be had even for the old type are shut: the engine serves on without them. That the cache itself
        cannot be had again is the engine's end, and propagates as `KVCacheError`. Raises `KVSwitchError` where the new type
        cannot be had and the old one is back.
        """
        old = self._runner.cache
        if self._tiers is not None:
            self._tiers.close()
        old.release()
        try:
            self._make(old, kv_dtype(kv_dtype_name))
        except (KVCacheError, StoreError) as error:
            failure = str(error)
        else:
            return
        # Never before an error is gone, which keeps alive what was made of the new memory.
        shut = None
        try:
            self._make(old, old.dtype)
        except StoreError as error:
            shut = str(error)
        if shut is not None:
            self._make(old, old.dtype, shut=shut)
            failure += f"; the tiers below are shut, until a switch that finds room for them: {shut}"
        raise KVSwitchError(failure)

    def _make(self, like: KVCache, dtype: KVDtype, *, shut: str | None = None) -> None:
        """``shut``: why there are no stores for the lower tiers."""
        cache = like.anew(dtype)
        if self._tiers is not None and self._open_stores is not None:
            stores = self._open_stores(cache.parts) if shut is None else _shut_stores(self._tiers, cache, shut)
            self._tiers.reopen(Mover(stores))
        self._runner.cache = cache


def _shut_stores(tiers: Tiers, cache: KVCache, why: str) -> dict[int, BlockStore]:
    device = DeviceStore(cache.parts)
    below = {books.tier: ShutStore(books.name, books.slots, device.block_bytes, why) for books in tiers.books}
    return {0: device, **below}
