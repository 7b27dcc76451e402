"""Watching an engine without a screen for a bounded time: what snapshots, ``ls`` and ``demo --once`` share."""

import time
from collections.abc import Callable, Sequence

from kvtop.errors import UserError, one_line
from kvtop.sources.base import Item, LinkDown, LinkUp, Source
from kvtop.state import EngineState

_TICK = 0.02
ANSWER_WITHIN = 10.0
"""Seconds an engine may take to send its first keyframe; between two iterations of a large model it is silent."""


def feed(state: EngineState, item: Item, now: float) -> None:
    """Gives a source's item to the state; ``now`` is the viewer's monotonic clock."""
    if isinstance(item, LinkUp):
        state.link_up(now)
    elif isinstance(item, LinkDown):
        state.link_down(item.reason, item.retrying, now)
    else:
        state.apply(item, now)


def heard(state: EngineState) -> bool:
    """Whether a keyframe has come."""
    return state.hello is not None and state.mono is not None


def watch(
    source: Source,
    seconds: float,
    *,
    keep_going: Callable[[], bool] = lambda: True,
    answer_within: float = ANSWER_WITHIN,
) -> EngineState:
    """What an engine does for ``seconds`` from its first keyframe on. Closes the source.

    Ends earlier when ``keep_going`` says so. Raises `UserError` where no keyframe came within ``answer_within`` seconds,
    or where the link fails for good.
    """
    state = EngineState()
    source.start()
    try:
        now = time.monotonic()
        patience, until = now + answer_within, None
        trouble = "it sent no keyframe"
        while keep_going():
            for item in source.poll():
                feed(state, item, now)
                if isinstance(item, LinkDown):
                    trouble = item.reason
                    if not item.retrying:
                        raise UserError(f"{source.title}: {one_line(trouble)}")
            if until is None and heard(state):
                until = now + seconds
            if until is None and now >= patience:
                raise UserError(f"no answer from {source.title} within {answer_within:g} s: {one_line(trouble)}")
            if until is not None and now >= until:
                break
            time.sleep(_TICK)
            now = time.monotonic()
    finally:
        source.close()
    return state


def glance(sources: Sequence[Source], within: float) -> list[EngineState]:
    """The first keyframe of each source, all awaited at once; see `heard`."""
    states = [EngineState() for _ in sources]
    for source in sources:
        source.start()
    try:
        until = time.monotonic() + within
        while (now := time.monotonic()) < until and not all(heard(state) for state in states):
            for source, state in zip(sources, states, strict=True):
                for item in source.poll():
                    feed(state, item, now)
            time.sleep(_TICK)
    finally:
        for source in sources:
            source.close()
    return states
