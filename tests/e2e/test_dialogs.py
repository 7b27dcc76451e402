"""Dialogs and the filter in a real terminal: with the mouse, and with what is pasted."""

import json
import re
import signal
from collections.abc import Callable

import pytest

from tests.e2e.engines import KVTOP_TYPED, Engines
from tests.e2e.tmux import Tmux, wait_until

Terminal = Callable[..., Tmux]
DEMO = f"{KVTOP_TYPED} demo --model random --name shown; echo code=$?"
NASTY = "\x1bq\x1b[Aq\x1b]0;x\x07qE\x1b" + "x" * 40 + "q\rq"
"""Sequences that are none, known keys, a title, keys that leave or ask: all of it is text."""


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_mouse_and_paste(terminal: Terminal, size: tuple[int, int]) -> None:
    tmux = terminal(*size)
    tmux.run(DEMO)
    tmux.wait_for(r"\d+ running")

    # A button of a question, and the one that closes it.
    tmux.keys("E")
    tmux.wait_for(r"─ pause the engine\? ─")
    tmux.click(r"\[ Pause \]")
    tmux.wait_for(r"took effect at iteration")
    tmux.click(r"> Close <")
    tmux.wait_for(r"PAUSED")
    tmux.keys("E")
    tmux.wait_for(r"> Cancel <  \[ Resume \]")
    tmux.click(r"\[ Resume \]")
    tmux.wait_for(r"took effect at iteration")
    tmux.click(r"> Close <")

    # An axis, its value, and Apply.
    tmux.keys("P")
    tmux.wait_for(r"▸ capacity")
    tmux.click(r" order  ")
    tmux.wait_for(r"─ policy order ─")
    tmux.click(r"○ shortest_prompt")
    tmux.wait_for(r"what it will do:")
    tmux.click(r"\[ Apply \]")
    tmux.wait_for(r"took effect at iteration")
    tmux.click(r"> Close <")
    tmux.wait_for(r"order shortest_prompt|─ events|events:")

    # A paste is text in the filter, and nothing elsewhere.
    tmux.keys("/")
    tmux.wait_for(r"requests: filter")
    tmux.paste("cha\x1bt-")
    tmux.wait_for(r"filter chat-")
    tmux.keys("Enter")
    tmux.wait_for(r"filter 'chat-'")
    tmux.keys("Escape")
    tmux.paste(NASTY)
    screen = tmux.wait_for(r"a paste was ignored")
    assert "code=" not in screen
    assert not re.search(r"pause the engine\?", screen)
    tmux.keys("P")
    tmux.wait_for(r"▸ capacity")
    tmux.paste(NASTY)
    tmux.wait_for(r"▸ capacity")
    tmux.keys("q")
    wait_until(lambda: "policies" not in tmux.screen(), 60, "the dialog stays")

    # The list of all actions.
    tmux.type(":")
    tmux.wait_for(r"list|write a snapshot|this help")
    tmux.type("compact the pool")
    tmux.wait_for(r"compact the pool: move blocks together \(asks first\)  \(C\)")
    tmux.keys("Down", "Enter")
    tmux.wait_for(r"─ compact the pool\? ─")
    tmux.keys("Enter")
    wait_until(lambda: "compact the pool?" not in tmux.screen(), 60, "the dialog stays")
    tmux.keys("q")
    tmux.wait_for(r"(?m)^code=0$")


def test_an_engine_that_restarts_under_a_dialog_is_left_alone(terminal: Terminal, engines: Engines) -> None:
    first = engines.start("re", "--seed", "3")
    tmux = terminal()
    tmux.run(f"{KVTOP_TYPED} attach re; echo code=$?")
    tmux.wait_for(r"[1-9]\d* running")
    tmux.keys("g")
    tmux.keys("x")
    tmux.wait_for(r"─ abort .*\? ─")
    first.send_signal(signal.SIGTERM)
    first.wait(60)
    tmux.wait_for(r"No connection to the engine")
    engines.start("re", "--seed", "3")
    tmux.wait_for(r"The engine has been restarted")
    tmux.keys("Tab")
    tmux.keys("Enter")
    wait_until(lambda: "has been restarted: the run" not in tmux.screen(), 60, "the dialog stays")
    (state,) = json.loads(engines.kvtop("ls", "--json").stdout)["engines"]
    assert state["alive"]
    snapshot = json.loads(engines.kvtop("snapshot", "-e", "re", "-").stdout)
    assert "abort" not in {event["kind"] for event in snapshot["events"]}
    tmux.keys("q")
    tmux.wait_for(r"(?m)^code=0$")
