"""Puts an engine together from its configuration: model, pool, scheduler, runner, telemetry, publisher, workload."""

import math
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypedDict

import torch

from engine.config import EngineConfig
from engine.core import Engine
from engine.footprint.plan import DoesNotFit
from engine.kv_storage import KVStorage
from engine.memory.pool import BlockPool
from engine.memory.window import describe_windows, parse_windows
from engine.model.attention import TRITON_READS, AttentionBackend, AttentionError, attention_backend
from engine.model.errors import ModelError
from engine.model.fetch import FetchError, Progress, cache_folder, ensure_model
from engine.model.kv_cache import KVCache, KVCacheError, kv_bytes_per_token
from engine.model.load import SMOLLM2_SHAPE, LoadedModel, load_model, random_model, with_windows
from engine.model.paged_tensor import KV_DTYPES, kv_dtype
from engine.model.runner import ModelRunner
from engine.policies.policy_set import PolicySet
from engine.pool_size import check_weights, facts_of, size_pool
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
from kvtop.protocol import ModelFacts, PolicyValue
from kvtop.publish import Publisher

DEFAULT_BLOCKS, DEFAULT_BLOCK_SIZE = 512, 16
MIX_BLOCKS, MIX_BLOCK_SIZE = 256, 8
"""Less than the demo's mix needs, on purpose: queueing and preemption are what there is to see."""

MIX_POLICIES: dict[str, PolicyValue] = {"token_budget": 128}
"""Small iterations, so that the screen moves several times a second on two slow cores."""

MIX_QUEUE = 16
"""Waiting requests at which the mix holds its arrivals back, so that waiting times stay those of a busy engine."""

MIX_RATES = (0.2, 30.0)

MODELS_HINT = "give smollm2, random, or the path of a GGUF file or a Hugging Face folder"


