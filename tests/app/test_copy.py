"""``y``: what is selected goes to the terminal's clipboard, and the footer says what was sent."""

import base64
import re
from pathlib import Path

import pytest

from tests.app.harness import Bench, bench, in_loop
from tests.term.driver import CountingDriver, driver_of


def sent(b: Bench) -> list[str]:
    found = re.findall(r"\x1b\]52;c;([^\x07]*)\x07", driver_of(b.app).take())
    return [base64.b64decode(text).decode() for text in found]


@in_loop
async def test_it_copies_a_request_a_block_or_the_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    async with bench(tmp_path, headless=False, driver_class=CountingDriver) as b:
        b.app.tick()
        await b.press("2", "g", "y")
        row = b.screen.feed.shown.request(b.screen.requests.view.selected or 0)
        assert row is not None
        assert sent(b) == [row.id]
        assert "the request's id: sent to the clipboard" in b.text("footer")
        await b.press("escape", "y")
        (text,) = sent(b)
        assert text.splitlines()[0].startswith("▸2 requests")
        assert len(text.splitlines()) == b.screen.requests.size.height
        await b.press("1", "l", "y")
        (text,) = sent(b)
        assert text.startswith(f"block {b.screen.map.map.cursor}")
        await b.press("4", "y")
        assert sent(b)[0].startswith("▸4 events")
        monkeypatch.setenv("TERM", "linux")
        await b.press("y")
        assert sent(b) == []
        assert "not copied: a terminal of the kind linux has no clipboard" in b.text("footer")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(b.app, "_queued", lambda: 99)
        await b.press("y")
        assert sent(b) == []
        assert b.notes()[-1].endswith("not copied: the terminal does not keep up")
