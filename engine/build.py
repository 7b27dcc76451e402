"""Puts an engine together from its configuration: model, pool, scheduler, runner, telemetry, publisher, workload."""

import math
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict

import torch

from engine.config import EngineConfig
from engine.core import Engine
from engine.footprint.plan import DoesNotFit
from engine.kv_storage import KVStorage
from engine.loading import BuildError as BuildError
from engine.loading import device_name, device_of, facts_told, load
from engine.memory.pool import BlockPool
from engine.memory.window import describe_windows
from engine.model.attention import TRITON_READS, AttentionBackend, AttentionError, attention_backend
from engine.model.fetch import cache_folder
from engine.model.kv_cache import KVCache, KVCacheError, kv_bytes_per_token
from engine.model.load import LoadedModel
from engine.model.paged_tensor import KV_DTYPES, KVDtype, kv_dtype
from engine.model.runner import ModelRunner
from engine.policies.policy_set import PolicySet
from engine.pool_size import PoolSize, facts_of, size_pool
from engine.requests.batch import BatchItem
from engine.requests.request import Request
from engine.scheduling.scheduler import Scheduler
from engine.serving.describe import hello
from engine.serving.server import Server
from engine.serving.submission import Vocabulary
from engine.serving.telemetry import Telemetry
from engine.tiers import scratch
from engine.tiers.opening import open_stores, open_tiers
from engine.tiers.store import StoreError
from engine.tiers.tiers import Tiers
from engine.workload.arrivals import MixWorkload
from kvtop.mixes import MIXES, scale_for
from kvtop.protocol import Hello, PolicyValue
from kvtop.publish import Publisher

DEFAULT_BLOCKS, DEFAULT_BLOCK_SIZE = 512, 16
MIX_BLOCKS, MIX_BLOCK_SIZE = 256, 8
"""Less than the demo's mix needs, on purpose: queueing and preemption are what there is to see."""

MIX_POLICIES: dict[str, PolicyValue] = {"token_budget": 128}
"""Small iterations, so that the screen moves several times a second on two slow cores."""

MIX_QUEUE = 16
"""Waiting requests at which the mix holds its arrivals back, so that waiting times stay those of a busy engine."""

MIX_RATES = (0.2, 30.0)


def build(
    config: EngineConfig,
    progress: Callable[[str, int, int | None], None],
    say: Callable[[str], None],
    *,
    fallback_random: bool = False,
    folder: Path | None = None,
    http: str | None = None,
) -> Server:
    """A server that is ready to run; its publisher is not started. Raises `BuildError`.

    ``progress(what, done, total)`` in bytes, ``say(sentence)``: for whoever waits. ``fallback_random``: serve random
    weights when the model cannot be had, and say so on every screen. ``folder``: where the sockets go. ``http``: where
    it is asked over HTTP, for viewers to know.
    """
    with ExitStack() as opened:
        server = _build(config, progress, say, opened, fallback_random=fallback_random, folder=folder, http=http)
        opened.pop_all()
    return server


def _build(
    config: EngineConfig,
    progress: Callable[[str, int, int | None], None],
    say: Callable[[str], None],
    opened: ExitStack,
    *,
    fallback_random: bool,
    folder: Path | None,
    http: str | None,
) -> Server:
    """``opened`` ends what the server would have ended, where it does not come to be."""
    policies = PolicySet.of((MIX_POLICIES if config.workload in MIXES else {}) | config.policies)
    device = device_of(config.device)
    if config.attention != "auto":  # before a model is loaded for it
        _attention(config.attention, device, TRITON_READS[0] if config.kv_dtype == "auto" else config.kv_dtype)
    model, notice = load(config, device, progress, say, fallback_random=fallback_random)
    cache_dtype = kv_dtype(_kv_dtype(config, model))
    policies = policies.changed({"kv_dtype": cache_dtype.name})
    memory = _memory(config, model, policies, cache_dtype, device, say)
    backend = config.attention
    if backend == "auto":
        backend = "triton" if device == "cuda" and cache_dtype.name in TRITON_READS else "torch"
    runner = ModelRunner(model.decoder, memory.cache, _attention(backend, device, cache_dtype.name), seed=config.seed)
    engine = _engine(config, model, policies, memory, runner, backend, say, opened)
    workload = _workload(config, model, policies, memory, runner, say)
    telemetry = Telemetry(
        engine,
        bytes_per_token=memory.cache.bytes_per_token,
        attention_mode=backend,
        token_bytes=model.tokenizer.token_bytes if config.expose_text else None,
    )
    if notice is not None:
        telemetry.event("notice", severity="warn", detail=notice)
    if http is not None:
        telemetry.event("notice", detail=f"takes requests at {http}")
    greeting = _greeting(config, model, memory, engine, device, backend, workload, notice, http)
    return Server(
        engine,
        telemetry,
        # Keyframes only for those who ask: frames keep everybody else up to date.
        Publisher(greeting, folder, keyframe_every=math.inf, flight=config.flight),
        vocabulary=Vocabulary(model.config.vocab, model.config.eos_ids, model.tokenizer.token_bytes),
        tokenizer=model.tokenizer,
        arrivals=None if workload is None else workload.arrivals(),
        expose_text=config.expose_text,
        queue_limit=MIX_QUEUE,
        ledger_every=config.ledger_every,
        watchdog=config.watchdog,
    )


