"""Runs one batch on the model: implements `engine.requests.batch.Runner`."""

import time
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch

from engine.memory.window import first_seen
from engine.model.attention.base import AttentionBackend, lay_out_groups
from engine.model.decoder import Decoder
from engine.model.draw import draw_for
from engine.model.kv_cache import KVCache
from engine.model.ranking import likeliest
from engine.model.sampler import Sampler
from engine.requests.batch import BatchItem, BlockCopy, DeviceLost, StepOutput


class ModelRunner:
    """A model, its KV cache, an attention backend and a sampler. Knows requests by their tokens and tables only."""

    def __init__(
        self, decoder: Decoder, cache: KVCache, attention: AttentionBackend, *, seed: int | None = None
    ) -> None:
        """``seed`` serves the requests that bring none; drawn by chance when None."""
        self.decoder = decoder
        self.cache = cache
        self.attention = attention
        self.sampler = Sampler(seed)

    def run(self, items: Sequence[BatchItem], copies: Sequence[BlockCopy] = ()) -> StepOutput:
        """Copy the blocks, then write the KV of every item and sample where asked.

        Rows whose logits are no numbers are told as failures. Raises ValueError for an item outside its block table, its
        known tokens or the model's context, and for a copy outside the pool, before anything is written; and
        `engine.requests.batch.DeviceLost` when the accelerator fails.
        """
        try:
            return self._run(items, copies)
        except torch.AcceleratorError as error:
            raise DeviceLost(str(error)) from error

    def _run(self, items: Sequence[BatchItem], copies: Sequence[BlockCopy]) -> StepOutput:
        began = time.perf_counter()
        self._check(items)
        if not items:
            self.cache.copy_blocks([(copy.source, copy.target) for copy in copies])
            return StepOutput([], prepare_ms=(time.perf_counter() - began) * 1e3)
        device = self.decoder.device
        layouts = lay_out_groups(items, self.cache.block_size, device, len(self.decoder.groups))
        tokens = np.concatenate([self._tokens(items[i]) for i in layouts[0].order])
        self.cache.copy_blocks([(copy.source, copy.target) for copy in copies])
        inputs = torch.from_numpy(tokens).to(device)
        prepared = time.perf_counter()
        logits = self.decoder.forward(inputs, layouts, self.cache, self.attention)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        computed = time.perf_counter()
        firsts = [*accumulate((len(item.rows) for item in items), initial=0)]
        beams = [(row, item) for row, item in zip(firsts, items, strict=False) if item.candidates]
        # Proposed tokens each have a row of their own; samples of one prompt all draw from one.
        wanted = [
            (first + place * bool(item.proposed), place * bool(item.proposed), item, each)
            for first, item in zip(firsts, items, strict=False)
            for place, each in enumerate(item.drawing)
        ]
        rows = [row for row, _, _, _ in wanted]
        draws = [draw_for(item, each, place) for _, place, item, each in wanted]
        sampled = self.sampler.sample(logits if rows == list(range(len(logits))) else logits[rows], draws)
        candidates = likeliest(logits[[row for row, _ in beams]], [item.candidates for _, item in beams])
        failures = {
            draw.request: f"the logits at position {draw.position} are not finite numbers"
            for draw, bad in zip(draws, sampled.bad, strict=True)
            if bad
        }
        failures |= {
            item.request.num: f"the logits at position {item.start + item.count} are not finite numbers"
            for (_, item), found in zip(beams, candidates, strict=True)
            if found is None
        }
        return StepOutput(
            sampled.tokens,
            (computed - prepared) * 1e3,
            (time.perf_counter() - computed) * 1e3,
            [found or [] for found in candidates],
            prepare_ms=(prepared - began) * 1e3,
            failures=failures,
            logprobs=sampled.logprobs,
        )

    def _check(self, items: Sequence[BatchItem]) -> None:
        context = self.decoder.config.context
        for item in items:
            request, end = item.request, item.start + item.count
            if item.start + item.known > (known := len(request.token_ids)):
                raise ValueError(f"request {request.id}: asked for {item.start + item.known} tokens, {known} are known")
            if end > context:
                raise ValueError(f"request {request.id}: position {end - 1} is outside the context of {context} tokens")
            if max(request.block_table, default=0) >= self.cache.blocks:
                raise ValueError(f"request {request.id}: its block table names a block outside the pool")
            groups = self.decoder.groups
            for group, window in enumerate(groups.windows):
                needed = first_seen(window, item.start)
                first = needed // self.cache.block_size * len(groups) + group
                if min(request.block_table[first :: len(groups)], default=0) < 0:
                    raise ValueError(f"request {request.id}: position {needed} is seen, but its block was dropped")

    def _tokens(self, item: BatchItem) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        tokens = np.asarray(item.token_ids, dtype=np.int64)
        vocab = self.decoder.config.vocab
        if tokens.min() < 0 or tokens.max() >= vocab:
            strange = int(tokens[(tokens < 0) | (tokens >= vocab)][0])
            raise ValueError(f"request {item.request.id}: token {strange} is not in the vocabulary of {vocab}")
        return tokens
