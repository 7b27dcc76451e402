"""Policies switched on the screen while the engine serves: what the dialog announces is what the panels then show."""

import re
from collections.abc import Callable

import pytest

from tests.e2e.engines import KVTOP_TYPED
from tests.e2e.tmux import Tmux, wait_until

Terminal = Callable[..., Tmux]
LOADED = "--preset tiers --model random --rate 60 --seed 3 --set preempt_action=recompute"


def switch(tmux: Tmux, axis: str, value: str) -> tuple[str, str]:
    """Choose ``value`` in the policy dialog and apply it. Returns the screens of the preview and of the outcome."""
    tmux.keys("P")
    tmux.wait_for(r"─ policies ─")
    _go_down_to(tmux, rf"▸ {axis} ")
    tmux.keys("Enter")
    tmux.wait_for(rf"─ policy {axis} ─")
    _go_down_to(tmux, rf"▸ ○ {value}\b")
    tmux.keys("Enter")
    preview = tmux.wait_for(r"what it will do:")
    tmux.keys("Right", "Enter")
    outcome = tmux.wait_for(r"took effect at iteration [\d,]+")
    tmux.keys("Enter")
    wait_until(lambda: "took effect" not in tmux.screen(), 30, "the dialog stays")
    while re.search(r"─ polic(y|ies) ", tmux.screen()):
        tmux.keys("Escape")
        wait_until(lambda: True, 1, "")
    return preview, outcome


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

    preview, outcome = switch(tmux, "preempt_action", "swap")
    assert "recompute → swap" in preview
    assert re.search(r"copied to the\s+host\s+tier", _said(preview))
    assert "preempt_action → swap" in outcome
    tmux.wait_for(r"swap out \S+ to host: \d+ blocks?, \d+ tokens kept")
    tmux.wait_for(r"swap in \S+ from host: \d+ blocks?, \d+ tokens kept, after")
    tmux.keys("5")
    # Cached below the device and served from there again: hits of both lower tiers, traffic both ways.
    tmux.wait_for(r"(?m)host +\S+ +\d+/64 +[\d.]+ +[\d.]+ .* (<1|[1-9]\d?)%")
    tmux.wait_for(r"(?m)disk +\S+ +\d+/768 +[\d.]+ +[\d.]+ .* (<1|[1-9]\d?)%")

    preview, outcome = switch(tmux, "eviction", "priority")
    assert "lru → priority" in preview
    assert "evicted by priority, no more by lru" in _said(preview)
    assert "eviction → priority" in outcome
    tmux.wait_for(r"swap in \S+ from host")
    tmux.keys("q")


def _said(screen: str) -> str:
    """The text of a dialog, its lines joined."""
    return " ".join(re.sub(r"[│┃┌└┐┘─]", " ", screen).split())
