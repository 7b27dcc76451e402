"""Several iteration frames as one, for a viewer that wants or manages fewer. Pixels are lost, facts are not."""

from collections.abc import Sequence
from typing import Any, Final

from kvtop.protocol.base import Message
from kvtop.protocol.frames import Counters, Durations, Gauges, IterationFrame, RequestChange, TierLevel

# Copies of these cost a tenth of what building the messages costs.
_NO_CHANGE = RequestChange(num=0)
_NO_DURATIONS = Durations()
_NO_GAUGES = Gauges()
_NO_COUNTERS = Counters()


def _set_fields(part: Message) -> dict[str, Any]:
    return {name: value for name, value in vars(part).items() if value is not None}


_APPENDED: Final[tuple[tuple[str, str, Any], ...]] = (
    ("table_at", "table", []),
    ("text_ends_at", "text_ends", []),
    ("output_at", "output_more", ""),
)
"""Where what is kept is cut, what is appended then, and nothing of that."""


def _add(fields: dict[str, Any], new: RequestChange) -> None:
    """Make ``fields``, those of an earlier change, have the effect of that change and then ``new``."""
    if new.output_text is not None:
        # All of it: what came before is of no matter.
        fields.pop("output_at", None)
        fields.pop("output_more", None)
    before = {at: (fields.get(at), fields.get(more)) for at, more, _ in _APPENDED}
    fields |= _set_fields(new)
    for at, more, nothing in _APPENDED:
        (old_at, old), new_at = before[at], getattr(new, at)
        if new_at is None:
            continue
        fields[more] = getattr(new, more) or nothing
        if old_at is not None and new_at >= old_at:
            fields[at] = old_at
            fields[more] = (old or nothing)[: new_at - old_at] + fields[more]


def merge_request(old: RequestChange, new: RequestChange) -> RequestChange:
    """The change that has the effect of ``old`` then ``new`` on any earlier state of the request."""
    fields = _set_fields(old)
    _add(fields, new)
    return _NO_CHANGE.model_copy(update=fields)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def merge_frames(frames: Sequence[IterationFrame]) -> IterationFrame:
    """One frame with the effect of ``frames`` (one or more, consecutive, in order)."""
    if len(frames) == 1:
        return frames[0]
    last = frames[-1]
    requests: dict[int, dict[str, Any]] = {}
    blocks, hashes, forgotten, events, traffic = [], [], [], [], []
    gauges: dict[str, Any] = {}
    counters: dict[str, Any] = {}
    policy = status = geometry = queue = policy_id = None
    tiers: list[TierLevel] = []
    for frame in frames:
        blocks += frame.blocks
        hashes += frame.hashes
        forgotten += frame.forgotten
        events += frame.events
        traffic += frame.traffic
        for change in frame.requests:
            # Fields in the making, since building a message for each step would be most of the work.
            known = requests.get(change.num)
            if known is None:
                requests[change.num] = _set_fields(change)
            else:
                _add(known, change)
        policy = frame.policy if frame.policy is not None else policy
        policy_id = frame.policy_id if frame.policy_id is not None else policy_id
        status = frame.status or status
        geometry = frame.geometry or geometry
        queue = frame.queue or queue
        tiers = frame.tiers or tiers
        if frame.gauges is not None:
            gauges |= _set_fields(frame.gauges)
        if frame.counters is not None:
            counters |= _set_fields(frame.counters)
    batches = [frame.batch for frame in frames if frame.batch is not None]
    batch = None
    if batches:
        batch = batches[-1].model_copy(
            update={
                "prefill_tokens": sum(b.prefill_tokens for b in batches),
                "decode_tokens": sum(b.decode_tokens for b in batches),
            }
        )
    return last.model_copy(
        update={
            "merged": sum(frame.merged for frame in frames),
            "durations": _NO_DURATIONS.model_copy(
                update={name: _sum([getattr(f.durations, name) for f in frames]) for name in Durations.model_fields}
            ),
            "batch": batch,
            "policy": policy,
            "policy_id": policy_id,
            "status": status,
            "geometry": geometry,
            "queue": queue,
            "blocks": blocks,
            "hashes": hashes,
            "requests": [_NO_CHANGE.model_copy(update=fields) for fields in requests.values()],
            "forgotten": forgotten,
            "events": events,
            "traffic": traffic,
            "tiers": tiers,
            "gauges": _NO_GAUGES.model_copy(update=gauges) if gauges else None,
            "counters": _NO_COUNTERS.model_copy(update=counters) if counters else None,
        }
    )
