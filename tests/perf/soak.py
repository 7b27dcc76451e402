"""An engine under everything at once: ``python -m tests.perf.soak [--minutes M] [--model random]``.

Mixed load over HTTP (samples, beams, kept prompts, tenants, conversations, bursts), clients that vanish in mid-stream or say
half a request, a policy changed every few seconds, requests preempted, viewers that come, stall and go. At the end nothing may
be left: no request, no block in use, no file, no thread, no memory. Bounds: resident memory in the last quarter at most 5 %
above the second; open files and threads at rest no more than at rest before; the ledger clean. Exit code 1 otherwise.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import socket
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from kvtop.commands.child import EngineChild, Ready
from kvtop.load.arrivals import Arrivals, Bursts, Closed, Renewal
from kvtop.load.driver import Limits
from kvtop.load.plan import Plan, chats, mixed, synthetic
from kvtop.load.run import Settings, run_load
from kvtop.mixes import MIXES, Scale
from kvtop.protocol import Command, Compact, PolicyAxis, PolicyValue, Preempt, ResetPrefixCache, SetPolicy
from kvtop.sources.control import ControlClient, ControlError
from kvtop.sources.socket import SocketSource

MORE: Final = 1.05
TELLING_S: Final = 240.0
"""Below this a run says nothing about memory: what is made at the first use is still being made."""

LOAD_S: Final = 20.0
"""Of one kind of load, before the next."""

POOL: Final = ("--blocks", "256", "--block-size", "8", "--host-blocks", "64", "--disk-blocks", "128")
"""Less than what is asked for, so that requests are preempted, swapped and evicted."""

HALVES: Final = (
    b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-le",
    b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{",
    b"\x16\x03\x01 no HTTP\r\n\r\n",
)


@dataclass
class Seen:
    """What happened, and what the engine's process held meanwhile."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    rss: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)


class Soak:
    def __init__(self, ready: Ready, pid: int, seed: int, rate: float) -> None:
        assert ready.http is not None
        self.ready, self.url = ready, ready.http
        self.seen = Seen()
        self._process = psutil.Process(pid)
        self._draw = random.Random(seed)
        self._rate = rate
        self._control = ControlClient(ready.control, "soak")

    async def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        await asyncio.gather(
            self._load(until),
            self._vanish(until),
            self._command(until),
            *(self._view(until) for _ in range(3)),
            self._sample(until, max(0.5, seconds / 120)),
        )

    async def _load(self, until: float) -> None:
        for number in range(10**6):
            left = until - time.monotonic()
            if left < 1:
                return
            plan, arrivals = self._kind(number)
            settings = Settings(
                self.url, lambda _, p=plan, a=arrivals: (p, a), Limits(min(LOAD_S, left), patience=60.0)
            )  # type: ignore[misc]
            result = await run_load(settings)
            self.seen.counts["answered"] += result.counts["finished"]
            self.seen.counts["output tokens"] += round(sum(row.output_tokens for row in result.requests))
            self.seen.failures.update({failed.kind: failed.count for failed in result.failures})

    def _kind(self, number: int) -> tuple[Plan, Arrivals]:
        kinds: tuple[tuple[Plan, Arrivals], ...] = (
            (mixed(MIXES["sharing"], Scale(0.02, 0.1), seed=number), Renewal(self._rate)),
            (chats((2, 4), (20, 60), (10, 40), shared=80, groups=3, think=0.5, seed=number), Renewal(self._rate / 2)),
            (synthetic((10, 400), (5, 100), shared=0, groups=1, seed=number), Bursts(round(self._rate * 3) + 1, 3.0)),
            (mixed(MIXES["mix"], Scale(0.02, 0.1), seed=number), Closed(6)),
        )
        return kinds[number % len(kinds)]

    async def _vanish(self, until: float) -> None:
        """One client after the other that goes without a word."""
        host, _, port = self.url.removeprefix("http://").partition(":")
        body = json.dumps(
            {"prompt": "river " * 30, "max_tokens": 400, "stream": True, "ignore_eos": True, "n": 2}
        ).encode()
        whole = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(whole if self._draw.random() < 0.7 else self._draw.choice(HALVES))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._draw.uniform(0.0, 1.0)):
                        await reader.read(2000)
                writer.transport.abort()
                self.seen.counts["clients that vanished"] += 1
            await asyncio.sleep(self._draw.uniform(0.2, 1.0))

    async def _command(self, until: float) -> None:
        axes = (await asyncio.to_thread(self._control.hello)).axes
        while time.monotonic() < until:
            command = self._some_command(axes)
            try:
                reply = await asyncio.to_thread(self._control.send, command, 60.0)
                self.seen.counts[f"{command.type} {'done' if reply.ok else 'refused'}"] += 1
            except ControlError as error:
                self.seen.failures[f"{command.type}: {error}"] += 1
            await asyncio.sleep(self._draw.uniform(1.0, 4.0))

    def _some_command(self, axes: list[PolicyAxis]) -> Command:
        name = f"soak-{self._draw.randrange(10**9)}"
        kind = self._draw.random()
        if kind < 0.8:
            axis = self._draw.choice([axis for axis in axes if axis.kind in ("choice", "bool")])
            values: list[PolicyValue] = list(axis.choices) if axis.kind == "choice" else [True, False]
            how = self._draw.choice(("preempt", "drain"))
            return SetPolicy(id=name, changes={axis.name: self._draw.choice(values)}, transition=how)
        if kind < 0.9:
            return Preempt(id=name, request=self._draw.randrange(1000))
        return Compact(id=name) if kind < 0.97 else ResetPrefixCache(id=name)

    async def _view(self, until: float) -> None:
        """Viewers one after the other; each third is there and reads nothing."""
        while time.monotonic() < until:
            stay = min(self._draw.uniform(1.0, 15.0), max(0.0, until - time.monotonic()))
            self.seen.counts["viewers"] += 1
            if self._draw.random() < 1 / 3:
                with socket.socket(socket.AF_UNIX) as stalled:
                    stalled.setblocking(False)
                    await asyncio.get_running_loop().sock_connect(stalled, str(self.ready.socket))
                    await asyncio.sleep(stay)
                continue
            source = SocketSource(self.ready.socket)
            source.start()
            for _ in range(round(stay * 5)):
                await asyncio.sleep(0.2)
                source.poll()
            await asyncio.to_thread(source.close)

    async def _sample(self, until: float, every: float) -> None:
        while time.monotonic() < until:
            self.sample()
            await asyncio.sleep(every)

    def sample(self) -> None:
        self.seen.rss.append(self._process.memory_info().rss)
        self.seen.files.append(self._process.num_fds())
        self.seen.threads.append(self._process.num_threads())

    async def at_rest(self, within: float = 120.0) -> dict[str, Any]:
        """A snapshot once nothing runs or waits, or the last one."""
        until = time.monotonic() + within
        while True:
            command = [sys.executable, "-m", "kvtop", "snapshot", "-", "-e", str(self.ready.socket), "--watch", "0.5"]
            asked = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            out, _ = await asked.communicate()
            found: dict[str, Any] = json.loads(out)
            if (found["active_sequences"] == found["waiting_sequences"] == 0) or time.monotonic() > until:
                return found
            await asyncio.sleep(1.0)


