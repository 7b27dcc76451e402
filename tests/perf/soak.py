"""An engine under everything at once: ``python -m tests.perf.soak [--minutes M] [--model random]``.

Mixed load over HTTP (samples, beams, kept prompts, tenants, conversations, bursts), clients that vanish in mid-stream or say
half a request, every kind of command and every policy axis in turn (`tests.perf.soak_commands`), viewers that come, stall and
go, and somebody who scrapes. At the end nothing may be left: no request, no block in use, held below or pinned, no file, socket,
task, thread or child, no memory. What fills up to a bound is filled before anything is counted, or soon: the log of events, the
flight recorder, which keeps a minute here.

Bounds: resident memory in the last quarter at most 5 % above the second; what the process holds at rest no more than at rest
before (`tests.perf.soak_held`); the ledger clean; one viewer that stays all the time never cut off; every kind of command done
at least once. Exit code 1 otherwise.
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from kvtop.app.feed import Feed
from kvtop.commands.child import EngineChild, Ready
from kvtop.load.arrivals import Arrivals, Bursts, Closed, Renewal
from kvtop.load.driver import Limits
from kvtop.load.plan import Plan, chats, mixed, synthetic
from kvtop.load.run import Settings, run_load
from kvtop.mixes import MIXES, Scale
from kvtop.protocol import Abort, Command, Reply
from kvtop.protocol.codec import encode
from kvtop.publish.controller import MAX_WAITING
from kvtop.publish.dumps import KEPT as DUMPS_KEPT
from kvtop.publish.ring import EVENT_LOG
from kvtop.sources.connect import Conversation
from kvtop.sources.control import ControlClient, ControlError
from kvtop.sources.socket import SocketSource
from tests.perf.soak_commands import WHOLE_POOL, Deck, sight_of
from tests.perf.soak_held import Held, least_held, left_over, metrics

MORE: Final = 1.05
TELLING_S: Final = 240.0
"""Below this a run says nothing about memory: what is made at the first use is still being made."""

TURNS_S: Final = 600.0
"""Below this a run says nothing about commands: each has its turn in about a minute, and may be refused."""

LOAD_S: Final = 20.0
"""Of one kind of load, before the next."""

WARM_UP_S: Final = 20.0
"""All kinds of load in turn, before anything is counted: threads, pools and caches are made at the first use."""

POOL: Final = ("--blocks", str(WHOLE_POOL), "--block-size", "8", "--host-blocks", "64", "--disk-blocks", "128")
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
    done: Counter[str] = field(default_factory=Counter)
    """Commands, by kind."""
    refused: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, str] = field(default_factory=dict)
    """The latest reason, by kind."""


class Soak:
    def __init__(self, ready: Ready, pid: int, seed: int, rate: float) -> None:
        assert ready.http is not None
        self.ready, self.url = ready, ready.http
        self.seen = Seen()
        self._process = psutil.Process(pid)
        self._draw = random.Random(seed)
        self._rate = rate
        self._control = ControlClient(ready.control, "soak")
        self.watch = Feed(SocketSource(ready.socket, fps=20.0, client="soak"))
        """Of the one viewer that stays."""
        self.watch.source.start()
        self._deck = Deck(self._control.hello(60.0).axes, self._draw)
        self.kinds = self._deck.kinds

    async def run(self, seconds: float, load_s: float = LOAD_S) -> None:
        until = time.monotonic() + seconds
        await asyncio.gather(
            self._load(until, load_s),
            self._vanish(until),
            self._command(until),
            *(self._view(until) for _ in range(3)),
            self._scrape(until),
            self._sample(until, max(0.5, seconds / 240)),
        )

    def fill_event_log(self, seconds: float = 600.0) -> None:
        """As many events as an engine keeps at most, of commands that are refused."""
        talk = Conversation(self.ready.control, seconds)
        for first in range(0, EVENT_LOG, MAX_WAITING):
            ids = [f"fill-{number}" for number in range(first, first + MAX_WAITING)]
            talk.send(b"".join(encode(Abort(id=each, request="nobody")) for each in ids))
            answered = 0
            while answered < len(ids):
                answered += isinstance(talk.read(), Reply)
        talk.close()

    async def stay(self) -> None:
        """The viewer that does."""
        up = True
        while True:
            self.watch.drain(time.monotonic())
            if up and not self.watch.live.link.up:
                self.seen.failures[f"the viewer that stays: {self.watch.live.link.reason}"] += 1
            up = self.watch.live.link.up
            await asyncio.sleep(0.2)

    async def _scrape(self, until: float) -> None:
        while time.monotonic() < until:
            try:
                await asyncio.to_thread(metrics, self.url)
                self.seen.counts["scrapes"] += 1
            except OSError as error:
                self.seen.failures[f"scrape: {error}"] += 1
            await asyncio.sleep(5.0)

    async def _load(self, until: float, load_s: float) -> None:
        for number in range(10**6):
            left = until - time.monotonic()
            if left < 1:
                return
            plan, arrivals = self._kind(number)
            settings = Settings(
                self.url, lambda _, p=plan, a=arrivals: (p, a), Limits(min(load_s, left), patience=60.0)
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
        while time.monotonic() < until:
            self.watch.drain(time.monotonic())
            drawn = self._deck.draw(sight_of(self.watch.live))
            if drawn is not None:
                await self._tell(*drawn)
            await asyncio.sleep(self._draw.uniform(0.5, 3.0))
        for command in self._deck.undo():
            await self._tell(command.type, command)

    async def _tell(self, kind: str, command: Command) -> None:
        try:
            reply = await asyncio.to_thread(self._control.send, command, 120.0)
        except ControlError as error:
            self.seen.failures[f"{kind}: {error}"] += 1
            return
        if reply.ok:
            self._deck.done(command)
            self.seen.done[kind] += 1
        else:
            self.seen.refused[kind] += 1
            self.seen.refusals[kind] = reply.message

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


@dataclass
class Found:
    """What was there at rest, after all of it: a snapshot of the engine, and what its process held beyond what it held
    before. ``before`` is that."""

    before: Held
    more: Held
    rest: dict[str, Any]


def judged(soak: Soak, found: Found, end: int | None, left: list[str], dumps: int, said: str, seconds: float) -> list[tuple[str, str, bool]]:  # fmt: skip
    """What was looked at, what was found, and whether it is as it should be."""
    rss, rest, before, more = soak.seen.rss, found.rest, found.before, found.more
    quarter = max(1, len(rss) // 4)
    second, last = statistics.median(rss[quarter : 2 * quarter] or rss), statistics.median(rss[-quarter:])
    short = "" if seconds >= TELLING_S else " (too short to judge)"
    used = sum(rest["gauges"][name] for name in ("kv_blocks_active", "kv_blocks_shared", "kv_blocks_pinned"))
    below = {tier["tier"]: (tier["blocks_held"] or 0) + (tier["blocks_transfer"] or 0) for tier in rest["tiers"] or ()}
    never = sorted(kind for kind in soak.kinds if not soak.seen.done[kind])
    named = [f"{kind} ({soak.seen.refusals.get(kind, 'never possible')})" for kind in never]

    def added(name: str) -> tuple[str, bool]:
        was, now = getattr(before, name), getattr(more, name)
        if isinstance(was, Counter):
            return f"{was.total()}, and {', '.join(f'{n} {what}' for what, n in now.items()) or 'none'}", not now
        return f"{was}, and {now}", not now

    return [
        ("requests left", f"{rest['active_sequences']} running, {rest['waiting_sequences']} waiting",
         rest["active_sequences"] == rest["waiting_sequences"] == 0),
        ("blocks in use or pinned", str(used), used == 0),
        ("blocks of lower tiers held or under way", ", ".join(f"{n} {tier}" for tier, n in below.items()), bool(below) and not any(below.values())),
        ("ledger violations", str(rest["ledger_violations"]), rest["ledger_violations"] == 0),
        ("contradictions seen", str(rest["contradictions"]), not rest["contradictions"]),
        ("facts that the viewer that stays could not use", f"{soak.watch.live.bad_facts} {soak.watch.live.bad_note or ''}", not soak.watch.live.bad_facts),
        ("resident memory, second and last quarter", f"{second / 2**20:.1f} and {last / 2**20:.1f} MiB{short}", bool(short) or last <= MORE * second),
        *((f"{what} at rest before, and more after", *added(name)) for what, name in (
            ("descriptors", "files"), ("sockets", "sockets"), ("threads", "threads"), ("child processes", "children"),
            ("tasks of the HTTP server", "tasks"), ("connections of clients", "connections"), ("files in its folders", "lying"))),
        ("commands never done", ", ".join(named) or "none", not never or seconds < TURNS_S),
        ("done at all", f"{soak.seen.counts['answered']} requests, {soak.seen.counts['viewers']} viewers, {soak.seen.counts['clients that vanished']} clients that vanished",
         all(soak.seen.counts[each] for each in ("answered", "viewers", "clients that vanished", "scrapes"))),
        ("nothing failed", f"{soak.seen.failures.total()} failures", not soak.seen.failures),
        ("exit code", str(end), end == 0),
        ("files of the flight recorder", f"{dumps}, and {DUMPS_KEPT} are kept", dumps <= DUMPS_KEPT),
        ("files left", ", ".join(left) or "none", not left),
        ("said beside its reports", said[-2000:] or "nothing", not said),
    ]  # fmt: skip


async def soaked(
    options: argparse.Namespace, child: EngineChild, ready: Ready, folders: Sequence[Path]
) -> tuple[Soak, Found]:
    assert child.pid is not None
    assert ready.http is not None
    soak = Soak(ready, child.pid, options.seed, options.rate)
    process = psutil.Process(child.pid)
    staying = asyncio.create_task(soak.stay())
    warm = min(WARM_UP_S, options.minutes * 12)
    await soak.run(warm, warm / 4)
    await soak.at_rest()
    if options.minutes * 60 >= TELLING_S:
        await asyncio.to_thread(soak.fill_event_log)
    before = await least_held(process, ready.http, folders)
    soak.seen = Seen()
    await soak.run(options.minutes * 60)
    rest = await soak.at_rest()
    more = await left_over(before, process, ready.http, folders)
    staying.cancel()
    soak.watch.source.close()
    return soak, Found(before, more, rest)


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
        sockets, scratch = Path(name, "s"), Path(name, "tmp")
        for each in (sockets, scratch):
            each.mkdir(0o700)
        os.environ["KVTOP_SOCKET_DIR"] = str(sockets)
        log = Path(name, "log")
        child = EngineChild(
            ["--parent-stdin", "--ready-json", "--model", options.model, "--name", "soak", "--http", "127.0.0.1:0", *POOL,
             "--flight-minutes", "1", "--disk-path", str(scratch / "soak.kv"), "--set", "preempt_action=swap", "--set", "offload=on_evict"],
            log,
            {"TMPDIR": str(scratch), "XDG_STATE_HOME": str(Path(name, "state"))},
        )  # fmt: skip
        try:
            child.start()
            ready = child.wait_ready(lambda _: None, lambda _: None)
            soak, found = asyncio.run(soaked(options, child, ready, (sockets, scratch)))
        except Exception:
            print(f"    FAILED  before its end; the engine: {child.obituary()}", flush=True)
            raise
        finally:
            said = log.read_text(errors="replace")
            end = child.stop()
        dumps = sum(path.is_file() for path in Path(name, "state").rglob("*"))
        left = sorted(str(path.relative_to(name)) for each in (sockets, scratch) for path in each.rglob("*"))
    for what, count in sorted(soak.seen.counts.items()):
        print(f"{count:>10}  {what}")
    for kind in sorted(soak.kinds):
        why = f" (last: {soak.seen.refusals[kind]})" if kind in soak.seen.refusals else ""
        print(f"{soak.seen.done[kind]:>10}  {kind}, refused {soak.seen.refused[kind]}{why}")
    for what, count in soak.seen.failures.most_common():
        print(f"{count:>10}  failed: {what}")
    tenths = [statistics.median(part) / 2**20 for part in _parts(soak.seen.rss, 20)]
    print(f"{'':>10}  resident memory by twentieths, MiB: {' '.join(f'{part:.1f}' for part in tenths)}")
    # Files of the recorder are said to its log.
    said = "\n".join(line for line in said.splitlines() if "the flight recorder was written (" not in line)
    lines = judged(soak, found, end, left, dumps, said, options.minutes * 60)
    for what, value, fine in lines:
        print(f"{'ok' if fine else 'FAILED':>10}  {what}: {value}")
    return 0 if all(fine for _, _, fine in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
