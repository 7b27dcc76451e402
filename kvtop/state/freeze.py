"""A copy of the state that stands still while the engine goes on: what a viewer holds on to."""

import copy
from collections import deque

from kvtop.state.engine_state import EngineState
from kvtop.state.event_log import EventLog


def frozen(state: EngineState, now: float) -> EngineState:
    """``state`` as it is at ``now`` (viewer's clock): later frames do not reach it, its running times stand still.

    Messages are immutable and shared; arrays and containers are copied, rows when they change (see `RequestTable`).
    """
    still = copy.copy(state)
    for name, value in vars(state).items():
        if isinstance(value, dict | deque | EventLog) and value is not state.requests:
            setattr(still, name, value.copy())
    if state.blocks is not None:
        still.blocks = copy.deepcopy(state.blocks)
    if state.requests is not None:
        still.requests = state.requests.held_still()
    still.rates, still.latencies = copy.deepcopy((state.rates, state.latencies))
    still.tier_rates = copy.deepcopy(state.tier_rates)
    still.history, still.refusals = state.history.copy(), state.refusals.copy()
    still.policies = state.policies.copy()
    still.hold(now)
    return still
