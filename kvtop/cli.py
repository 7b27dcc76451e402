"""The command line: what can be typed, and the one place where faults become a line and an exit code.

Nothing heavy is imported here; each command's module is imported when the command runs.
"""

import argparse
import errno
import importlib
import io
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import IO, Any, NoReturn

from kvtop import __version__
from kvtop.commands import bench_options, load_options
from kvtop.commands.option_types import above_zero, duration, positive
from kvtop.commands.settings_options import FILE_VARIABLE, add_settings
from kvtop.commands.verbs import VERBS
from kvtop.errors import UserError, one_line
from kvtop.mixes import MIXES
from kvtop.settings.definitions import DEFINITIONS
from kvtop.term.charset import NEAREST

EXIT_CODES = "exit codes: 0 fine, 1 failed or unhealthy, 2 wrong usage"
_CTL_EXIT_CODES = (
    "exit codes: 0 done, 1 refused as things are (no such request, no room) or not answered, 2 wrong usage: also an axis or "
    "a value the engine does not have"
)

_VARIABLES = ", ".join(definition.variable for definition in DEFINITIONS if definition.variable)

_EPILOG = f"""\
With no command, kvtop attaches to the one engine it finds, in every folder where one could have put its sockets.
{EXIT_CODES}
environment: KVTOP_SOCKET_DIR (the one socket folder), {FILE_VARIABLE} (the file of settings),
  {_VARIABLES} (single ones),
  NO_COLOR, LC_ALL, LC_CTYPE, LANG (without UTF-8 in it the screen keeps to ASCII), KVTOP_DEBUG=1 (tracebacks)
"""


