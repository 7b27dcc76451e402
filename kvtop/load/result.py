"""The result of a load as one document: the figures, and every variable that a fair comparison needs."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kvtop.errors import UserError, one_line

SCHEMA = "kvtop.load/1"


class Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, allow_inf_nan=False)


class Distribution(Part):
    """Seconds, or tokens. All null where there was nothing to measure."""

    count: int
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    maximum: float | None = None


class Client(Part):
    """The machine and the programs that sent."""

    kvtop: str
    python: str
    httpx: str
    platform: str
    cpu: str | None
    cores: int
    memory_bytes: int | None


class Server(Part):
    """What the server says of itself; null: it does not say."""

    url: str
    model: str
    owner: str | None = None
    root: str | None = Field(default=None, description="what the model was loaded from, without the folder")
    context: int | None = Field(default=None, description="tokens of the longest request")
    version: str | None = None
    software: str | None = Field(default=None, description="its Server header")
    rss_bytes: int | None = Field(default=None, description="highest resident memory seen, where it was sampled")


class Asked(Part):
    """What was sent, and when it was meant to be."""

    api: Literal["completions", "chat"]
    plain: bool = Field(description="only fields of OpenAI's own API: answers may end early")
    extensions: bool = Field(description="with priorities and cache salts")
    temperature: float
    arrivals: str
    plan: str
    digest: str = Field(description="of the plan: equal digests, equal requests in equal order")
    seed: int
    streams: int | None = Field(default=None, description="of a closed loop")
    left_out: int = Field(default=0, description="requests of a trace above the context")
    prompts_exact: bool = Field(description="whether prompts have the length asked for, by the server's own tokenizer")
    seconds: float
    requests: int | None
    warmup_seconds: float
    warmup_requests: int
    patience: float = Field(description="seconds for answers after the last request could be sent")
    timeout: float = Field(description="seconds a whole answer may take")
    open_requests: int = Field(description="most that the client holds open")


class Rates(Part):
    """A second, within the window."""

    offered: float = Field(description="requests that fell due")
    sent: float
    finished: float
    output_tokens: float
    prompt_tokens: float | None = Field(description="of requests finished; null: the server did not count")


class Failed(Part):
    kind: str
    count: int
    example: str


class Goodput(Part):
    """Requests within all bounds, of all that were measured; those that failed or were cut off are not."""

    bounds: dict[str, float] = Field(description="seconds: ttft, tpot, latency")
    met: int
    share: float
    rate: float


class Request(Part):
    """One measured request. Seconds from the start of the load."""

    index: int
    label: str
    session: int
    turn: int
    due: float
    sent: float | None
    ttft: float | None
    tpot: float | None
    latency: float | None
    prompt_asked: int
    prompt_tokens: int | None
    cached_tokens: int | None
    output_asked: int
    output_tokens: int
    finish_reason: str | None
    failure: str | None
    detail: str


class LoadResult(Part):
    schema_: Literal["kvtop.load/1"] = Field(default="kvtop.load/1", alias="schema")
    began: str = Field(description="UTC")
    command: list[str]
    notes: dict[str, str] = Field(default_factory=dict, description="what was said with --note")
    client: Client
    server: Server
    asked: Asked
    window: tuple[float, float] = Field(description="seconds from the start: what the figures are of")
    stopped: bool = Field(description="whether it was interrupted")
    counts: dict[str, int] = Field(description="sent, finished, failed, unfinished, warmup, overdue")
    failures: list[Failed]
    finish_reasons: dict[str, int]
    tokens_counted_by: Literal["usage", "chunks", "both", "none"]
    rates: Rates
    ttft: Distribution
    tpot: Distribution
    gap: Distribution = Field(description="seconds between pieces of text")
    latency: Distribution
    lateness: Distribution = Field(description="seconds from due to sent: the client's own fault")
    prompt: Distribution = Field(description="prompt tokens as the server counted them")
    output: Distribution = Field(description="output tokens")
    cached_share: float | None = Field(description="of the prompt tokens, found in the server's cache; null: not said")
    goodput: Goodput | None = None
    most_open: int
    client_cpu_s: float = Field(description="processor seconds that the client itself took")
    slices: list[float] = Field(description="output tokens in equal slices of the window")
    requests: list[Request]

    def dumps(self) -> str:
        return json.dumps(self.model_dump(by_alias=True), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


Result = TypeVar("Result", bound=Part)


def read_result(path: Path) -> LoadResult:
    """Raises `UserError` that names the file and the field."""
    return read_document(path, LoadResult, SCHEMA, "kvtop load")


def read_document(path: Path, kind: type[Result], schema: str, command: str) -> Result:
    """A result of that kind, whose schema is ``schema`` and which ``command`` writes. Raises `UserError` that names the file
    and the field."""
    try:
        document: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", code=2) from None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: not JSON", f"a result is written by: {command} … -o FILE", 2) from None
    told = document.get("schema") if isinstance(document, dict) else None
    if told != schema:
        raise UserError(f"{path}: no result of {command} (schema {one_line(told, 40)})", f"it needs {schema}", 2)
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path}: {place}: {one_line(first['msg'])}", code=2) from None


def distribution(values: Sequence[float]) -> Distribution:
    """Percentiles are values that occurred: the least one that at least such a share does not exceed."""
    return distribution_of_sorted(np.sort(np.array(values, np.float64)))


def distribution_of_sorted(ordered: NDArray[np.float64]) -> Distribution:
    """The same of values that rise, of which there may be too many for a copy."""
    count = len(ordered)
    if not count:
        return Distribution(count=0)

    def at(share: float) -> float:
        return float(ordered[max(0, math.ceil(share * count) - 1)])

    mean = math.fsum(ordered.data) / count
    return Distribution(count=count, mean=mean, p50=at(0.5), p90=at(0.9), p99=at(0.99), maximum=float(ordered[-1]))
