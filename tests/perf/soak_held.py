"""What an engine's process holds, as it is seen from outside."""

import asyncio
import contextlib
import os
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import psutil
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Held:
    """Counts of one moment."""

    files: Counter[str]
    """Descriptors, by what they are of."""
    threads: int
    children: int
    sockets: Counter[str]
    """By kind and state."""
    tasks: int
    """Of the HTTP server's event loop, as /metrics tells."""
    connections: int
    """The same."""
    lying: Counter[str]
    """Files and folders in the folders that are the engine's own, by name."""

    def more_than(self, other: "Held") -> "Held":
        """What is here and is not there."""

        def more(mine: int | Counter[str], theirs: int | Counter[str]) -> int | Counter[str]:
            return mine - theirs if isinstance(mine, Counter) else max(0, mine - theirs)  # type: ignore[operator,type-var]

        return Held(**{each.name: more(getattr(self, each.name), getattr(other, each.name)) for each in fields(self)})

    @property
    def nothing(self) -> bool:
        return not any(getattr(self, each.name) for each in fields(self))


def metrics(url: str) -> dict[str, float]:
    """What /metrics tells without labels."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60.0) as answer:
        text = answer.read().decode()
    return {s.name: s.value for f in text_string_to_metric_families(text) for s in f.samples if not s.labels}


def held(process: psutil.Process, url: str, folders: Sequence[Path]) -> Held:
    """``folders``: where it may have files. Its own view of itself is asked for first: that opens a connection."""
    told = metrics(url)
    return Held(
        files=_descriptors(process),
        threads=process.num_threads(),
        children=len(process.children(recursive=True)),
        sockets=Counter(f"{each.family.name} {each.status}" for each in process.net_connections("all")),
        tasks=round(told["kvtop_http_tasks"]),
        connections=round(told["kvtop_http_connections"]),
        lying=Counter(str(path.relative_to(folder)) for folder in folders for path in folder.rglob("*")),
    )


def _descriptors(process: psutil.Process) -> Counter[str]:
    """By path, or kind where there is none; sockets that are bound to nothing among them."""
    folder = Path(f"/proc/{process.pid}/fd")
    if not folder.is_dir():
        return Counter({"of any kind": process.num_fds()})
    found: Counter[str] = Counter()
    for each in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since
            target = os.readlink(each)
            found[target.partition(":")[0] if target.startswith(("socket:", "pipe:")) else target] += 1
    return found


async def least_held(process: psutil.Process, url: str, folders: Sequence[Path], looks: int = 5) -> Held:
    """The least of several looks: what is on its way out at one of them is no measure for later."""
    found = []
    for _ in range(looks):
        await asyncio.sleep(1.0)
        found.append(await asyncio.to_thread(held, process, url, folders))

    def least(name: str) -> int | Counter[str]:
        values = [getattr(each, name) for each in found]
        if not isinstance(values[0], Counter):
            return min(values)
        least = values[0]
        for each in values[1:]:
            least &= each
        return least

    return Held(**{each.name: least(each.name) for each in fields(Held)})


async def left_over(
    before: Held, process: psutil.Process, url: str, folders: Sequence[Path], within: float = 60.0
) -> Held:
    """What is held beyond ``before``, once that is nothing or for so long; and what is held."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within
    while True:
        more = (await asyncio.to_thread(held, process, url, folders)).more_than(before)
        if more.nothing or loop.time() > until:
            return more
        await asyncio.sleep(1.0)
