"""Latencies as they are first told of a request, dated for percentiles over a window."""

from kvtop.state.percentiles import Latencies
from kvtop.state.request_row import RequestRow


def sample_change(
    ttft: Latencies, tpot: Latencies, mono: float, had: tuple[float | None, float | None] | None, row: RequestRow
) -> None:
    """Those that a frame of the engine's time ``mono`` told first; ``had``: what was known of both before."""
    had_ttft, had_tpot = had or (None, None)
    if had_ttft is None and row.ttft_s is not None:
        ttft.add(mono, row.ttft_s)
    if had_tpot is None and row.tpot_s is not None:
        tpot.add(mono, row.tpot_s)


def sample_known(ttft: Latencies, tpot: Latencies, known: RequestRow | None, row: RequestRow) -> None:
    """Those that a keyframe tells, dated as well as its times allow; ``known``: the request as it was before, if it was."""
    since = row.phase_since
    if since is None:
        return
    if row.tpot_s is not None and row.finished and (known is None or known.tpot_s is None):
        tpot.add(since, row.tpot_s)
    if row.ttft_s is not None and (known is None or known.ttft_s is None):
        if row.state == "decode":
            ttft.add(since, row.ttft_s)
        elif row.finished and row.decode_s is not None:
            ttft.add(since - row.decode_s, row.ttft_s)
