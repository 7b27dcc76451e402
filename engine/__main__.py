"""``python -m engine``: serve without a screen. Says what it does on stdout, one JSON object a line with --ready-json."""

import argparse
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from engine.config import NAMED_MODELS, EngineConfig
from engine.http.options import add_http_options, http_from
from engine.policies.kv_dtype import KV_DTYPES
from engine.reporting import Reporter
from engine.serving.garbage import settle
from engine.serving.watchdog import Limits
from engine.tiers import scratch
from engine.words import one_line
from kvtop.mixes import MIXES
from kvtop.publish.errors import PublishError
from kvtop.publish.flight import FlightLimits
from kvtop.publish.sockets import rehearse

if TYPE_CHECKING:
    from engine.http.drain import Drain
    from engine.http.listener import HttpServer
    from engine.http.settings import HttpConfig
    from engine.serving.server import Server

PR_SET_PDEATHSIG = 1

MAX_REASON = 200
"""Characters of a goodbye to viewers."""

PATIENCE = 1.5
"""Seconds a stop waits for the iteration in progress; a long prefill on a busy machine can take longer than anyone waits."""


class WrongUsage(ValueError):
    """The command line cannot be understood; the text says why."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongUsage(message)  # in one line, and in the format of whoever asked


def parser() -> argparse.ArgumentParser:
    p = _Parser(prog="kvtop engine", description="Serve kvtop's own engine on a Unix socket.", allow_abbrev=False)
    p.add_argument(
        "--model",
        default="smollm2",
        help="smollm2, random, or the path of a GGUF file or a Hugging Face folder (default: %(default)s)",
    )
    p.add_argument("--name", default="engine", help="name of its socket (default: %(default)s)")
    p.add_argument("--blocks", type=int, default=0, help="KV blocks in the pool (default: chosen for the workload)")
    p.add_argument(
        "--memory-fraction",
        type=float,
        default=0.0,
        metavar="F",
        help="instead of --blocks: so many that the engine takes this share of the memory there is (up to 0.95)",
    )
    p.add_argument(
        "--kv-gib", type=float, default=0.0, metavar="G", help="instead of --blocks: as many as G GiB have room for"
    )
    p.add_argument("--block-size", type=int, default=0, help="tokens a block holds (default: 8 for the mix, else 16)")
    p.add_argument(
        "--max-model-len",
        type=int,
        default=0,
        metavar="N",
        help="tokens of a request at most, prompt and output (default: as many as model and pool have room for)",
    )
    p.add_argument("--host-blocks", type=int, default=0, metavar="N", help="KV blocks in host memory (default: none)")
    p.add_argument("--disk-blocks", type=int, default=0, metavar="N", help="KV blocks in a file (default: none)")
    p.add_argument(
        "--disk-path",
        default="",
        metavar="FILE",
        help="that file, made and removed by the engine (default: one in the cache folder)",
    )
    p.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"])
    p.add_argument("--attention", default="auto", choices=["auto", "torch", "triton"])
    p.add_argument(
        "--kv-dtype",
        default="auto",
        choices=["auto", *KV_DTYPES],
        help="element type of the KV cache at the start (default: the weights')",
    )
    p.add_argument(
        "--window",
        default="",
        metavar="W",
        help="sliding window by layer, repeated over the layers: 64, or 64,full (default: the model's own)",
    )
    p.add_argument("--seed", type=int, default=0, help="of the workload and of random weights")
    p.add_argument(
        "--workload",
        default="none",
        choices=["none", *MIXES],
        help="mix: the demo's chat mix; sharing: samples, kept prompts, tenants",
    )
    p.add_argument(
        "--rate",
        type=float,
        default=0.0,
        help="arrivals a second of the workload (default: a little more than this machine serves)",
    )
    p.add_argument(
        "--set", action="append", default=[], metavar="AXIS=VALUE", dest="policies", help="a policy to start with"
    )
    p.add_argument(
        "--ledger-every",
        type=int,
        default=64,
        help="iterations from one ledger check to the next, 0 never (default: %(default)s)",
    )
    limits = Limits()
    for name, default, what in (
        ("stall", limits.stall, "nobody gets a token though work waits"),
        ("paused", limits.paused, "the engine is paused with work waiting"),
        ("head", limits.head, "the queue's head is refused for one reason while others get on"),
    ):
        p.add_argument(
            f"--warn-{name}",
            type=float,
            default=default,
            metavar="S",
            help=f"warn when for S seconds {what}; 0 never (default: %(default)s)",
        )
    kept = FlightLimits()
    for name, default, what in (("minutes", kept.minutes, "minutes"), ("mib", kept.mib, "MiB")):
        p.add_argument(
            f"--flight-{name}",
            type=float,
            default=default,
            metavar="N",
            help=f"{what} that the flight recorder keeps in memory at most; 0: none (default: %(default)s)",
        )
    p.add_argument("--expose-text", action="store_true", help="let prompts and outputs travel to viewers")
    p.add_argument(
        "--fallback-random", action="store_true", help="random weights when the model cannot be had, and say so"
    )
    add_http_options(p)
    p.add_argument("--parent-stdin", action="store_true", help="stop when standard input closes")
    p.add_argument("--ready-json", action="store_true", help="report progress and readiness as JSON lines on stdout")
    return p


def config_from(args: argparse.Namespace) -> EngineConfig:
    """Raises ValueError in one sentence for a setting that makes no sense."""
    policies: dict[str, str] = {}
    for setting in args.policies:
        axis, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting!r} is not AXIS=VALUE")
        policies[axis] = value
    return EngineConfig(
        model=args.model,
        name=args.name,
        blocks=args.blocks,
        memory_fraction=args.memory_fraction,
        kv_gib=args.kv_gib,
        block_size=args.block_size,
        max_model_len=args.max_model_len,
        host_blocks=args.host_blocks,
        disk_blocks=args.disk_blocks,
        disk_path=args.disk_path,
        device=args.device,
        attention=args.attention,
        kv_dtype=args.kv_dtype,
        window=args.window,
        seed=args.seed,
        workload=args.workload,
        rate=args.rate,
        policies=dict(policies),
        expose_text=args.expose_text,
        ledger_every=args.ledger_every,
        watchdog=Limits(args.warn_stall, args.warn_paused, args.warn_head),
        flight=FlightLimits(args.flight_minutes, args.flight_mib),
    )


def _leave_deleted_folder(config: EngineConfig) -> None:
    """Where the current folder has been deleted, stands in the root: torch's library of mathematics ends a process there.

    Raises ValueError where a path was given by that folder.
    """
    try:
        os.getcwd()
    except OSError:
        for path in (config.disk_path, config.model if config.model not in NAMED_MODELS else ""):
            if path and not os.path.isabs(os.path.expanduser(path)):
                raise ValueError(
                    f"the current folder has been deleted, so {path} is nowhere; give a whole path"
                ) from None
        os.chdir("/")


def _stop_with_parent(stop: Callable[[], None]) -> None:
    """Stop when stdin closes, and, where the kernel offers it, when the parent dies without closing it."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        stop()

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code: 0 stopped in order, 1 could not serve, 2 wrong usage."""
    try:
        args = parser().parse_args(argv)
    except WrongUsage as error:
        Reporter("--ready-json" in (sys.argv if argv is None else argv)).failed(str(error), "see: kvtop engine --help")
        return 2
    reporter = Reporter(args.ready_json)
    serving: list[Server] = []
    draining: list[Drain] = []

    # Called by signals, at any point of any code: both must take no lock.
    def stop(*_: object) -> None:
        if not (serving and draining and draining[0].begin()):
            stop_now()

    def stop_now() -> None:
        if not serving:
            scratch.remove_all()
            os._exit(0)  # Still loading: nothing else is open yet that would need an orderly end.
        serving[0].stop()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, and a shell that puts it in the background, mean it
            signal.signal(number, stop)
    if args.parent_stdin:
        _stop_with_parent(stop_now)
    try:
        config, http_settings = config_from(args), http_from(args)
        rehearse(None, config.name)
        _leave_deleted_folder(config)
    except (ValueError, PublishError) as error:
        reporter.failed(str(error), "")
        return 2
    except OSError as error:  # the process may have no more files, say
        reporter.failed(f"no socket for viewers: {error.strerror or error}", "")
        return 1

    try:
        http = None if http_settings is None else _listen(http_settings, reporter)
    except OSError as error:
        reporter.failed(str(error), "give --http another port, or 0 for any that is free")
        return 1
    except ImportError as error:
        reporter.failed(f"HTTP needs {error.name}, which is not installed", 'pip install "kvtop-live[engine]"')
        return 1

    with nullcontext() if http is None else http:
        return _serve(config, args, reporter, http, serving, draining)


def _serve(
    config: EngineConfig,
    args: argparse.Namespace,
    reporter: Reporter,
    http: "HttpServer | None",
    serving: "list[Server]",
    draining: "list[Drain]",
) -> int:
    """Builds the engine and serves until it is told to stop, by what it puts into ``serving`` and ``draining``. Returns the
    exit code."""
    from engine.build import BuildError, build  # torch is slow to import: only after the arguments hold.
    from engine.serving.server import EngineFailed

    try:
        server = build(
            config,
            reporter.progress,
            reporter.say,
            fallback_random=args.fallback_random,
            http=None if http is None else http.url,
        )
    except BuildError as error:
        reporter.failed(str(error), error.hint)
        return error.code
    except MemoryError as error:
        reporter.failed(
            f"there is not enough memory to start: {one_line(error)}", f"give {config.pool_option} less, or free memory"
        )
        return 1
    except Exception as error:
        reporter.died(f"the engine could not start: {one_line(error)}")
        return 1
    close = partial(_close, server, http)
    serving.append(server)
    try:
        server.publisher.start()
    except (
        PublishError,
        OSError,
    ) as error:  # the name was free before the model was loaded; another may have it by now
        said = f"no socket for viewers: {error.strerror or error}" if isinstance(error, OSError) else str(error)
        reporter.failed(said, "")
        close()
        return 1
    observe, control = server.publisher.places
    ready = {"name": config.name, "socket": str(observe), "control": str(control)}
    if http is not None:
        draining.append(http.serve(server, config.model, args.drain_seconds))
        ready["http"] = http.url
    leave = partial(_leave_in_time, server, draining, reporter.say, close)
    threading.Thread(target=leave, name="patience", daemon=True).start()
    reporter.ready(ready)
    settle()
    try:
        server.run()
    except EngineFailed as error:
        reporter.died(str(error))
        close(str(error))
        return 1
    close()
    return 0


def _listen(settings: "HttpConfig", reporter: Reporter) -> "HttpServer":
    """Listens before the model is loaded, so that whoever asks is told to wait. Raises OSError."""
    from engine.http.listener import HttpServer

    return HttpServer(settings, reporter.warn)


def _leave_in_time(
    server: "Server", draining: "list[Drain]", say: Callable[[str], None], close: Callable[[], None]
) -> None:
    """Stops the engine when a drain is over, and ends the process when a stop has waited for the iteration in progress for
    longer than `PATIENCE`."""
    told = set[bool]()
    while not server.stopping:
        for drain in draining:
            # Once more where it is paused, or resumed, meanwhile.
            if drain.paused not in told and (waiting := drain.waits_for):
                told.add(drain.paused)
                say(f"stopping: {waiting}; once more to stop at once")
            if drain.over:
                server.stop()
        time.sleep(0.05)
    time.sleep(PATIENCE)
    close()
    os._exit(0)


def _close(server: "Server", http: "HttpServer | None", why: str = "engine stopped") -> None:
    server.publisher.stop(why[:MAX_REASON])
    server.close(why)
    if http is not None:
        http.stop()


if __name__ == "__main__":
    sys.exit(main())
