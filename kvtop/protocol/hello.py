"""The first line each way: who speaks, in which version, and what the numbers that follow refer to."""

from typing import Literal

from pydantic import Field

from kvtop.protocol.base import PROTOCOL_VERSION, Message

PolicyValue = bool | int | float | str

BLOCK_STATES: tuple[str, ...] = (
    "free",
    "cached",
    "active",
    "shared",
    "copying",
    "transfer",
    "pinned",
    "reserved",
)
"""Names behind the state codes of a block run; the hello carries its own copy, which is the one that counts."""


class EngineIdentity(Message):
    """Which engine this is. ``run`` differs after every restart, so a viewer never joins two lives into one."""

    name: str = Field(max_length=128, description="the name of its socket")
    kind: str = Field(max_length=64, description="kvtop, vllm, sglang, llama.cpp, tensorrt-llm, …")
    version: str = Field(max_length=64)
    run: str = Field(max_length=64, description="unique for each start of the engine")
    pid: int | None = None
    host: str | None = Field(default=None, max_length=256)
    started: float | None = Field(default=None, description="start of the engine, Unix seconds")


class ModelFacts(Message):
    """The model being served and how it is held in memory."""

    name: str = Field(max_length=256)
    revision: str | None = Field(default=None, max_length=128, description="checksum or revision of the weights")
    random_weights: bool = Field(default=False, description="true: weights are noise, text is meaningless")
    weight_dtype: str | None = None
    layers: int | None = None
    hidden: int | None = None
    query_heads: int | None = None
    kv_heads: int | None = None
    head_size: int | None = None
    vocabulary: int | None = None
    context_tokens: int | None = None


class PoolFacts(Message):
    """One pool of blocks: a tier and a KV group."""

    tier: str = Field(description="device, host, disk")
    group: int = Field(default=0, description="KV group (layers that share a block table)")
    blocks: int = Field(ge=0)


class Geometry(Message):
    """How KV memory is cut up. Absent parts are not exposed by this engine."""

    block_size: int | None = Field(default=None, description="tokens a block holds")
    cache_dtype: str | None = None
    bytes_per_token: int | None = Field(default=None, description="KV bytes of one token over all layers")
    pools: list[PoolFacts] = Field(default_factory=list)


class PolicyAxis(Message):
    """One thing about scheduling that can be changed while the engine serves."""

    name: str = Field(max_length=64)
    kind: Literal["choice", "bool", "int", "float"]
    help: str = Field(default="", max_length=1000)
    choices: dict[str, str] = Field(default_factory=dict, description="for kind choice: value -> what it does")
    minimum: float | None = None
    maximum: float | None = None
    unit: str | None = None


class Hello(Message):
    """Engine to viewer, first line on either socket."""

    type: Literal["hello"] = "hello"
    protocol: str = Field(default=PROTOCOL_VERSION, max_length=16)
    engine: EngineIdentity
    model: ModelFacts
    geometry: Geometry = Field(default_factory=Geometry)
    device: str | None = Field(default=None, max_length=128)
    attention: str | None = Field(default=None, max_length=64, description="attention backend")
    capabilities: list[str] = Field(
        default_factory=list,
        description="what it exposes: blocks, requests, queue, events, tiers, text; unlisted means not exposed",
    )
    commands: list[str] = Field(default_factory=list, description="command types the control socket takes")
    block_states: list[str] = Field(default_factory=lambda: list(BLOCK_STATES))
    axes: list[PolicyAxis] = Field(default_factory=list)
    limits: dict[str, int | float | str | None] = Field(
        default_factory=dict, description="fixed settings a fair comparison needs"
    )
    workload: str | None = Field(default=None, max_length=500, description="what drives it, with the scale")
    notice: str | None = Field(
        default=None, max_length=500, description="shown on the screen as long as it is attached"
    )


class ClientHello(Message):
    """Viewer or controller to engine; optional on the observing socket, so that ``socat`` works unaided."""

    type: Literal["hello"] = "hello"
    protocol: str = Field(default=PROTOCOL_VERSION, max_length=16)
    client: str = Field(default="", max_length=128)
    fps: float | None = Field(default=None, gt=0, le=1000, description="at most so many frames a second; absent: all")
