"""Serving over memory that is full of poison: before each batch all but its requests' own tokens is NaN, infinite or
as large as can be, in the device's blocks and in every slot below that nobody uses.
"""

import copy
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.core import Engine
from engine.kv_storage import KVStorage
from engine.memory.blocks import FREE
from engine.memory.pool import BlockPool
from engine.memory.window import first_seen
from engine.model.attention import AttentionBackend
from engine.model.load import LoadedModel
from engine.model.runner import ModelRunner
from engine.policies.policy_set import PolicySet
from engine.requests.batch import BatchItem, BlockCopy, StepOutput
from engine.requests.request import Request
from engine.scheduling.scheduler import Scheduler
from engine.tiers import books
from engine.tiers.books import TierBooks
from engine.tiers.host import HostStore
from engine.tiers.mover import Copy, CopyResult, Mover
from engine.tiers.opening import open_stores
from engine.tiers.store import BlockStore
from engine.tiers.tiers import Tiers
from tests.engine.served import make_runner

BLOCK = 8

EIGHTS = (0x7F, 0xFF, 0x7E, 0xFE)
"""fp8_e4m3: NaN of either sign, and the largest magnitudes. It has no infinity."""


class PromptMover(Mover):
    """Copies without a thread, so that runs can be compared: as soon as it may (at once), or as late as it can (when it is
    asked what ended)."""

    def __init__(self, stores: dict[int, BlockStore], *, at_once: bool) -> None:
        super().__init__(stores)
        self._at_once = at_once
        self._left: deque[Copy] = deque()
        self._ended: list[CopyResult] = []

    @property
    def room(self) -> int:
        return self._limit - len(self._left) - len(self._ended)

    def submit(self, copy: Copy) -> None:
        self._left.append(copy)
        if self._at_once:
            self._go_on()

    def poll(self) -> list[CopyResult]:
        self._go_on()
        ended, self._ended = self._ended, []
        return ended

    def wait(self, seconds: float) -> bool:
        self._go_on()
        return bool(self._ended)

    def _go_on(self) -> None:
        while self._left:
            self._ended.append(self._copy(self._left.popleft()))