@dataclass(frozen=True, slots=True)
class _Memory:
    """What the pool's blocks are: their KV, their books, and what of the machine's memory that makes. ``max_model_len``:
    tokens of a request that they and the model have room for."""

    sized: PoolSize
    cache: KVCache
    pool: BlockPool
    max_model_len: int


def _memory(
    config: EngineConfig,
    model: LoadedModel,
    policies: PolicySet,
    cache_dtype: KVDtype,
    device: str,
    say: Callable[[str], None],
) -> _Memory:
    facts, groups, mix = model.config, model.decoder.groups, MIXES.get(config.workload)
    block_size = config.block_size or (MIX_BLOCK_SIZE if mix is not None else DEFAULT_BLOCK_SIZE)
    try:
        sized = size_pool(
            config,
            model.decoder,
            policies,
            default=MIX_BLOCKS if mix is not None else DEFAULT_BLOCKS,
            block_size=block_size,
            block_bytes=block_size * kv_bytes_per_token(groups.planes, facts.kv_heads, facts.head_size, cache_dtype),
        )
    except DoesNotFit as error:
        raise BuildError(str(error), error.hint) from None
    if sized.footprint is not None:
        say(f"memory: {sized.footprint}")
    try:
        cache = KVCache(
            layers=groups.planes,
            blocks=sized.blocks,
            block_size=block_size,
            kv_heads=facts.kv_heads,
            head_size=facts.head_size,
            dtype=cache_dtype,
            device=device,
        )
    except KVCacheError as error:
        raise BuildError(str(error), f"give {config.pool_option} less") from None
    pool = BlockPool(sized.blocks, block_size, windows=groups.windows)
    return _Memory(sized, cache, pool, _max_model_len(config, facts.context, pool))


def _max_model_len(config: EngineConfig, context: int, pool: BlockPool) -> int:
    """Raises `BuildError` where the pool has room for no request, or for less than was asked for."""
    room = pool.tokens_in(pool.total)
    most = min(context, room)
    if most < 2:
        raise BuildError(
            f"{pool.total} blocks of {pool.block_size} tokens have no room for a prompt and an answer",
            "give more",
            code=2,
        )
    if config.max_model_len > most:
        raise BuildError(
            f"requests of {config.max_model_len} tokens: the model has a context of {context}, and {pool.total} blocks have "
            f"room for {room}",
            "give --max-model-len less, or more blocks",
        )
    return config.max_model_len or most


def _engine(
    config: EngineConfig,
    model: LoadedModel,
    policies: PolicySet,
    memory: _Memory,
    runner: ModelRunner,
    backend: str,
    say: Callable[[str], None],
    opened: ExitStack,
) -> Engine:
    """Scheduler and tiers over the pool, which the runner computes on."""
    facts, groups, pool = model.config, model.decoder.groups, memory.pool
    sizes = _sizes(config, say)
    tiers = _tiers(pool, memory.cache, sizes)
    if tiers is not None:
        opened.callback(tiers.close)
    scheduler = Scheduler(
        pool,
        policies,
        max_model_len=memory.max_model_len,
        tiers=tiers,
        kv_dtypes=TRITON_READS if backend == "triton" else tuple(KV_DTYPES),
    )
    scheduler.kv_types.bytes_of = lambda name: kv_bytes_per_token(
        groups.planes, facts.kv_heads, facts.head_size, kv_dtype(name)
    )
    scheduler.kv_types.most_bytes = memory.sized.most_bytes_per_token(
        (pool.total + (0 if tiers is None else config.host_blocks)) * pool.block_size
    )
    return Engine(scheduler, runner, storage=KVStorage(runner, tiers=tiers, open_stores=partial(open_stores, **sizes)))


