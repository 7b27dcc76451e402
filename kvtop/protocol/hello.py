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
    version: str = Field(max_length=64, description="of the engine")
    run: str = Field(max_length=64, description="unique for each start of the engine")
    pid: int | None = Field(default=None, description="process id of the scheduler")
    host: str | None = Field(default=None, max_length=256, description="name of the machine")
    started: float | None = Field(default=None, description="start of the engine, Unix seconds")
    http: str | None = Field(default=None, max_length=300, description="URL at which it takes requests; null: nowhere")


class ModelFacts(Message):
    """The model being served and how it is held in memory."""

    name: str = Field(max_length=256, description="name of the model")
    revision: str | None = Field(default=None, max_length=128, description="checksum or revision of the weights")
    random_weights: bool = Field(default=False, description="true: weights are noise, text is meaningless")
    weight_dtype: str | None = Field(default=None, description="element type of the weights")
    layers: int | None = Field(default=None, description="decoder layers")
    hidden: int | None = Field(default=None, description="width of the residual stream")
    query_heads: int | None = Field(default=None, description="query heads of a layer")
    kv_heads: int | None = Field(default=None, description="key/value heads of a layer")
    head_size: int | None = Field(default=None, description="width of one head")
    vocabulary: int | None = Field(default=None, description="tokens in the vocabulary")
    context_tokens: int | None = Field(default=None, description="longest sequence, tokens")


class PoolFacts(Message):
    """One pool of blocks: a tier, whose blocks all KV groups share."""

    tier: str = Field(description="device, host, disk")
    group: int = Field(default=0, description="KV group, for engines whose groups have pools of their own")
    blocks: int = Field(ge=0, description="blocks in the pool")


class KVGroup(Message):
    """Layers that share their blocks. A block holds tokens of one group."""

    window: int | None = Field(default=None, description="tokens that its layers see; null: all")
    layers: int = Field(ge=0, description="layers in the group")
    padding_layers: int = Field(
        default=0, ge=0, description="layers that its blocks have room for beyond those, to be as large as the others'"
    )


class Geometry(Message):
    """How KV memory is cut up. Absent parts are not exposed by this engine."""

    block_size: int | None = Field(default=None, description="tokens a block holds")
    cache_dtype: str | None = Field(default=None, description="element type of the KV cache")
    bytes_per_token: int | None = Field(
        default=None,
        description="KV bytes of one token in one block: over the layers of one KV group, padding included",
    )
    groups: list[KVGroup] = Field(
        default_factory=list,
        description="KV groups; a sequence needs a block of each for every block_size tokens. Empty: one group",
    )
    pools: list[PoolFacts] = Field(default_factory=list, description="every pool of blocks")

    @property
    def group_count(self) -> int:
        """KV groups, 1 where nothing is said of them."""
        return max(1, len(self.groups))

    @property
    def padding_share(self) -> float:
        """What of the KV memory of a token that all groups hold is padding, 0 to 1."""
        padding = sum(group.padding_layers for group in self.groups)
        return padding / max(1, padding + sum(group.layers for group in self.groups))

    @property
    def padding_bytes_per_token(self) -> int | None:
        """That in bytes; None where the engine does not say what a token takes."""
        if self.bytes_per_token is None:
            return None
        return round(self.bytes_per_token * self.group_count * self.padding_share)


class MemoryFacts(Message):
    """What the engine takes of the memory that its blocks are in, when it started. The parts together are the total."""

    what: str = Field(default="", max_length=128, description="which memory that is, and what bounds it")
    total_bytes: int | None = Field(default=None, ge=0, description="memory there is")
    weights_bytes: int | None = Field(default=None, ge=0, description="the model's weights")
    runtime_bytes: int | None = Field(
        default=None,
        ge=0,
        description="the rest of the engine's process: libraries, tables, and what an iteration computes with at most",
    )
    kv_bytes: int | None = Field(default=None, ge=0, description="all blocks of the device's pool, used or not")
    host_tier_bytes: int | None = Field(
        default=None, ge=0, description="all blocks of the host tier, where it is in the same memory"
    )
    others_bytes: int | None = Field(default=None, ge=0, description="taken by others than this engine")
    headroom_bytes: int | None = Field(default=None, ge=0, description="what the engine leaves free")


class PolicyAxis(Message):
    """One thing about scheduling that can be changed while the engine serves."""

    name: str = Field(max_length=64, description="name of the axis, as in set_policy")
    kind: str = Field(max_length=16, description="what values it takes: choice, bool, int, float")
    help: str = Field(default="", max_length=1000, description="what it decides")
    choices: dict[str, str] = Field(default_factory=dict, description="for kind choice: value -> what it does")
    minimum: float | None = Field(default=None, description="smallest value, for numbers")
    maximum: float | None = Field(default=None, description="largest value, for numbers")
    unit: str | None = Field(default=None, description="unit of the number")
    transition: bool | None = Field(
        default=None,
        description="whether the present state may break a new value, so that the transition of set_policy matters; "
        "of numbers: where they are lowered. Null: the engine does not say",
    )
    transition_values: list[str] = Field(
        default_factory=list, description="for kind choice: the values that it may break; empty: any"
    )

    def asks_transition(self, old: PolicyValue | None, new: PolicyValue) -> bool:
        """Whether it matters how the engine goes from ``old`` (None: unknown) to ``new``; where unknown, it may."""
        if self.transition is None:
            return True
        if not self.transition:
            return False
        if self.kind in ("int", "float") and isinstance(old, int | float) and isinstance(new, int | float):
            return new < old
        return not self.transition_values or new in self.transition_values


class Hello(Message):
    """Engine to viewer, first line on either socket."""

    type: Literal["hello"] = "hello"
    protocol: str = Field(
        default=PROTOCOL_VERSION, max_length=16, description="MAJOR.MINOR; another major version is refused"
    )
    engine: EngineIdentity = Field(description="who speaks")
    model: ModelFacts = Field(description="what it serves")
    geometry: Geometry = Field(default_factory=Geometry, description="how its KV memory is cut up")
    memory: MemoryFacts | None = Field(default=None, description="what it takes of the memory there is")
    device: str | None = Field(default=None, max_length=128, description="what it runs on")
    attention: str | None = Field(default=None, max_length=64, description="attention backend")
    capabilities: list[str] = Field(
        default_factory=list,
        description="what it exposes: blocks, requests, queue, events, tiers, text; unlisted means not exposed",
    )
    commands: list[str] = Field(default_factory=list, description="command types the control socket takes")
    block_states: list[str] = Field(
        default_factory=lambda: list(BLOCK_STATES), description="names behind the state codes of block runs"
    )
    axes: list[PolicyAxis] = Field(default_factory=list, description="policies that can be changed while it runs")
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
    protocol: str = Field(
        default=PROTOCOL_VERSION, max_length=16, description="MAJOR.MINOR; another major version is refused"
    )
    client: str = Field(default="", max_length=128, description="name of the program, for logs")
    fps: float | None = Field(default=None, gt=0, le=1000, description="at most so many frames a second; absent: all")
