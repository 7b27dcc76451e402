"""One load of a benchmark: a closed loop of requests of one length, with the server's memory looked at meanwhile."""

from collections.abc import Callable, Mapping

from kvtop.bench.form import Form
from kvtop.bench.memory import resident_bytes, server_pid
from kvtop.bench.result import Cell
from kvtop.load.arrivals import Closed
from kvtop.load.driver import Limits, Tally
from kvtop.load.machine import room_for
from kvtop.load.plan import synthetic
from kvtop.load.result import LoadResult
from kvtop.load.run import Settings, run_load

MOST_SECONDS = 1800.0
"""After which a server has not answered what it was sent: a benchmark always ends."""

EVERY = 1.0
"""Seconds between two looks at the server's memory: each reads what all processes say of themselves."""

OnTick = Callable[[Tally], None]


async def measure(
    url: str,
    cell: Cell,
    form: Form,
    *,
    seed: int,
    model: str | None = None,
    token: str | None = None,
    notes: Mapping[str, str] | None = None,
    command: tuple[str, ...] = (),
    on_tick: OnTick = lambda _: None,
) -> LoadResult:
    """Raises `UserError` where the server cannot be loaded."""
    lengths = (cell.prompt_tokens, cell.prompt_tokens), (cell.output_tokens, cell.output_tokens)
    plan = synthetic(*lengths, shared=0, groups=1, seed=seed)
    pid, most, looked = server_pid(url), 0, -EVERY

    def look(tally: Tally) -> None:
        nonlocal most, looked
        if pid is not None and tally.elapsed - looked >= EVERY:
            most, looked = max(most, resident_bytes(pid) or 0), tally.elapsed
        on_tick(tally)

    result = await run_load(
        Settings(
            url=url,
            plan=lambda _: (plan, Closed(cell.streams)),
            limits=Limits(
                MOST_SECONDS,
                form.requests,
                open_requests=room_for(cell.streams),
                warmup_requests=form.warmup_requests,
            ),
            seed=seed,
            model=model,
            token=token,
            notes={**(notes or {}), **({} if cell.threads is None else {"threads": str(cell.threads)})},
            command=command,
        ),
        on_tick=look,
    )
    return result.model_copy(update={"server": result.server.model_copy(update={"rss_bytes": most or None})})