class _Parser(argparse.ArgumentParser):
    """Usage errors in one line, like all others; and times before the end are values: ``--at -5m``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # What argparse takes for a negative number, which is no option.
        self._negative_number_matcher = re.compile(r"-(\d+(\.\d*)?|\.\d+)[smhd]?$")

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UserError(message, f"see: {self.prog} --help", code=2)

    def _print_message(self, message: str, file: IO[str] | None = None) -> None:  # type: ignore[override]
        # argparse lets a help that could not be written pass as written.
        (sys.stderr if file is None else file).write(message)


def _size(text: str) -> tuple[int, int]:
    columns, x, rows = text.partition("x")
    if not (x and columns.isdecimal() and rows.isdecimal() and 80 <= int(columns) <= 500 and 24 <= int(rows) <= 300):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMNSxROWS between 80x24 and 500x300")
    return int(columns), int(rows)


def _engine_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-e",
        "--engine",
        metavar="NAME|SOCKET",
        default=argparse.SUPPRESS,
        help="which engine; default: the only live one",
    )


def _run_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--run",
        metavar="RUN",
        default=argparse.SUPPRESS,
        help="only if this run of the engine goes on, or one that begins so (kvtop ls --json has it)",
    )


def _json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON document")


def _add_demo(commands: "argparse._SubParsersAction[_Parser]") -> None:
    demo = commands.add_parser(
        "demo",
        help="start an engine with a workload and watch it; q ends both",
        description="Start kvtop's own engine with a workload and watch it. Leaving the screen ends the engine.",
        epilog=EXIT_CODES,
        allow_abbrev=False,
    )
    add_settings(demo)
    demo.add_argument("--model", default="smollm2", metavar="M", help="smollm2 (default), random, or a .gguf file")
    demo.add_argument("--name", default="demo", help="name of the engine's socket (default: demo)")
    demo.add_argument("--seed", type=int, metavar="N", help="seed of the workload and of random weights")
    demo.add_argument(
        "--workload",
        choices=(*MIXES, "none"),
        help="what drives it: mix (default), chats of all lengths; sharing, samples and prompts in common; none",
    )
    demo.add_argument("--rate", type=above_zero, metavar="R", help="arrivals a second (default: the workload's own)")
    demo.add_argument("--blocks", type=positive, metavar="N", help="KV blocks in the pool")
    demo.add_argument("--block-size", type=positive, metavar="N", help="tokens a block holds")
    demo.add_argument("--host-blocks", type=positive, metavar="N", help="KV blocks in host memory, below the device")
    demo.add_argument("--disk-blocks", type=positive, metavar="N", help="KV blocks in a file, below that")
    demo.add_argument(
        "--disk-path", metavar="FILE", help="that file (default: in the cache folder; removed at the end)"
    )
    demo.add_argument(
        "--preset",
        choices=("tiers", "sharing"),
        help="tiers: host and disk tiers, swapping and offloading; sharing: the workload sharing, eviction by retention "
        "priority and partial reuse; what is given besides goes before",
    )
    demo.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), help="where the model runs (default: auto)")
    demo.add_argument("--attention", choices=("auto", "torch", "triton"), help="attention backend (default: auto)")
    demo.add_argument(
        "--kv-dtype",
        choices=("auto", "float32", "bfloat16", "float16", "int8", "fp8_e4m3"),
        help="element type of the KV cache (default: the weights')",
    )
    demo.add_argument(
        "--window", metavar="W", help="sliding window by layer: 64, or 64,full for every other (default: the model's)"
    )
    demo.add_argument(
        "--set", action="append", default=[], metavar="AXIS=VALUE", help="policy at the start; may be repeated"
    )
    demo.add_argument("--expose-text", action="store_true", help="let prompts and outputs travel to viewers")
    demo.add_argument("--http", metavar="HOST:PORT", help="serve it over HTTP too, as OpenAI's clients speak it")
    demo.add_argument("--http-token", metavar="TOKEN", help="what clients must bring (default: $KVTOP_HTTP_TOKEN)")
    demo.add_argument("--http-open", action="store_true", help="other hosts may ask without a token")
    demo.add_argument(
        "--metrics-names", choices=("kvtop", "vllm"), help="by whose names /metrics tells (default: kvtop)"
    )
    demo.add_argument("--once", action="store_true", help="no screen: run --seconds, then print what was seen")
    demo.add_argument("--seconds", type=above_zero, default=20.0, metavar="S", help="length of --once (default: 20)")
    _json_option(demo)


def _add_ctl(commands: "argparse._SubParsersAction[_Parser]") -> None:
    ctl = commands.add_parser(
        "ctl",
        help="command an engine: policies, abort, preempt, pause",
        description="Command an engine. Each command takes effect between two iterations and is logged with who gave it.",
        epilog=_CTL_EXIT_CODES,
        allow_abbrev=False,
    )
    _engine_option(ctl)
    _json_option(ctl)
    ctl.add_argument("--timeout", type=above_zero, default=10.0, metavar="S", help="wait for the answer (default: 10)")
    _run_option(ctl)
    verbs = ctl.add_subparsers(dest="verb", metavar="VERB", required=True)

    for verb in VERBS:
        parser = verbs.add_parser(verb.name, help=verb.help, description=verb.help, allow_abbrev=False)
        _engine_option(parser)
        _json_option(parser)
        if verb.name != "policies":
            _run_option(parser)
        verb.arguments(parser)


def _speed(text: str) -> float:
    from kvtop.record.playback import FASTEST, SLOWEST, UNBOUNDED

    if text == "max":
        return UNBOUNDED
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = 0.0
    if not SLOWEST <= speed <= FASTEST:
        raise argparse.ArgumentTypeError(f"{text!r} is no speed: {SLOWEST:g} to {FASTEST:g}, or max")
    return speed


def _add_record(commands: "argparse._SubParsersAction[_Parser]") -> None:
    record = commands.add_parser(
        "record",
        help="record an engine to a file, without a screen",
        description="Record what an engine tells its viewers, until it is told to stop (ctrl+c, SIGTERM, SIGHUP) or --for is "
        "over; an engine that goes and comes again is waited for. Prints the path of each file. Format: docs/recording.md.",
        epilog="exit codes: 0 recorded, 1 nothing was recorded, or not all of it could be written, 2 wrong usage",
        allow_abbrev=False,
    )
    record.add_argument("target", metavar="NAME|SOCKET", nargs="?", help="default: the only live engine")
    record.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="file to create, or a folder for files named NAME-DATETIME.kvtop (default: the current folder)",
    )
    record.add_argument("--for", dest="seconds", type=duration, metavar="TIME", help="stop after so long: 90s, 10m, 2h")
    record.add_argument(
        "--max-mib", type=above_zero, metavar="N", help="in a folder: begin another file at this size (default: 64)"
    )
    record.add_argument(
        "--keep-mib",
        type=above_zero,
        metavar="N",
        help="in a folder: remove this engine's oldest files beyond so much in all",
    )
    record.add_argument(
        "--keep-hours",
        type=above_zero,
        metavar="H",
        help="in a folder: remove this engine's files when they are so old",
    )
    record.add_argument(
        "--with-text", action="store_true", help="prompts and generated text too, where the engine exposes them"
    )


def _add_replay(commands: "argparse._SubParsersAction[_Parser]") -> None:
    replay = commands.add_parser(
        "replay",
        help="watch a recording as if it were live",
        description="The same screen on a recording, also on one that is still being written. Space stops it and lets it "
        "go on. Format and bounds: docs/recording.md.",
        epilog=EXIT_CODES,
        allow_abbrev=False,
    )
    replay.add_argument("file", metavar="FILE", help="as kvtop record and engines write them")
    replay.add_argument(
        "--speed", type=_speed, default=1.0, metavar="S", help="times real time, 0.1 to 100, or max (default: 1)"
    )
    replay.add_argument(
        "--at",
        metavar="WHEN",
        help="begin there: 14:03 or 14:03:59 (local, the latest in the recording), 2026-11-30T14:03:59, +90 (seconds from "
        "its start), -90 (before its end), it:1234 (iteration). Default: its start",
    )
    add_settings(replay)


def _seconds(text: str) -> float:
    from kvtop.record.when import span

    seconds = span(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: as in 90, 5m, 1h")
    return seconds


def _add_bundle(commands: "argparse._SubParsersAction[_Parser]") -> None:
    bundle = commands.add_parser(
        "bundle",
        help="write one file with the minutes around a moment, for the review",
        description="Write one zip with what happened around a moment: a summary, a page to go through it in any browser, the "
        "recording. No prompts, no generated text. Of an engine, its flight recorder is asked. docs/bundle.md has the rest.",
        epilog=EXIT_CODES,
        allow_abbrev=False,
    )
    bundle.add_argument(
        "source", nargs="?", metavar="FILE|NAME|SOCKET", help="a recording, or an engine (default: the only live one)"
    )
    bundle.add_argument("--at", metavar="WHEN", help="the moment, as in kvtop replay (default: the end)")
    bundle.add_argument("--before", type=_seconds, default=300.0, metavar="T", help="so long before it (default: 5m)")
    bundle.add_argument("--after", type=_seconds, default=60.0, metavar="T", help="so long after it (default: 1m)")
    bundle.add_argument("-o", "--output", default=".", metavar="FILE", help="the zip to create, or a folder for it")
    bundle.add_argument(
        "--redact", action="store_true", help="other names for requests, classes, hosts and engines; no pictures"
    )
    bundle.add_argument("--size", type=_size, default=(120, 40), metavar="CxR", help="of the picture (default: 120x40)")
    bundle.add_argument("--no-svg", action="store_true", help="without a picture of the screen")


def _add_export(commands: "argparse._SubParsersAction[_Parser]") -> None:
    export = commands.add_parser(
        "export",
        help="write a recording in the format of another program",
        description="Write a recording, or the one in a bundle, in the format of another program. csv, parquet: a row a "
        "second; json: seconds and events, one document a line; openmetrics: series with timestamps; perfetto: a trace "
        "(ui.perfetto.dev, chrome://tracing); svg: the screen at a moment. No prompts, no generated text. docs/export.md "
        "has the columns.",
        epilog=EXIT_CODES,
        allow_abbrev=False,
    )
    export.add_argument("file", metavar="FILE", help="a recording, or a bundle")
    export.add_argument(
        "--to",
        required=True,
        choices=("csv", "json", "parquet", "openmetrics", "perfetto", "svg"),
        help="the format; parquet needs pyarrow",
    )
    export.add_argument(
        "-o",
        "--output",
        default="-",
        metavar="FILE|-",
        help="file to create, or a folder for it; - is standard output (the default)",
    )
    export.add_argument(
        "--from", dest="first", metavar="WHEN", help="begin there, as in kvtop replay (default: its start)"
    )
    export.add_argument("--to-moment", dest="last", metavar="WHEN", help="end there (default: its end)")
    export.add_argument(
        "--at", metavar="WHEN", help="svg: the moment (default: of a bundle the one it is about, else the end)"
    )
    export.add_argument(
        "--size", type=_size, default=(120, 40), metavar="CxR", help="svg: columns x rows (default: 120x40)"
    )


def _add_diff(commands: "argparse._SubParsersAction[_Parser]") -> None:
    diff = commands.add_parser(
        "diff",
        help="show what differs between two snapshots, bundles, or moments of recordings",
        description="Show what differs between two moments: policies, who was preempted, blocks, levels, what was done, "
        "requests. Each is a snapshot, a bundle (at its moment), or a recording (at its end); FILE@WHEN is another moment.",
        epilog="exit codes: 0 told, whether anything differs or nothing, 1 one of them cannot be read, 2 wrong usage",
        allow_abbrev=False,
    )
    diff.add_argument(
        "a", metavar="FILE[@WHEN]", help="the one before; WHEN as in kvtop replay: 14:03:59, -90, it:1234"
    )
    diff.add_argument("b", metavar="FILE[@WHEN]", help="the one after")
    _json_option(diff)


def _add_config(commands: "argparse._SubParsersAction[_Parser]") -> None:
    config = commands.add_parser(
        "config",
        help="show what is set and by what, or check a file of settings",
        description="Show every setting of the screen, its value, and where that is from.",
        epilog=f"{EXIT_CODES}; all about settings: docs/config.md",
        allow_abbrev=False,
    )
    what = config.add_mutually_exclusive_group()
    what.add_argument("--show", action="store_true", help="show what holds (the default)")
    what.add_argument("--check", metavar="FILE", help="check a file of settings, every profile of it")
    what.add_argument("--profiles", action="store_true", help="print the names of the profiles, and nothing else")
    what.add_argument("--example", action="store_true", help="print a file in which every setting is explained")
    _json_option(config)
    add_settings(config)


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kvtop",
        description="A live view of an LLM engine's KV cache and scheduler.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kvtop {__version__}")
    parser.add_argument(
        "--reset-terminal", action="store_true", help="put a terminal right that a killed viewer left behind"
    )
    add_settings(parser)
    # Options that may stand before or after a verb are SUPPRESSed below, so that the inner parser does not undo the outer.
    parser.set_defaults(engine=None, run=None, json=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    attach = commands.add_parser(
        "attach", help="watch a running engine", description="Watch a running engine.", epilog=EXIT_CODES
    )
    attach.add_argument("target", metavar="NAME|SOCKET", nargs="?", help="default: the only live engine")
    add_settings(attach)

    _add_demo(commands)
    commands.add_parser(
        "engine",
        help="serve without a screen; see: kvtop engine --help",
        add_help=False,
        prefix_chars="\0",
    ).add_argument("arguments", nargs=argparse.REMAINDER, metavar="OPTION", help="see: kvtop engine --help")

    ls = commands.add_parser(
        "ls",
        help="list engines",
        description="List your engines on this host, wherever they have their sockets.",
        epilog=EXIT_CODES,
    )
    form = ls.add_mutually_exclusive_group()
    form.add_argument("--names", action="store_true", help="only names of engines that live, at once: none is asked")
    form.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON document")

    _add_ctl(commands)
    _add_record(commands)
    _add_replay(commands)
    _add_bundle(commands)
    _add_export(commands)
    _add_diff(commands)
    _add_config(commands)

    completion = commands.add_parser(
        "completion",
        help="print a script by which a shell completes what is typed",
        description="Print a script by which a shell completes commands, options, their values, and names of engines. "
        'bash: eval "$(kvtop completion bash)"; zsh, after compinit: eval "$(kvtop completion zsh)"; '
        "fish: kvtop completion fish | source.",
        epilog=EXIT_CODES,
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="for which shell")
    completion.set_defaults(parser=parser)

    load = commands.add_parser(
        "load",
        help="load an OpenAI-compatible server and measure it",
        description="Load any OpenAI-compatible server with streamed requests, and say what came of them.",
        allow_abbrev=False,
    )
    load_options.arguments(load)

    bench_options.arguments(
        commands.add_parser(
            "bench",
            help="measure servers in a fixed form, and compare them",
            description="Measure servers in a fixed form, or several in turn against each other.",
            allow_abbrev=False,
        ),
        _Parser,
    )

    snapshot = commands.add_parser(
        "snapshot",
        help="write what an engine is doing to a file",
        description="Write one JSON file (and an SVG of the screen beside it) of what an engine is doing. "
        "No prompts, no generated text. Fields: docs/snapshot.md.",
        epilog=EXIT_CODES,
    )
    _engine_option(snapshot)
    snapshot.add_argument(
        "file", nargs="?", metavar="FILE|-", help="JSON file to create, or a folder for it; - prints it"
    )
    snapshot.add_argument("-o", "--output", metavar="FILE|-", help="the same as FILE")
    snapshot.add_argument(
        "--watch", type=above_zero, default=2.0, metavar="S", help="watch so long for rates (default: 2)"
    )
    snapshot.add_argument("--size", type=_size, default=(120, 40), metavar="CxR", help="of the SVG (default: 120x40)")
    snapshot.add_argument("--no-svg", action="store_true", help="the JSON file only")
    _json_option(snapshot)
    return parser


def run(argv: Sequence[str]) -> int:
    """Parses and runs one command line. Raises `UserError` for what went wrong."""
    options = build_parser().parse_args(argv)
    if options.reset_terminal:
        from kvtop.commands.tty import RESET

        sys.stdout.write(RESET)
        return 0
    if options.command is None:
        options.target = None
    name = "attach" if options.command is None else options.command
    if name == "ls" and options.names:
        name = "names"
    module = importlib.import_module(f"kvtop.commands.{name}")
    code: int = module.run(options)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code; a fault becomes a line, never 0."""
    _open_standard_streams()
    arguments = sys.argv[1:] if argv is None else argv
    try:
        code = _code_of(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _reader_left()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return _complain(error)


def entry() -> NoReturn:
    """The ``kvtop`` command: `main`, then the end of the process."""
    code = main()
    if "textual" in sys.modules:
        # A terminal that vanished or stalled leaves Textual's threads reading or writing for ever, and the interpreter
        # would wait for them. What there was to flush, `main` has flushed.
        os._exit(code)
    sys.exit(code)


def _code_of(arguments: Sequence[str]) -> int:
    try:
        return run(arguments)
    except SystemExit as done:  # argparse after --help and --version; a signal that ends a command
        return done.code if isinstance(done.code, int) else 0


_TAKES_NOTHING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a write that names no file fails with: the only such writes are those to standard output."""


def _complain(error: Exception) -> int:
    """One line on stderr, a second with what to do, and the exit code; with ``KVTOP_DEBUG`` the traceback before them."""
    if isinstance(error, UserError):
        message, hint, code = error.message, error.hint, error.code
    elif isinstance(error, OSError) and error.strerror and (error.filename or error.errno in _TAKES_NOTHING):
        message, hint, code = f"{error.filename or 'standard output'}: {error.strerror}", "", 1
    else:
        message, hint, code = f"internal error: {type(error).__name__}: {error}", "KVTOP_DEBUG=1 shows the traceback", 1
    try:
        sys.stdout.flush()
    except OSError:
        _discard(1)
    try:
        if os.environ.get("KVTOP_DEBUG", "") not in ("", "0"):
            traceback.print_exception(error)
        sys.stderr.write(f"kvtop: {one_line(message)}\n" + (f"  {one_line(hint)}\n" if hint else ""))
        sys.stderr.flush()
    except OSError:
        _discard(2)  # Nobody is left to tell.
    return code


def _reader_left() -> int:
    """Nobody reads our output any more (``kvtop snapshot - | head -1``): that is the reader's right."""
    _discard(1)
    return 0


def _discard(stream: int) -> None:
    """What a standard stream still holds goes nowhere: the interpreter flushes it once more at exit and must not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _open_standard_streams() -> None:
    """Gives closed standard streams (``2>&-``) somewhere to go, before a socket or a file gets their number.

    Characters that a stream's encoding lacks are written as the nearest, so that no name of a file or a model ends a
    command.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # Takes the lowest free number, which is this one; for the engine, which this process may become, too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=NEAREST)