class BuildError(RuntimeError):
    """The engine cannot be put together. The text says why, ``hint`` what to do next, ``code`` is the exit code: 2 where
    what was asked for is wrong whatever the machine and the model are."""

    def __init__(self, why: str, hint: str = "", code: int = 1) -> None:
        super().__init__(why)
        self.hint, self.code = hint, code


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
    device = _device(config.device)
    if config.attention != "auto":  # before a model is loaded for it
        _attention(config.attention, device, TRITON_READS[0] if config.kv_dtype == "auto" else config.kv_dtype)
    model, notice = _model(config, device, progress, say, fallback_random)
    if config.window:
        try:
            model = with_windows(model, parse_windows(config.window, model.config.layers))
        except ValueError as error:
            raise BuildError(str(error), "give --window a number of tokens, or such as 64,full", code=2) from None
        laid_over = f"{describe_windows(model.config.windows)}, whatever the model was trained with"
        notice = laid_over if notice is None else f"{laid_over}; {notice}"[:500]
    facts, groups = model.config, model.decoder.groups
    mix = MIXES.get(config.workload)
    block_size = config.block_size or (MIX_BLOCK_SIZE if mix is not None else DEFAULT_BLOCK_SIZE)
    cache_dtype = kv_dtype(_kv_dtype(config, model))
    policies = policies.changed({"kv_dtype": cache_dtype.name})
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
    blocks = sized.blocks
    if sized.footprint is not None:
        say(f"memory: {sized.footprint}")
    backend = config.attention
    if backend == "auto":
        backend = "triton" if device == "cuda" and cache_dtype.name in TRITON_READS else "torch"
    try:
        cache = KVCache(
            layers=groups.planes,
            blocks=blocks,
            block_size=block_size,
            kv_heads=facts.kv_heads,
            head_size=facts.head_size,
            dtype=cache_dtype,
            device=device,
        )
    except KVCacheError as error:
        raise BuildError(str(error), "give --blocks a smaller number") from None
    attention = _attention(backend, device, cache_dtype.name)
    pool = BlockPool(blocks, block_size, windows=groups.windows)
    max_model_len = min(facts.context, pool.tokens_in(blocks))
    if max_model_len < 2:
        raise BuildError(
            f"{blocks} blocks of {block_size} tokens have no room for a prompt and an answer", "give more", code=2
        )
    if config.max_model_len > max_model_len:
        raise BuildError(
            f"requests of {config.max_model_len} tokens: the model has a context of {facts.context}, and {blocks} blocks have "
            f"room for {pool.tokens_in(blocks)}",
            "give --max-model-len less, or more blocks",
        )
    max_model_len = config.max_model_len or max_model_len
    sizes = _sizes(config, say)
    tiers = _tiers(pool, cache, sizes)
    if tiers is not None:
        opened.callback(tiers.close)
    scheduler = Scheduler(
        pool,
        policies,
        max_model_len=max_model_len,
        tiers=tiers,
        kv_dtypes=TRITON_READS if backend == "triton" else tuple(KV_DTYPES),
    )
    scheduler.kv_types.bytes_of = lambda name: kv_bytes_per_token(
        groups.planes, facts.kv_heads, facts.head_size, kv_dtype(name)
    )
    scheduler.kv_types.most_bytes = sized.most_bytes_per_token(
        (blocks + (0 if tiers is None else config.host_blocks)) * block_size
    )
    runner = ModelRunner(model.decoder, cache, attention, seed=config.seed)
    storage = KVStorage(runner, tiers=tiers, open_stores=partial(open_stores, **sizes))
    engine = Engine(scheduler, runner, storage=storage)
    telemetry = Telemetry(
        engine,
        bytes_per_token=cache.bytes_per_token,
        attention_mode=backend,
        token_bytes=model.tokenizer.token_bytes if config.expose_text else None,
    )
    workload = None
    if mix is not None:
        say("measuring how fast this machine is")
        workload = MixWorkload(
            model.tokenizer.encode_prompt,
            scale_for(pool.tokens_in(blocks), max_model_len, mix),
            rate=config.rate or _rate(runner, policies.token_budget, pool, mix.load),
            seed=config.seed,
            mix=mix,
        )
    if notice is not None:
        telemetry.event("notice", severity="warn", detail=notice)
    if http is not None:
        telemetry.event("notice", detail=f"takes requests at {http}")
    greeting = hello(
        config.name,
        model=_facts(model),
        blocks=blocks,
        lower_tiers=() if tiers is None else [(books.name, books.slots) for books in tiers.books],
        block_size=block_size,
        cache_dtype=cache_dtype.name,
        bytes_per_token=cache.bytes_per_token,
        groups=groups,
        memory=facts_of(sized.footprint),
        device=_device_name(device),
        attention=backend,
        max_model_len=max_model_len,
        windows=describe_windows(facts.windows) if facts.windows else None,
        workload=None if workload is None else workload.describe(),
        notice=notice,
        threads=torch.get_num_threads() if device == "cpu" else None,
        seed=config.seed,
        ledger_every=config.ledger_every,
        exposes_text=config.expose_text,
        http=http,
    )
    return Server(
        engine,
        telemetry,
        # Keyframes only for those who ask: frames keep everybody else up to date.
        Publisher(greeting, folder, keyframe_every=math.inf),
        vocabulary=Vocabulary(facts.vocab, facts.eos_ids, model.tokenizer.token_bytes),
        tokenizer=model.tokenizer,
        arrivals=None if workload is None else workload.arrivals(),
        expose_text=config.expose_text,
        queue_limit=MIX_QUEUE,
        ledger_every=config.ledger_every,
        watchdog=config.watchdog,
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


def _device(wanted: str) -> str:
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cuda" and not torch.cuda.is_available():
        raise BuildError("no CUDA device is available to torch", "use --device cpu")
    if wanted == "mps" and not torch.backends.mps.is_available():
        raise BuildError("no MPS device is available to torch", "use --device cpu")
    return wanted


def _device_name(device: str) -> str:
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    threads = torch.get_num_threads()
    return f"{device}, {threads} {'thread' if threads == 1 else 'threads'}" if device == "cpu" else device


def _model(
    config: EngineConfig,
    device: str,
    progress: Callable[[str, int, int | None], None],
    say: Callable[[str], None],
    fallback_random: bool,
) -> tuple[LoadedModel, str | None]:
    """The model, and what the screen must say about it."""
    if config.model == "random":
        return random_model(seed=config.seed, device=device), "random weights: the text is noise, the paging is real"
    try:
        if config.model == "smollm2":
            path = ensure_model(lambda p: _forward(p, progress))
        else:
            path = Path(config.model).expanduser()
            if not (path.is_file() or path.is_dir()):
                raise BuildError(f"no model at {path}", MODELS_HINT)
        say("loading the model")
        return load_model(path, device, look=partial(check_weights, torch.device(device))), None
    except FetchError as error:
        if not fallback_random:
            raise BuildError(str(error), error.hint) from None
        notice = f"random weights, because the model could not be fetched: {error}"[:500]
        say(notice)
        return random_model(SMOLLM2_SHAPE, seed=config.seed, device=device), notice
    except ModelError as error:
        raise BuildError(str(error), MODELS_HINT) from None
    except DoesNotFit as error:
        raise BuildError(f"{config.model} {error}", error.hint) from None


def _forward(step: Progress, progress: Callable[[str, int, int | None], None]) -> None:
    progress(step.what, step.done, step.total)


def _facts(model: LoadedModel) -> ModelFacts:
    config = model.config
    return ModelFacts(
        name=config.name[:256],
        revision=config.revision,
        random_weights=config.random_weights,
        weight_dtype=model.weight_dtype
        if config.stored_as is None
        else f"{model.weight_dtype} (from {config.stored_as})",
        layers=config.layers,
        hidden=config.hidden,
        query_heads=config.query_heads,
        kv_heads=config.kv_heads,
        head_size=config.head_size,
        vocabulary=config.vocab,
        context_tokens=config.context,
    )
