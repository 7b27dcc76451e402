"""What a viewer knows about an engine: the fold of its frames, and what follows from them."""

from kvtop.state.block_arrays import MAX_BLOCKS, BlockArrays
from kvtop.state.changes import Changes, LogEntry, Marker
from kvtop.state.engine_state import EngineState, Link, Timing
from kvtop.state.percentiles import Latencies, Summary
from kvtop.state.rates import Rates
from kvtop.state.request_row import RequestRow
from kvtop.state.request_table import RequestTable

__all__ = [
    "MAX_BLOCKS",
    "BlockArrays",
    "Changes",
    "EngineState",
    "Latencies",
    "Link",
    "LogEntry",
    "Marker",
    "Rates",
    "RequestRow",
    "RequestTable",
    "Summary",
    "Timing",
]
