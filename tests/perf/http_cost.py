"""What an output costs over HTTP: ``python -m tests.perf.http_cost [--tokens N] [--streams N …] [--model M]``.

CPU time of the HTTP server's own thread for each event of a stream (what the engine puts out meanwhile is joined, so there
are fewer events than tokens), and that of the engine's thread for each iteration, with as many streams over HTTP and with
as many read inside, in turn. A child reads the streams.

Bounds: 150 µs an event, 400 where one stream wakes the thread for each; 1.2 times the engine's time inside. Exit code 1 if one is broken.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.engine.http.kit import Serving

EVENT_US, LONE_EVENT_US, RATIO = 150.0, 400.0, 1.2

READER = """
import json, selectors, socket, sys
port, streams, tokens = map(int, sys.argv[1:])
waiting = selectors.DefaultSelector()
for number in range(streams):
    body = {"prompt": f"stream {number}", "max_tokens": tokens, "ignore_eos": True, "stream": True, "temperature": 0}
    data = json.dumps(body).encode()
    head = "POST /v1/completions HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n"
    raw = socket.create_connection(("127.0.0.1", port))
    raw.sendall(f"{head}Content-Length: {len(data)}\\r\\n\\r\\n".encode() + data)
    waiting.register(raw, selectors.EVENT_READ)
events = 0
while waiting.get_map():
    for key, _ in waiting.select():
        data = key.fileobj.recv(65536)
        events += data.count(b"data: {")
        if not data or data.endswith(b"0\\r\\n\\r\\n"):
            waiting.unregister(key.fileobj)
print(events)
"""


def cpu(thread: threading.Thread) -> float:
    """Seconds of CPU that it has taken."""
    assert thread.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


class Meter:
    """CPU seconds of the engine's thread and its iterations since the last look."""

    def __init__(self, it: Serving) -> None:
        self._it = it
        self._last = (0.0, 0)
        self.ms()

    def ms(self) -> float:
        """Milliseconds an iteration."""
        now = (cpu(self._it._thread), self._it.engine.iteration)
        spent, iterations = (new - old for new, old in zip(now, self._last, strict=True))
        self._last = now
        return 1000.0 * spent / max(1, iterations)


def measure(it: Serving, streams: int, tokens: int) -> tuple[float, float, float]:
    """Microseconds an event, and milliseconds of an iteration over HTTP and inside."""
    meter, began = Meter(it), cpu(it.http._thread)
    command = [sys.executable, "-c", READER, str(it.port), str(streams), str(tokens)]
    events = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    it.until(lambda: it.http.gate.active == 0)
    over_http, event_us = meter.ms(), 1e6 * (cpu(it.http._thread) - began) / events
    handles = [it.server.submit(list(f"stream {number}".encode()), tokens) for number in range(streams)]
    for handle in handles:
        handle.result(600.0)
    return event_us, over_http, meter.ms()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="random")
    options = parser.parse_args()
    print(f"{options.model}, {options.tokens} tokens a stream, median of {options.rounds} rounds")
    print(f"{'streams':>8}{'HTTP, an event':>16}{'engine, an iteration':>22}{'inside':>10}{'ratio':>8}")
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        it = Serving(Path(folder), model=options.model, max_running=64)
        for streams in options.streams:
            rounds = [measure(it, streams, options.tokens) for _ in range(options.rounds)]
            event, http, inside = map(statistics.median, zip(*rounds, strict=True))
            over = event > (EVENT_US if streams > 1 else LONE_EVENT_US) or http / inside > RATIO
            broken += over
            print(
                f"{streams:8d}{event:13.0f} µs{http:19.2f} ms{inside:7.2f} ms{http / inside:8.2f}{'  OVER' if over else ''}"
            )
        it.close()
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
