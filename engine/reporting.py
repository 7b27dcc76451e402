"""What the engine's program says while it starts, serves and ends: to a program or to a person."""

import json
import os
import sys
import traceback
from typing import Any

from engine.words import flat

TRACEBACK = "KVTOP_DEBUG"
"""Set to anything but 0, it shows where in the code an engine died, as it does with `kvtop`."""


class Reporter:
    """Progress to whoever started the engine: JSON lines for a program, short lines for a person."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._last_percent = -1

    def progress(self, what: str, done: int, total: int | None) -> None:
        """``done`` and ``total`` in bytes."""
        percent = -1 if not total else 100 * done // total
        if percent == self._last_percent and total:
            return
        self._last_percent = percent
        if self._as_json:
            self._line({"progress": {"what": what, "done": done, "total": total}})
        else:
            share = "" if percent < 0 else f" {percent}%"
            self._write(f"\r{what}: {done / 1e6:.1f} MB{share}")

    def say(self, text: str) -> None:
        if self._as_json:
            self._line({"note": text})
        else:
            self._write(f"{flat(text)}\n")

    def ready(self, facts: dict[str, Any]) -> None:
        if self._as_json:
            self._line({"ready": facts})
        else:
            where = f" at {facts['http']}" if "http" in facts else ""
            self._write(f"engine {facts['name']} serves{where}; watch it: kvtop attach {facts['name']}\n")

    def failed(self, why: str, hint: str) -> None:
        if self._as_json:
            self._line({"failed": why, "hint": hint})
        else:
            self._write(f"kvtop engine: {flat(why)}" + (f" ({flat(hint)})" if hint else "") + "\n")

    def died(self, why: str) -> None:
        """The engine cannot go on. The one line goes to standard error whoever started it: a log keeps that."""
        if self._as_json:
            self._line({"failed": why, "hint": ""})
        if os.environ.get(TRACEBACK, "0") not in ("", "0"):
            self._write(traceback.format_exc())
        self._write(f"kvtop engine: {flat(why)}\n")

    def warn(self, text: str) -> None:
        """Something failed and the engine goes on: a line of the log."""
        self._write(f"kvtop engine: {flat(text)}\n")

    # Where nobody listens any more (a pipe without a reader, a full disk) the engine goes on; viewers see the rest.

    def _line(self, facts: dict[str, Any]) -> None:
        try:
            print(json.dumps(facts), flush=True)
        except OSError:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115

    def _write(self, text: str) -> None:
        if sys.stderr is None:
            return
        try:
            print(text, end="", file=sys.stderr, flush=True)
        except OSError:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