class PoisonedRunner(ModelRunner):
    """Poisons before each batch what its items do not own, and puts back afterwards what others own: their blocks, the
    prefix cache. What nobody owns stays poisoned, so that it is copied about and found in blocks that are taken anew.

    ``logits``: of every batch, to be compared. ``poisons``: without them it only keeps the logits. ``expected``: outputs by
    num, of which the next token is proposed, and a wrong one behind it.
    """

    def __init__(
        self,
        runner: ModelRunner,
        pool: BlockPool,
        *,
        poisons: bool,
        seed: int = 0,
        expected: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        decoder = copy.copy(runner.decoder)
        super().__init__(decoder, runner.cache, runner.attention, seed=seed)
        self.logits: list[Tensor] = []
        self.poisoned = 0
        self.accepted = 0
        self._pool, self._poisons, self._expected = pool, poisons, expected or {}
        self._draw = torch.Generator().manual_seed(seed)
        forward = decoder.forward

        def recorded(*args: Any) -> Tensor:
            logits = forward(*args)
            self.logits.append(logits.clone())
            return logits

        decoder.forward = recorded  # type: ignore[method-assign]

    def run(self, items: Sequence[BatchItem], copies: Sequence[BlockCopy] = ()) -> StepOutput:
        if not self._poisons:
            return self._propose(items, super().run(items, copies))
        kept = [part.clone() for part in self.cache.parts]
        read, written = self._slots(), self._slots()
        for each in copies:
            read[each.source, : each.tokens] = True
            written[each.target] = True
        for item in items:
            self._mark(read, item, None, item.start)
            self._mark(written, item, item.start, item.start + item.count)
        self._poison(~read)
        output = super().run(items, copies)
        self._restore(self._held() & ~read & ~written, kept)
        return self._propose(items, output)

    def _propose(self, items: Sequence[BatchItem], output: StepOutput) -> StepOutput:
        proposed, tokens = {}, iter(output.tokens)
        for item in items:
            sampled = [next(tokens) for _ in range(item.draws)]
            if not sampled or item.request.num not in self._expected:
                continue
            right = sum(
                1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(sampled, item.proposed, strict=False))
            )
            self.accepted += right
            known = item.start + item.known + right + 1 - item.request.prompt_tokens
            ahead = list(self._expected[item.request.num][known : known + 2])
            proposed[item.request.num] = [token + place for place, token in enumerate(ahead)]
        return replace(output, proposed=proposed)

    def _slots(self) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        return np.zeros((self.cache.blocks, self.cache.block_size), np.bool_)

    def _mark(self, slots: "np.ndarray[Any, np.dtype[np.bool_]]", item: BatchItem, start: int | None, end: int) -> None:
        """Positions ``start … end-1`` of an item; from the first that it sees, where ``start`` is None."""
        size, groups = self.cache.block_size, self.decoder.groups
        for group, window in enumerate(groups.windows):
            for position in range(first_seen(window, item.start) if start is None else start, end):
                slots[item.request.block_table[position // size * len(groups) + group], position % size] = True

    def _held(self) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Slots with content that somebody may yet want."""
        pool = self._pool
        filled = np.arange(pool.block_size) < np.asarray(pool.fill)[:, None]
        arriving = np.asarray(pool.incoming, dtype=np.bool_)[:, None]
        return (np.asarray(pool.state) != FREE)[:, None] & (filled | arriving)

    def _poison(self, slots: "np.ndarray[Any, np.dtype[np.bool_]]") -> None:
        self.poisoned += int(slots.sum())
        where = torch.from_numpy(slots)
        for part in self.cache.parts:
            fill_with_poison(part, where, self._draw)

    def _restore(self, slots: "np.ndarray[Any, np.dtype[np.bool_]]", kept: list[Tensor]) -> None:
        where = torch.from_numpy(slots)
        for part, before in zip(self.cache.parts, kept, strict=True):
            part.view(torch.uint8)[:, :, where] = before.view(torch.uint8)[:, :, where]


def fill_with_poison(part: Tensor, where: Tensor, draw: torch.Generator) -> None:
    """``part``: ``[layers, 2, blocks, block_size, …]``; ``where``: ``[blocks, block_size]``. Each slot gets one poison."""
    memory = part.view(torch.uint8) if part.dtype.itemsize == 1 else part
    if part.dtype == torch.float8_e4m3fn:
        poisons = torch.tensor(EIGHTS, dtype=torch.uint8)
    elif part.dtype == torch.int8:
        poisons = torch.tensor([127, 129], dtype=torch.uint8)  # 129 is -127
    else:
        largest = torch.finfo(part.dtype).max
        poisons = torch.tensor([torch.nan, torch.inf, -torch.inf, largest, -largest], dtype=part.dtype)
    # Boolean indexing makes one dimension of two; what follows it are heads (and elements).
    shape = (*part.shape[:2], int(where.sum()))
    chosen = poisons[torch.randint(len(poisons), shape, generator=draw)]
    memory[:, :, where] = chosen.view(*shape, *[1] * (part.dim() - 4)).expand(*shape, *part.shape[4:])


@dataclass
class Served:
    """``logits`` of every batch; ``outputs`` by num. The rest counts what happened."""

    logits: list[Tensor]
    outputs: dict[int, list[int]]
    preemptions: int = 0
    copies: int = 0
    loads: int = 0
    accepted: int = 0
    kinds: set[str] = field(default_factory=set)


def serve(
    model: LoadedModel,
    work: Sequence[Request],
    policies: dict[str, Any],
    *,
    poisons: bool,
    dtype: str,
    blocks: int,
    attention: AttentionBackend | None = None,
    folder: Path | None = None,
    at_once: bool = True,
    expected: Mapping[int, Sequence[int]] | None = None,
) -> Served:
    """Serve ``work`` to its end; with host and disk tiers where there is a ``folder``. ``blocks`` for every KV group."""
    blocks *= len(model.decoder.groups)
    plain = make_runner(model, blocks=blocks, block_size=BLOCK, attention=attention, cache_dtype=dtype)
    pool = BlockPool(blocks, BLOCK, windows=model.decoder.groups.windows)
    runner = PoisonedRunner(plain, pool, poisons=poisons, expected=expected)
    tiers, opening = None, None
    if folder is not None:
        opening = partial(open_stores, host_blocks=blocks // 2, disk_blocks=blocks, disk_path=folder / "kv")
        stores = opening(runner.cache.parts)
        below = [TierBooks(tier, store.name, store.slots) for tier, store in stores.items() if tier]
        tiers = Tiers(pool, below, PromptMover(stores, at_once=at_once))
    scheduler = Scheduler(
        pool, PolicySet.of({"max_running": 8, "kv_dtype": dtype} | policies), max_model_len=512, tiers=tiers
    )
    engine = Engine(scheduler, runner, storage=KVStorage(runner, tiers=tiers, open_stores=opening))
    everyone = [each for request in work for each in (request, *request.samples)]
    served = Served(runner.logits, {})
    now = iter(range(100_000))
    engine.clock = lambda: float(next(now))
    for request in work:
        scheduler.add(request, engine.clock())
    try:
        while scheduler.requests:
            if poisons and tiers is not None:
                _poison_unused_slots(tiers)
            step = engine.step()
            if step is not None:
                served.preemptions += len(step.plan.preempted)
                served.copies += len(step.plan.copies)
        if tiers is not None:
            served.loads = sum(level.blocks_out for level in tiers.levels[1:])
            served.kinds = {news.kind for news in tiers.news}
    finally:
        if tiers is not None:
            tiers.close()
    served.accepted = runner.accepted
    served.outputs = {request.num: request.token_ids[request.prompt_tokens :] for request in everyone}
    return served


def _poison_unused_slots(tiers: Tiers) -> None:
    """All bytes of the host's free slots: of whatever type, 0xff is NaN or -1."""
    for below, store in zip(tiers.books, list(tiers.mover._stores.values())[1:], strict=True):  # type: ignore[attr-defined]
        if isinstance(store, HostStore):
            store._rows[torch.from_numpy(below.state == books.FREE)] = 0xFF