def judged(soak: Soak, before: tuple[int, int], after: tuple[int, int], rest: dict[str, Any], end: int | None, left: list[str], seconds: float) -> list[tuple[str, str, bool]]:  # fmt: skip
    """What was looked at, what was found, and whether it is as it should be."""
    rss = soak.seen.rss
    quarter = max(1, len(rss) // 4)
    second, last = statistics.median(rss[quarter : 2 * quarter] or rss), statistics.median(rss[-quarter:])
    short = "" if seconds >= TELLING_S else " (too short to judge)"
    held = sum(rest[name] or 0 for name in ("kv_blocks_active", "kv_blocks_shared") if name in rest)
    return [
        ("requests left", f"{rest['active_sequences']} running, {rest['waiting_sequences']} waiting",
         rest["active_sequences"] == rest["waiting_sequences"] == 0),
        ("blocks in use", str(held), held == 0),
        ("ledger violations", str(rest["ledger_violations"]), rest["ledger_violations"] == 0),
        ("contradictions seen", str(rest["contradictions"]), not rest["contradictions"]),
        ("resident memory, second and last quarter", f"{second / 2**20:.1f} and {last / 2**20:.1f} MiB{short}", bool(short) or last <= MORE * second),
        ("open files before and after", f"{before[0]} and {after[0]}", after[0] <= before[0]),
        ("threads before and after", f"{before[1]} and {after[1]}", after[1] <= before[1]),
        ("exit code", str(end), end == 0),
        ("files left in the socket folder", ", ".join(left) or "none", not left),
    ]  # fmt: skip


async def soaked(options: argparse.Namespace, child: EngineChild, ready: Ready) -> tuple[Soak, tuple[int, int], tuple[int, int], dict[str, Any]]:  # fmt: skip
    assert child.pid is not None
    soak = Soak(ready, child.pid, options.seed, options.rate)
    process = psutil.Process(child.pid)
    # What is made at the first use is there from then on: threads for long work, sockets of the loop.
    await soak.run(min(10.0, options.minutes * 6))
    await soak.at_rest()
    await asyncio.sleep(3.0)
    before = (process.num_fds(), process.num_threads())
    soak.seen = Seen()
    await soak.run(options.minutes * 60)
    rest = await soak.at_rest()
    await asyncio.sleep(3.0)
    return soak, before, (process.num_fds(), process.num_threads()), rest


def _parts(values: list[int], count: int) -> list[list[int]]:
    """``values`` in ``count`` parts that follow upon each other, without those that would be empty."""
    edges = [round(len(values) * part / count) for part in range(count + 1)]
    return [values[low:high] for low, high in itertools.pairwise(edges) if high > low]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--model", default="random")
    parser.add_argument("--rate", type=float, default=4.0, help="requests a second")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvs") as name:
        folder = Path(name)
        folder.chmod(0o700)
        os.environ["KVTOP_SOCKET_DIR"] = str(folder)
        child = EngineChild(
            ["--parent-stdin", "--ready-json", "--model", options.model, "--name", "soak", "--http", "127.0.0.1:0", *POOL,
             "--set", "preempt_action=swap", "--set", "offload=on_evict"],
            folder / "soak.log",
        )  # fmt: skip
        try:
            child.start()
            ready = child.wait_ready(lambda _: None, lambda _: None)
            soak, before, after, rest = asyncio.run(soaked(options, child, ready))
        finally:
            end = child.stop()
        left = sorted(path.name for path in folder.iterdir())
    for what, count in sorted(soak.seen.counts.items()):
        print(f"{count:>10}  {what}")
    for what, count in soak.seen.failures.most_common():
        print(f"{count:>10}  failed: {what}")
    tenths = [statistics.median(part) / 2**20 for part in _parts(soak.seen.rss, 10)]
    print(f"{'':>10}  resident memory by tenths, MiB: {' '.join(f'{part:.0f}' for part in tenths)}")
    found = judged(soak, before, after, rest, end, left, options.minutes * 60)
    for what, value, fine in found:
        print(f"{'ok' if fine else 'FAILED':>10}  {what}: {value}")
    return 0 if all(fine for _, _, fine in found) else 1


if __name__ == "__main__":
    sys.exit(main())
