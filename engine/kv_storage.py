"""The memory of all blocks: the KV cache that the runner computes on, and the stores of the tiers below it."""

from collections.abc import Callable, Sequence

from torch import Tensor

from engine.kv_cache import KVCache, KVCacheError
from engine.kv_switch import KVSwitchError
from engine.paged_tensor import KVDtype, kv_dtype
from engine.runner import ModelRunner
from engine.tiers.mover import Mover
from engine.tiers.store import BlockStore, StoreError
from engine.tiers.tiers import Tiers

OpenStores = Callable[[Sequence[Tensor]], dict[int, BlockStore]]
"""Opens the tiers' stores over the parts of a cache, the device's own among them. Raises `StoreError`."""


class KVStorage:
    """Implements `engine.kv_switch.Storage`. ``open_stores``: given where there are ``tiers``."""

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
        """The old memory is given up first: there may not be room for both. A failure of the way back is the engine's
        end, and propagates as `KVCacheError` or `StoreError`."""
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
        # Not before the error is gone, which keeps alive what was made of the new memory.
        self._make(old, old.dtype)
        raise KVSwitchError(failure)

    def _make(self, like: KVCache, dtype: KVDtype) -> None:
        cache = like.anew(dtype)
        if self._tiers is not None and self._open_stores is not None:
            self._tiers.reopen(Mover(self._open_stores(cache.parts)))
        self._runner.cache = cache