def _workload(
    config: EngineConfig,
    model: LoadedModel,
    policies: PolicySet,
    memory: _Memory,
    runner: ModelRunner,
    say: Callable[[str], None],
) -> MixWorkload | None:
    """As fast as this machine takes it, which is measured; None where none was asked for."""
    mix = MIXES.get(config.workload)
    if mix is None:
        return None
    pool = memory.pool
    say("measuring how fast this machine is")
    return MixWorkload(
        model.tokenizer.encode_prompt,
        scale_for(pool.tokens_in(pool.total), memory.max_model_len, mix),
        rate=config.rate or _rate(runner, policies.token_budget, pool, mix.load),
        seed=config.seed,
        mix=mix,
    )


def _greeting(
    config: EngineConfig,
    model: LoadedModel,
    memory: _Memory,
    engine: Engine,
    device: str,
    backend: str,
    workload: MixWorkload | None,
    notice: str | None,
    http: str | None,
) -> Hello:
    """What viewers are told first."""
    facts, tiers = model.config, engine.scheduler.tiers
    return hello(
        config.name,
        model=facts_told(model),
        blocks=memory.pool.total,
        lower_tiers=() if tiers is None else [(books.name, books.slots) for books in tiers.books],
        block_size=memory.pool.block_size,
        cache_dtype=memory.cache.dtype.name,
        bytes_per_token=memory.cache.bytes_per_token,
        groups=model.decoder.groups,
        memory=facts_of(memory.sized.footprint),
        device=device_name(device),
        attention=backend,
        max_model_len=memory.max_model_len,
        windows=describe_windows(facts.windows) if facts.windows else None,
        workload=None if workload is None else workload.describe(),
        notice=notice,
        threads=torch.get_num_threads() if device == "cpu" else None,
        seed=config.seed,
        ledger_every=config.ledger_every,
        exposes_text=config.expose_text,
        http=http,
    )


def _attention(name: str, device: str, dtype: str) -> AttentionBackend:
    try:
        return attention_backend(name, device, kv_dtype(dtype))
    except AttentionError as error:
        raise BuildError(str(error), "use --attention torch") from None


class _TierSizes(TypedDict):
    host_blocks: int
    disk_blocks: int
    disk_path: Path


def _sizes(config: EngineConfig, say: Callable[[str], None]) -> _TierSizes:
    """What `open_tiers` needs to know. Makes the folder of the disk tier's file where none was named, and removes what
    killed engines have left there."""
    path = Path(config.disk_path).expanduser()
    if config.disk_blocks and not config.disk_path:
        folder = cache_folder() / "kv"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            why = f"disk tier: no folder can be made at {folder}: {error.strerror}"
            raise BuildError(why, "give --disk-path a file, or set KVTOP_CACHE_DIR to a folder of yours") from None
        for left in scratch.sweep(folder):
            say(f"removed {left.path}, {left.bytes / 2**20:.1f} MiB: the engine that made it was killed")
        # Its own for each run: engines of one name may run on several machines that share a home.
        path = folder / f"{config.name}-{secrets.token_hex(4)}{scratch.SUFFIX}"
    return {"host_blocks": config.host_blocks, "disk_blocks": config.disk_blocks, "disk_path": path}


def _tiers(pool: BlockPool, cache: KVCache, sizes: _TierSizes) -> Tiers | None:
    try:
        return open_tiers(pool, cache.parts, **sizes)
    except StoreError as error:
        raise BuildError(str(error), "give --host-blocks or --disk-blocks less, or another --disk-path") from None


def _kv_dtype(config: EngineConfig, model: LoadedModel) -> str:
    """The element type to start with, which ``--kv-dtype`` and the policy of that name both can choose."""
    asked = (config.kv_dtype, str(config.policies.get("kv_dtype", "auto")))
    return next((name for name in asked if name != "auto"), model.weight_dtype)


def _rate(runner: ModelRunner, budget: int, pool: BlockPool, load: float) -> float:
    """Arrivals a second that keep this machine a little more than busy, from the time of one full iteration: so many as
    ``load`` in it, for each is more than one iteration's worth of work.

    Runs on blocks of a pool that nobody uses yet; what it writes there is never read.
    """
    tokens = min(budget, pool.tokens_in(pool.total))
    probe = Request(
        num=0,
        id="probe",
        token_ids=[0] * tokens,
        prompt_tokens=tokens,
        max_tokens=1,
        arrival_wall=0.0,
        arrival=0.0,
        block_table=list(range(pool.blocks_for(tokens))),
    )
    item = BatchItem(probe, 0, tokens, True)
    fastest = min(runner.run([item]).forward_ms for _ in range(3)) / 1000.0
    low, high = MIX_RATES
    return min(high, max(low, load / max(fastest, 1e-6)))
