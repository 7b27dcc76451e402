"""One load from its settings to its result."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kvtop.errors import UserError
from kvtop.load.arrivals import Arrivals, Closed
from kvtop.load.asking import ServerFacts, ask, without_folder, writer_for
from kvtop.load.client import Client, http_client
from kvtop.load.driver import Driver, Limits, Tally
from kvtop.load.machine import client_facts
from kvtop.load.plan import Plan
from kvtop.load.prompts import Writer
from kvtop.load.result import Asked, LoadResult, Server
from kvtop.load.summary import summarise
from kvtop.load.target import Api, Dialect

TICK = 0.25
"""Seconds between two looks at the tally for whoever watches."""


@dataclass(frozen=True)
class Settings:
    """``plan`` makes plan and arrivals, given what the server says of itself."""

    url: str
    plan: Callable[[ServerFacts], tuple[Plan, Arrivals]]
    limits: Limits
    seed: int = 0
    model: str | None = None
    api: Api = "completions"
    plain: bool = False
    extensions: bool | None = None
    """None: where the server is kvtop's own."""
    temperature: float = 0.0
    timeout: float = 300.0
    bounds: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    token: str | None = None


@dataclass
class Running:
    """What `run_load` gives to who watches it, once it sends."""

    driver: Driver
    facts: ServerFacts


async def run_load(
    settings: Settings,
    *,
    on_start: Callable[[Running], None] = lambda _: None,
    on_tick: Callable[[Tally], None] | None = None,
) -> LoadResult:
    """Asks the server what it is, sends the plan, and returns what came of it. Raises `UserError` before anything is sent."""
    limits = settings.limits
    async with http_client(settings.url, settings.token, timeout=settings.timeout) as http:
        facts = await ask(http, settings.model)
        plan, arrivals = settings.plan(facts)
        _check_streams(arrivals, limits)
        writer = await writer_for(http, facts.model)
        extensions = facts.owner == "kvtop" if settings.extensions is None else settings.extensions
        dialect = Dialect(
            facts.model,
            settings.api,
            settings.plain,
            extensions,
            settings.temperature,
            None if settings.plain else settings.seed,
        )
        client = Client(http, dialect, writer, settings.timeout)
        driver = Driver(plan, arrivals, client.prepare, limits, settings.seed)
        on_start(Running(driver, facts))
        began, busy = datetime.now(UTC), time.process_time()
        watching = asyncio.create_task(_watch(driver, on_tick)) if on_tick else None
        try:
            tally = await driver.run()
        finally:
            if watching is not None:
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching
        busy = time.process_time() - busy
    if on_tick is not None:
        on_tick(tally)
    return LoadResult(
        began=began.isoformat(timespec="seconds"),
        command=list(settings.command),
        notes=dict(settings.notes),
        client=client_facts(),
        server=Server(
            url=settings.url,
            model=without_folder(facts.model),
            owner=facts.owner,
            root=None if facts.root is None else without_folder(facts.root),
            context=facts.context,
            version=facts.version,
            software=facts.software,
        ),
        asked=_asked(settings, limits, plan, arrivals, writer, extensions),
        client_cpu_s=busy,
        **summarise(tally, settings.bounds),
    )


def _check_streams(arrivals: Arrivals, limits: Limits) -> None:
    if isinstance(arrivals, Closed) and arrivals.streams > limits.open_requests:
        raise UserError(
            f"{arrivals.streams} streams have as many requests open, and {limits.open_requests} may be at a time",
            f"allow them: --open {arrivals.streams}",
            2,
        )


def _asked(
    settings: Settings, limits: Limits, plan: Plan, arrivals: Arrivals, writer: Writer, extensions: bool
) -> Asked:
    return Asked(
        api=settings.api,
        plain=settings.plain,
        extensions=extensions,
        temperature=settings.temperature,
        arrivals=arrivals.describe(plan.unit),
        plan=plan.describe,
        digest=plan.digest(),
        seed=settings.seed,
        streams=arrivals.streams if isinstance(arrivals, Closed) else None,
        left_out=plan.left_out,
        prompts_exact=writer.exact,
        seconds=limits.seconds,
        requests=limits.requests,
        warmup_seconds=limits.warmup_seconds,
        warmup_requests=limits.warmup_requests,
        patience=limits.patience,
        timeout=settings.timeout,
        open_requests=limits.open_requests,
    )


async def _watch(driver: Driver, on_tick: Callable[[Tally], None]) -> None:
    while True:
        await asyncio.sleep(TICK)
        on_tick(driver.look())
