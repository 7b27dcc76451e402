"""The hello: what this engine is, in the protocol's terms."""

import os
import socket
import time
import uuid
from collections.abc import Sequence

from engine.memory.groups import KVGroups
from engine.policies.policy_set import protocol_axes
from engine.serving.control import COMMANDS
from kvtop import __version__
from kvtop.protocol import EngineIdentity, Geometry, Hello, KVGroup, MemoryFacts, ModelFacts, PoolFacts


def hello(
    name: str,
    *,
    model: ModelFacts,
    blocks: int,
    lower_tiers: Sequence[tuple[str, int]] = (),
    block_size: int,
    cache_dtype: str,
    bytes_per_token: int,
    groups: KVGroups,
    memory: MemoryFacts | None = None,
    device: str,
    attention: str,
    max_model_len: int,
    windows: str | None = None,
    workload: str | None,
    notice: str | None,
    threads: int | None,
    seed: int,
    ledger_every: int,
    exposes_text: bool,
    http: str | None = None,
) -> Hello:
    """The first line for every peer. ``bytes_per_token`` counts K and V of all layers that a block holds; ``lower_tiers``:
    name and blocks."""
    capabilities = ["blocks", "requests", "queue", "events"]
    if exposes_text:
        capabilities.append("text")
    if lower_tiers:
        capabilities.append("tiers")
    return Hello(
        engine=EngineIdentity(
            name=name,
            kind="kvtop",
            version=__version__,
            run=uuid.uuid4().hex,
            pid=os.getpid(),
            host=socket.gethostname()[:256],
            started=time.time(),
            http=http,
        ),
        model=model,
        geometry=Geometry(
            block_size=block_size,
            cache_dtype=cache_dtype,
            bytes_per_token=bytes_per_token,
            groups=[
                KVGroup(window=window, layers=len(layers), padding_layers=groups.planes - len(layers))
                for window, layers in zip(groups.windows, groups.layers, strict=True)
            ],
            pools=[PoolFacts(tier=tier, blocks=count) for tier, count in (("device", blocks), *lower_tiers)],
        ),
        memory=memory,
        device=device,
        attention=attention,
        capabilities=capabilities,
        commands=COMMANDS,
        axes=protocol_axes(),
        limits={
            "max_model_len": max_model_len,
            "windows": windows,
            "seed": seed,
            "ledger_every": ledger_every,
            "threads": threads,
        },
        workload=workload,
        notice=notice,
    )


def after_switch(hello: Hello, cache_dtype: str, bytes_per_token: int) -> Hello:
    """The same engine with KV of another type: what that takes more is taken of the headroom."""
    geometry, memory = hello.geometry, hello.memory
    old, new = geometry.bytes_per_token, bytes_per_token
    if memory is not None and old:
        kv, host = (None if size is None else size * new // old for size in (memory.kv_bytes, memory.host_tier_bytes))
        more = (kv or 0) - (memory.kv_bytes or 0) + (host or 0) - (memory.host_tier_bytes or 0)
        left = None if memory.headroom_bytes is None else max(0, memory.headroom_bytes - more)
        memory = memory.model_copy(update={"kv_bytes": kv, "host_tier_bytes": host, "headroom_bytes": left})
    geometry = geometry.model_copy(update={"cache_dtype": cache_dtype, "bytes_per_token": new})
    return hello.model_copy(update={"geometry": geometry, "memory": memory})
