"""What a run's samples come to, within the window that is measured."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kvtop.load.driver import Tally
from kvtop.load.result import Distribution, Failed, Goodput, Rates, Request, distribution, distribution_of_sorted
from kvtop.load.sample import Failure, Sample

SLICES = 40


def window(tally: Tally) -> tuple[float, float]:
    """From the end of the warm-up to the end of sending; where all that was asked for has been answered, to its last answer."""
    measured = [sample for sample in tally.samples if not sample.warmup]
    begin = tally.limits.warmup_seconds
    if tally.limits.warmup_requests and measured:
        begin = max(begin, measured[0].due)
    end = tally.issued_until
    if tally.all_answered and measured:
        end = max((sample.done for sample in measured if sample.done is not None), default=end)
    return begin, max(end, begin)


def summarise(tally: Tally, bounds: Mapping[str, float]) -> dict[str, Any]:
    """The fields of a `LoadResult` that follow from the samples; ``bounds`` in seconds by names of
    `kvtop.load.sample.BOUNDS`."""
    begin, end = window(tally)
    measured = [sample for sample in tally.samples if not sample.warmup]
    sent = [sample for sample in measured if sample.sent is not None]
    finished = [sample for sample in measured if sample.ok]
    failed = [sample for sample in measured if not sample.ok and sample.failure is not Failure.UNFINISHED]
    return {
        "window": (begin, end),
        "stopped": tally.stopped,
        "counts": {
            "sent": len(sent),
            "finished": len(finished),
            "failed": len(failed),
            "unfinished": len(measured) - len(finished) - len(failed),
            "warmup": len(tally.samples) - len(measured),
            "overdue": tally.overdue,
        },
        "failures": _failures(failed),
        "finish_reasons": dict(
            Counter(sample.finish_reason for sample in finished if sample.finish_reason).most_common()
        ),
        "tokens_counted_by": counted_by(finished),
        "rates": _rates(tally.samples, measured, tally.overdue, begin, end),
        "ttft": _of(measured, "ttft"),
        "tpot": _of(finished, "tpot"),
        "gap": distribution_of_sorted(_sorted_gaps(measured)),
        "latency": _of(finished, "latency"),
        "lateness": _of(measured, "lateness"),
        "prompt": _of(finished, "prompt_tokens"),
        "output": _of(finished, "tokens"),
        "cached_share": _cached_share(finished),
        "goodput": _goodput(measured, finished, bounds, end - begin) if bounds else None,
        "most_open": tally.most_open,
        "slices": slices(tally.samples, begin, end),
        "requests": [_row(sample) for sample in measured],
    }


def tokens_within(sample: Sample, begin: float, end: float) -> float:
    """Its tokens that came within the window: each piece of text stands for as many as the others. The end of the window is
    often the last token of all, which belongs to it."""
    if not sample.tokens_at:
        return 0.0
    inside = len(_within(sample, begin, end))
    return sample.tokens * inside / len(sample.tokens_at)


def slices(samples: Sequence[Sample], begin: float, end: float, count: int = SLICES) -> list[float]:
    """Output tokens in ``count`` equal slices of the window; of all requests, those of the warm-up included."""
    found = np.zeros(count)
    for sample in samples if end > begin else ():
        inside = _within(sample, begin, end)
        if len(inside):
            places = np.minimum(count - 1, ((inside - begin) / (end - begin) * count).astype(np.intp))
            found += np.bincount(places, minlength=count) * (sample.tokens / len(sample.tokens_at))
    return [float(tokens) for tokens in found]


def _within(sample: Sample, begin: float, end: float) -> NDArray[np.float64]:
    """The times of its pieces from ``begin`` to ``end``, both included."""
    times = np.asarray(sample.tokens_at)
    return times[(times >= begin) & (times <= end)]


def _sorted_gaps(samples: Sequence[Sample]) -> NDArray[np.float64]:
    """Seconds between pieces of text that follow each other in one answer: eight bytes each, for there are as many as tokens."""
    found = np.empty(sum(max(0, len(sample.tokens_at) - 1) for sample in samples))
    filled = 0
    for sample in samples:
        gaps = np.diff(sample.tokens_at)
        found[filled : filled + len(gaps)] = gaps
        filled += len(gaps)
    found.sort()
    return found


def counted_by(samples: Sequence[Sample]) -> Literal["usage", "chunks", "both", "none"]:
    ways = {sample.output_tokens is not None for sample in samples}
    if len(ways) == 2:
        return "both"
    return "none" if not ways else "usage" if ways == {True} else "chunks"


def _of(samples: Sequence[Sample], name: str) -> Distribution:
    return distribution([value for sample in samples if (value := getattr(sample, name)) is not None])


def _rates(samples: Sequence[Sample], measured: Sequence[Sample], overdue: int, begin: float, end: float) -> Rates:
    seconds = end - begin

    def rate(amount: float) -> float:
        return amount / seconds if seconds > 0 else 0.0

    # Whatever ends within the window counts, begun in the warm-up or not: as much flows in at its start as out at its end.
    done = [sample for sample in samples if sample.ok and sample.done is not None and begin <= sample.done <= end]
    prompts = [sample.prompt_tokens for sample in done if sample.prompt_tokens is not None]
    return Rates(
        offered=rate(len(measured) + overdue),
        sent=rate(sum(sample.sent is not None for sample in measured)),
        finished=rate(len(done)),
        output_tokens=rate(sum(tokens_within(sample, begin, end) for sample in samples)),
        prompt_tokens=rate(sum(prompts)) if prompts else None,
    )


def _failures(failed: Sequence[Sample]) -> list[Failed]:
    kinds = Counter(sample.failure for sample in failed)
    return [
        Failed(kind=kind.value, count=kinds[kind], example=next(s.detail for s in failed if s.failure is kind))
        for kind in Failure
        if kinds[kind]
    ]


def _cached_share(finished: Sequence[Sample]) -> float | None:
    told = [sample for sample in finished if sample.cached_tokens is not None and sample.prompt_tokens]
    prompts = sum(sample.prompt_tokens or 0 for sample in told)
    return sum(sample.cached_tokens or 0 for sample in told) / prompts if prompts else None


def _goodput(
    measured: Sequence[Sample], finished: Sequence[Sample], bounds: Mapping[str, float], seconds: float
) -> Goodput:
    def within(sample: Sample) -> bool:
        # Of one token there is no time per token that could be too long.
        return all((value := getattr(sample, name)) is None or value <= bound for name, bound in bounds.items())

    met = sum(within(sample) for sample in finished)
    share = met / len(measured) if measured else 0.0
    return Goodput(bounds=dict(bounds), met=met, share=share, rate=met / seconds if seconds > 0 else 0.0)


def _row(sample: Sample) -> Request:
    return Request(
        index=sample.index,
        label=sample.label,
        session=sample.session,
        turn=sample.turn,
        due=sample.due,
        sent=sample.sent,
        ttft=sample.ttft,
        tpot=sample.tpot if sample.ok else None,
        latency=sample.latency,
        prompt_asked=sample.prompt_asked,
        prompt_tokens=sample.prompt_tokens,
        cached_tokens=sample.cached_tokens,
        output_asked=sample.output_asked,
        output_tokens=sample.tokens,
        finish_reason=sample.finish_reason,
        failure=None if sample.failure is None else sample.failure.value,
        detail=sample.detail,
    )
