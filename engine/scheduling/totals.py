"""What the scheduler has done since its start."""

from dataclasses import dataclass

from engine.requests.request import FinishReason


@dataclass(slots=True)
class Totals:
    """Meanings as in the protocol's Counters; evictions are counted by the pool."""

    admissions: int = 0
    preemptions: int = 0
    finished: int = 0
    aborted: int = 0
    errored: int = 0
    dropped_blocks: int = 0
    """Table entries given up because they slid out of every layer's window."""
    prefix_query_tokens: int = 0
    prefix_hit_tokens: int = 0
    recomputed_tokens: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0

    def count_end(self, reason: FinishReason | None) -> None:
        """A request ended."""
        if reason is FinishReason.ABORT:
            self.aborted += 1
        elif reason is FinishReason.ERROR:
            self.errored += 1
        else:
            self.finished += 1

    @property
    def ended(self) -> int:
        """Requests that ended, whatever the reason."""
        return self.finished + self.aborted + self.errored
