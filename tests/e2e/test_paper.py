"""Light and dark terminals: kvtop asks what paper there is, and writes in ink for it."""

from collections.abc import Callable

from kvtop.term.colours import colours
from kvtop.term.depth import ColourDepth
from kvtop.term.paper import Paper
from kvtop.views.rows import Role
from tests.e2e.engines import KVTOP_TYPED, Engines
from tests.e2e.tmux import Tmux, wait_until

Terminal = Callable[..., Tmux]
TITLES = {paper: f"{colours(ColourDepth.INDEXED, paper).named[Role.TITLE].fg}mqueue" for paper in Paper}


def test_a_terminal_tells_its_paper(terminal: Terminal, engines: Engines) -> None:
    engines.start("papered")
    tmux = terminal(80, 24)
    tmux.paint("#ffffff")
    for option, paper in (("", Paper.LIGHT), ("--dark", Paper.DARK)):
        tmux.run(f"clear; TERM=xterm-256color {KVTOP_TYPED} attach papered {option}; echo code=$?")
        tmux.wait_for("▸2 requests: ")
        wait_until(lambda paper=paper: TITLES[paper] in tmux.coloured(), 30, tmux.coloured)  # type: ignore[misc]
        # The answer was taken for no key.
        assert "does nothing here" not in tmux.screen()
        tmux.keys("q")
        tmux.wait_for("code=0")
