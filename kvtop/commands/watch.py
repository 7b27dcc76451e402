"""Watching an engine without a screen for a bounded time: what snapshots, ``ls`` and ``demo --once`` share."""

import time
from collections.abc import Callable, Sequence

from kvtop.alarms import Settings
from kvtop.app.feed import Feed
from kvtop.errors import UserError, one_line
from kvtop.sources.base import Source
from kvtop.state import EngineState

_TICK = 0.02
ANSWER_WITHIN = 30.0
"""Seconds an engine may take to send its first keyframe; between two iterations of a large model it is silent."""


CATCH_UP = 0.5
"""Seconds after the first keyframe, which may be some seconds old, for the frames that followed it to arrive."""


def heard(state: EngineState) -> bool:
    """Whether a keyframe has come."""
    return state.hello is not None and state.mono is not None


def watch(
    source: Source,
    seconds: float,
    *,
    keep_going: Callable[[], bool] = lambda: True,
    answer_within: float = ANSWER_WITHIN,
    thresholds: Settings | None = None,
) -> Feed:
    """What an engine does for ``seconds`` from its first keyframe on, with the alarms in it. Closes the source.

    ``thresholds``: of the alarms.

    Ends earlier when ``keep_going`` says so. Raises `UserError` where no keyframe came within ``answer_within`` seconds,
    or where the link fails for good.
    """
    feed = Feed(source, settings=thresholds)
    state = feed.live
    source.start()
    try:
        now = time.monotonic()
        patience, until = now + answer_within, None
        while keep_going():
            feed.drain(now)
            if until is None and heard(state):
                until = now + seconds
            if until is None:
                trouble = one_line(state.link.reason or "it sent no keyframe")
                if not state.link.up and state.link.reason and not state.link.retrying:
                    raise UserError(f"{source.title}: {trouble}")
                if now >= patience:
                    raise UserError(f"no answer from {source.title} within {answer_within:g} s: {trouble}")
            elif now >= until:
                break
            time.sleep(_TICK)
            now = time.monotonic()
    finally:
        source.close()
    return feed


def glance(sources: Sequence[Source], within: float) -> list[EngineState]:
    """How the engine of each source is now, all awaited at once; one that did not answer in time is not `heard`."""
    feeds = [Feed(source) for source in sources]
    for source in sources:
        source.start()
    try:
        until = time.monotonic() + within
        complete = False
        while (now := time.monotonic()) < until:
            for feed in feeds:
                feed.drain(now)
            if not complete and all(heard(feed.live) for feed in feeds):
                complete, until = True, now + CATCH_UP
            time.sleep(_TICK)
    finally:
        for source in sources:
            source.close()
    return [feed.live for feed in feeds]
