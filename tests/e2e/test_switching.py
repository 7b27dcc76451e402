"""Policies switched on the screen while the engine serves: what the dialog announces is what the panels then show."""

import re
from collections.abc import Callable

import pytest

from tests.e2e.engines import KVTOP_TYPED
from tests.e2e.tmux import Tmux, wait_until

Terminal = Callable[..., Tmux]
LOADED = "--preset tiers --model random --rate 60 --seed 3 --set preempt_action=recompute"


def switch(tmux: Tmux, axis: str, value: str, says: str) -> None:
    """Choose ``value`` in the policy dialog and apply it, once the preview ``says`` so (a regular expression, over all
    lines); the outcome names the change."""
    tmux.keys("P")
    tmux.wait_for(r"─ policies ─")
    _go_down_to(tmux, rf"▸ {axis} ")
    tmux.keys("Enter")
    tmux.wait_for(rf"─ policy {axis} ─")
    _go_down_to(tmux, rf"▸ ○ {value}\b")
    tmux.keys("Enter")
    tmux.wait_for(r"what it will do:")
    # A terminal can be read while half of a frame has come.
    wait_until(
        lambda: re.search(says, _said(tmux.screen())) is not None, 30, lambda: f"not said: {says}\n{tmux.screen()}"
    )
    tmux.wait_for(rf"\w+ → {value}", 30)
    tmux.keys("Right", "Enter")
    tmux.wait_for(r"took effect at iteration [\d,]+")
    tmux.wait_for(rf"{axis} → {value}", 30)
    tmux.keys("Enter")
    wait_until(lambda: "took effect" not in tmux.screen(), 30, "the dialog stays")
    while re.search(r"─ polic(y|ies) ", tmux.screen()):
        tmux.keys("Escape")
        wait_until(lambda: True, 1, "")


def _go_down_to(tmux: Tmux, pattern: str) -> None:
    for _ in range(40):
        if re.search(pattern, tmux.screen()):
            return
        before = _marked(tmux)
        tmux.keys("Down")
        wait_until(lambda before=before: _marked(tmux) != before, 30, f"the cursor does not move towards {pattern}")  # type: ignore[misc]
    raise AssertionError(f"{pattern!r} is not in the dialog:\n{tmux.screen()}")


def _marked(tmux: Tmux) -> str:
    """The dialog's line under the bar; behind it the engine goes on."""
    found = re.search(r"│ ▸ (.*?) +│", tmux.screen())
    return found[1] if found else ""


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_recompute_to_swap_and_lru_to_priority_under_load(terminal: Terminal, size: tuple[int, int]) -> None:
    tmux = terminal(*size)
    tmux.run(f"{KVTOP_TYPED} demo --name shown {LOADED}")
    # Under recompute a preemption gives tokens up, and nothing is swapped.
    tmux.wait_for(r"preempt \S+ by \S+: .*→ lost [1-9]\d* tok")
    assert "swap out" not in tmux.screen()

    switch(tmux, "preempt_action", "swap", r"copied to the\s+host\s+tier")
    tmux.wait_for(r"swap out \S+ to host: \d+ blocks?, \d+ tokens kept")
    tmux.wait_for(r"swap in \S+ from host: \d+ blocks?, \d+ tokens kept, after")
    tmux.keys("5")
    # Cached below the device and served from there again: hits of both lower tiers, traffic both ways.
    tmux.wait_for(r"(?m)host +\S+ +\d+/64 +[\d.]+ +[\d.]+ .* (<1|[1-9]\d?)%")
    tmux.wait_for(r"(?m)disk +\S+ +\d+/768 +[\d.]+ +[\d.]+ .* (<1|[1-9]\d?)%")

    switch(tmux, "eviction", "priority", "evicted by priority, no more by lru")
    tmux.wait_for(r"swap in \S+ from host")
    tmux.keys("q")


def _said(screen: str) -> str:
    """The text of a dialog, its lines joined."""
    return " ".join(re.sub(r"[│┃┌└┐┘─]", " ", screen).split())
