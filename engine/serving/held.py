"""Iterations that are told together with a later one, while only the flight recorder listens."""

from kvtop.protocol import Batch, Durations

_PARTS = tuple(Durations.model_fields)


class Held:
    """What a merged frame sums: durations, and tokens of the batches. All else it tells as of its end."""

    __slots__ = ("_batch", "_durations", "count")

    def __init__(self) -> None:
        self.count = 0
        """Iterations."""
        self._durations = dict.fromkeys(_PARTS, 0.0)
        self._batch: Batch | None = None

    def add(self, durations: Durations, batch: Batch) -> None:
        self.count += 1
        self._durations = self._summed(durations)
        self._batch = self.batch_with(batch)

    def durations_with(self, last: Durations) -> Durations:
        """All of them and the last one."""
        return Durations.trusted(dict(self._summed(last)))

    def batch_with(self, last: Batch | None) -> Batch | None:
        """Tokens of all of them and the last one, requests of the latest that ran."""
        if last is None or self._batch is None:
            return last or self._batch
        tokens = {
            "prefill_tokens": self._batch.prefill_tokens + last.prefill_tokens,
            "decode_tokens": self._batch.decode_tokens + last.decode_tokens,
        }
        return last.model_copy(update=tokens)

    def _summed(self, last: Durations) -> dict[str, float]:
        return {name: so_far + (getattr(last, name) or 0.0) for name, so_far in self._durations.items()}
