"""Several iteration frames as one, for a viewer that wants or manages fewer. Pixels are lost, facts are not."""

from collections.abc import Sequence

from kvtop.protocol.frames import Counters, Durations, Gauges, IterationFrame, RequestChange


def _set_fields(change: RequestChange) -> dict[str, object]:
    return {name: value for name in RequestChange.model_fields if (value := getattr(change, name)) is not None}


def merge_request(old: RequestChange, new: RequestChange) -> RequestChange:
    """The change that has the effect of ``old`` then ``new`` on any earlier state of the request."""
    fields = _set_fields(old) | _set_fields(new)
    if new.table_at is not None:
        fields["table"] = new.table or []
        if old.table_at is not None and new.table_at >= old.table_at:
            fields["table_at"] = old.table_at
            fields["table"] = (old.table or [])[: new.table_at - old.table_at] + (new.table or [])
    return RequestChange.model_construct(**fields)  # type: ignore[arg-type]


def merge_frames(frames: Sequence[IterationFrame]) -> IterationFrame:
    """One frame with the effect of ``frames`` (one or more, consecutive, in order)."""
    if len(frames) == 1:
        return frames[0]
    last = frames[-1]
    requests: dict[int, RequestChange] = {}
    blocks, hashes, forgotten, events, traffic = [], [], [], [], []
    gauges: dict[str, object] = {}
    counters: dict[str, object] = {}
    policy = status = queue = policy_id = None
    for frame in frames:
        blocks += frame.blocks
        hashes += frame.hashes
        forgotten += frame.forgotten
        events += frame.events
        traffic += frame.traffic
        for change in frame.requests:
            known = requests.get(change.num)
            requests[change.num] = change if known is None else merge_request(known, change)
        policy = frame.policy if frame.policy is not None else policy
        policy_id = frame.policy_id if frame.policy_id is not None else policy_id
        status = frame.status or status
        queue = frame.queue or queue
        if frame.gauges is not None:
            gauges |= {k: v for k, v in frame.gauges if v is not None}
        if frame.counters is not None:
            counters |= {k: v for k, v in frame.counters if v is not None}
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
            "durations": Durations.model_construct(
                **{name: sum(getattr(f.durations, name) for f in frames) for name in Durations.model_fields}
            ),
            "batch": batch,
            "policy": policy,
            "policy_id": policy_id,
            "status": status,
            "queue": queue,
            "blocks": blocks,
            "hashes": hashes,
            "requests": list(requests.values()),
            "forgotten": forgotten,
            "events": events,
            "traffic": traffic,
            "gauges": Gauges.model_construct(**gauges) if gauges else None,  # type: ignore[arg-type]
            "counters": Counters.model_construct(**counters) if counters else None,  # type: ignore[arg-type]
        }
    )
