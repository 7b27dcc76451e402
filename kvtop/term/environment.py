"""What a process sets for the screen: Textual's environment before it is imported, the collector after mounting."""

import gc
import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import Final

DEFAULTS: Final[Mapping[str, str]] = {
    # Paints are spread over frames of 1/120 s: a key press is answered within 8 ms, and an idle screen costs nothing.
    "TEXTUAL_FPS": "120",
    # Animations and smooth scrolling flood a slow link with frames that nobody reads. Without smooth scrolling Textual
    # also uses SIGWINCH and cell coordinates, which multiplexers report correctly (pixel coordinates they do not).
    "TEXTUAL_ANIMATIONS": "none",
    "TEXTUAL_SMOOTH_SCROLL": "0",
}
"""Settings Textual reads while it is imported. What the user set stays."""


DEVELOPERS: Final = (
    "TEXTUAL",
    "TEXTUAL_ALLOW_SIGNALS",
    "TEXTUAL_COLOR_SYSTEM",
    "TEXTUAL_DEBUG",
    "TEXTUAL_DRIVER",
    "TEXTUAL_FILTERS",
    "TEXTUAL_LOG",
    "TEXTUAL_PRESS",
    "TEXTUAL_SCREENSHOT",
    "TEXTUAL_SHOW_RETURN",
    "TEXTUAL_THEME",
)
"""Switches for those who write a Textual program, which may still be set where another one was written. They press
keys by themselves, write logs, put another driver in the place of ours, and end the screen where they are mistaken."""


def prepare_environment(environ: MutableMapping[str, str] | None = None) -> None:
    """Sets `DEFAULTS` where the user has set nothing, and takes `DEVELOPERS` away.

    Call it before anything imports Textual.
    """
    target = os.environ if environ is None else environ
    for name in DEVELOPERS:
        target.pop(name, None)
    for name, value in DEFAULTS.items():
        target.setdefault(name, value)


SWITCH_S: Final = 0.001
"""Seconds that a thread with much to do (a keyframe, a snapshot) may keep the screen's thread waiting; Python itself takes 0.005."""


def share_interpreter() -> None:
    """Lets the screen's thread have its turn sooner. For a program that is a screen and nothing else."""
    sys.setswitchinterval(SWITCH_S)


def settle_gc() -> None:
    """Takes what exists now out of the garbage collector's sight and makes collections rare.

    A mounted widget tree is tens of thousands of objects that live until the end; without this every collection walks
    them, about a third of the screen's CPU time. Call it once, after the first paint.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
