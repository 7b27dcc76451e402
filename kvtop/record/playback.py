"""How a recording is being played."""

from math import inf
from typing import NamedTuple

SLOWEST, FASTEST = 0.1, 100.0
UNBOUNDED = inf
"""As fast as it goes."""


class Playback(NamedTuple):
    """``speed``: recorded seconds in one second; `UNBOUNDED`: as fast as it goes."""

    speed: float = 1.0
    paused: bool = False
    ended: bool = False
    """All of the recording has been shown; if it is still being written, it goes on."""
