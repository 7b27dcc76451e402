"""``GET /metrics``."""

import asyncio
import gzip
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from starlette.requests import Request
from starlette.responses import Response

from engine.http.gate import Gate
from engine.http.metrics.definitions import Moment
from engine.http.metrics.exposition import exposition
from engine.http.metrics.own import OWN
from engine.http.metrics.vllm import VLLM

LISTS = {"kvtop": OWN, "vllm": VLLM}
"""What can be asked for: by whose names."""

_WRITER = ThreadPoolExecutor(1, thread_name_prefix="http-metrics")
"""One thread, as one page is written at a time: those of the loop's own pool would come one by one over hours."""


class MetricsPage:
    """It answers whatever the engine does: before it is there, with what is known. ``names``: one of `LISTS`."""

    def __init__(self, gate: Gate, names: str, connections: Callable[[], int]) -> None:
        self._gate, self._metrics, self._connections = gate, LISTS[names], connections
        self.responses: Counter[tuple[str, str, int]] = Counter()
        self.aborts: Counter[str] = Counter()
        self._one = asyncio.Lock()

    async def metrics(self, request: Request) -> Response:
        accept = ", ".join(request.headers.getlist("accept"))
        packed = _takes_gzip(request.headers.get("accept-encoding", ""))
        # Beside the streams of others, and one after the other: whoever asks often takes no more of the engine's time.
        async with self._one:
            moment = self._moment()
            loop = asyncio.get_running_loop()
            body, kind = await loop.run_in_executor(_WRITER, self._write, moment, accept, packed)
        headers = {"Content-Type": kind, "Cache-Control": "no-store", "Vary": "Accept, Accept-Encoding"}
        return Response(body, headers=headers | ({"Content-Encoding": "gzip"} if packed else {}))

    def _moment(self) -> Moment:
        served = self._gate.served
        meter = None if served is None else served.server.meter
        return Moment(
            self._gate.status()[0],
            () if served is None else served.names,
            None if meter is None else meter.reading,
            dict(self.responses),
            dict(self.aborts),
            self._gate.active,
            self._connections(),
            len(asyncio.all_tasks()),
        )

    def _write(self, moment: Moment, accept: str, packed: bool) -> tuple[bytes, str]:
        body, kind = exposition(self._metrics, moment, accept)
        return (gzip.compress(body, 5) if packed else body), kind


def _takes_gzip(accept: str) -> bool:
    for each in accept.lower().split(","):
        coding, _, quality = each.partition(";")
        if coding.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
