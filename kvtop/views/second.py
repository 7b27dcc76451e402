"""What is told of a second of an engine's life: levels, rates, latencies; in the bundle and in what is exported."""

from dataclasses import dataclass

from kvtop.state import EngineState


@dataclass(slots=True)
class Second:
    """Levels at the end of a second of the engine's clock, and what was done in it. None is unknown."""

    wall: float
    iteration: int | None
    kv_used: int | None
    kv_total: int | None
    running: int | None
    waiting: int | None
    prefill_per_s: float | None
    decode_per_s: float | None
    preemptions: int | None
    ttft_p50: float | None
    ttft_p95: float | None
    tpot_p50: float | None
    tpot_p95: float | None


def second_of(state: EngineState) -> Second:
    """``state``, of which a frame has been heard."""
    assert state.wall is not None
    ttft, tpot = state.ttft.summary(state.mono), state.tpot.summary(state.mono)
    return Second(
        wall=state.wall,
        iteration=state.iteration if state.counts_iterations else None,
        kv_used=_used(state),
        kv_total=_whole(state.gauges.get("kv_blocks_total")),
        running=_whole(state.gauges.get("running")),
        waiting=_whole(state.gauges.get("waiting")),
        prefill_per_s=state.rates.per_second("prefill_tokens", state.mono),
        decode_per_s=state.rates.per_second("decode_tokens", state.mono),
        preemptions=_whole(state.counters.get("preemptions")),
        ttft_p50=None if ttft is None else ttft.p50,
        ttft_p95=None if ttft is None else ttft.p95,
        tpot_p50=None if tpot is None else tpot.p50,
        tpot_p95=None if tpot is None else tpot.p95,
    )


def _used(state: EngineState) -> int | None:
    """Blocks in at least one block table."""
    active, shared = state.gauges.get("kv_blocks_active"), state.gauges.get("kv_blocks_shared")
    return None if active is None or shared is None else int(active + shared)


def _whole(number: int | float | None) -> int | None:
    return None if number is None else int(number)
