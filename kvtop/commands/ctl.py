"""``kvtop ctl``: one command to an engine, and its answer with the iteration at which it took effect."""

import argparse
import json
import os
import sys
from typing import Any

from kvtop.commands.table import table
from kvtop.commands.target import control_of, find_commanded, find_engine, now_of_another_run
from kvtop.commands.verbs import VERBS
from kvtop.commands.watch import CATCH_UP, watch
from kvtop.errors import UserError, one_line
from kvtop.protocol import Command, Compact, Hello, PolicyAxis, PolicyValue, Reply, SetPolicy
from kvtop.protocol.commands import COMMANDS
from kvtop.sources.control import ControlClient, ControlError
from kvtop.sources.discover import Found
from kvtop.sources.socket import SocketSource

SCHEMA_POLICIES = "kvtop.policies/1"
SCHEMA_REPLY = "kvtop.reply/1"


def run(options: argparse.Namespace) -> int:
    if options.verb == "set":
        _pairs(options.changes)  # what is no pair is wrong whatever engine it is for
    if options.verb == "policies":
        return _policies(find_engine(options.engine), options)
    found = find_commanded(options.engine, options.run)
    command = _command(options, found.hello)
    try:
        reply = ControlClient(control_of(found.path)).send(command, options.timeout)
    except ControlError as error:
        raise UserError(f"engine {found.name}: {one_line(error)}") from None
    code = 0 if reply.ok else 2 if never_right(command, found.hello) else 1
    if options.json:
        print(json.dumps({"schema": SCHEMA_REPLY, "engine": found.name, **reply.model_dump(exclude={"type"})}))
    elif code:
        raise UserError(f"engine {found.name} refused: {reply.message or 'no reason given'}", code=code)
    else:
        print(_answer(found.name, reply))
    return code


def never_right(command: Command, hello: Hello | None) -> bool:
    """Whether a command that was refused can at no time be right for this engine, by what its hello allows: wrong usage.

    What it refuses for the state it is in, or in requests that it has not, is no wrong usage.
    """
    if hello is None:
        return False
    if isinstance(command, SetPolicy):
        axes = {axis.name: axis for axis in hello.axes}
        return any(name not in axes or not allows(axes[name], value) for name, value in command.changes.items())
    if isinstance(command, Compact):
        blocks = sum(pool.blocks for pool in hello.geometry.pools if pool.tier == "device")
        return bool(blocks) and max(command.first or 0, command.end or 0) > blocks
    return False


def allows(axis: PolicyAxis, value: PolicyValue) -> bool:
    """Whether ``value`` is one of the axis'."""
    if axis.kind not in ("choice", "bool", "int", "float"):
        return True  # A kind of a newer version: the engine knows.
    if axis.kind == "choice":
        return value in axis.choices
    if axis.kind == "bool" or isinstance(value, bool):
        return axis.kind == "bool" and isinstance(value, bool)
    if isinstance(value, str) or (axis.kind == "int" and not isinstance(value, int)):
        return False
    return (axis.minimum is None or value >= axis.minimum) and (axis.maximum is None or value <= axis.maximum)


def _answer(name: str, reply: Reply) -> str:
    said = one_line(reply.message, 1000) or "done"
    if reply.iteration is not None and str(reply.iteration) not in said:
        said += f" (iteration {reply.iteration})"
    lines = [f"{name}: {said}"]
    return "\n".join([*lines, *(f"  {one_line(effect, 1000)}" for effect in reply.effects)])


def _command(options: argparse.Namespace, hello: Hello | None) -> Command:
    id = f"ctl-{os.getpid()}"
    # What is typed was read off this run: an engine that restarts under the command must not take it.
    run = None if hello is None else hello.engine.run
    if options.verb == "set":
        axes = {} if hello is None else {axis.name: axis for axis in hello.axes}
        changes = {name: typed(axes.get(name), text) for name, text in _pairs(options.changes).items()}
        return SetPolicy(id=id, run=run, changes=changes, transition=options.transition, dry_run=options.dry_run)
    verb = next(verb for verb in VERBS if verb.name == options.verb)
    return COMMANDS[verb.type](id=id, run=run, **verb.fields(options))


def _pairs(settings: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not (equals and name and value):
            raise UserError(f"{setting!r} is not AXIS=VALUE", "axes and their choices: kvtop ctl policies", code=2)
        if name in pairs:
            raise UserError(f"{name} is set twice", code=2)
        pairs[name] = value
    return pairs


_BOOLEANS = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}


def typed(axis: PolicyAxis | None, text: str) -> PolicyValue:
    """``text`` as the axis' kind of value; as it is where it is none, so that the engine refuses it in its own words."""
    try:
        if axis is not None and axis.kind == "bool":
            return _BOOLEANS.get(text.lower(), text)
        if axis is not None and axis.kind == "int":
            return int(text)
        if axis is not None and axis.kind == "float" and text.lower().lstrip("+-") not in ("nan", "inf", "infinity"):
            return float(text)
    except ValueError:
        pass
    return text


def _policies(found: Found, options: argparse.Namespace) -> int:
    state = watch(SocketSource(found.path), CATCH_UP, answer_within=options.timeout).live
    if (other := now_of_another_run(found, state)) is not None:
        print(other, file=sys.stderr)
    axes = [] if state.hello is None else state.hello.axes
    if options.json:
        facts = [axis.model_dump() | {"current": state.policy.get(axis.name)} for axis in axes]
        document: dict[str, Any] = {"schema": SCHEMA_POLICIES, "engine": found.name, "run": state.run}
        document |= {"iteration": state.iteration, "axes": facts}
        print(json.dumps(document, indent=1, allow_nan=False))
    elif not axes:
        print(f"engine {found.name} has no policies that could be changed", file=sys.stderr)
    else:
        print(table(("AXIS", "NOW", "CHOICES"), [_axis_row(axis, state.policy.get(axis.name)) for axis in axes]))
    return 0


def _axis_row(axis: PolicyAxis, current: PolicyValue | None) -> list[str]:
    return [axis.name, show(current), choices(axis)]


def show(value: Any) -> str:
    """A policy's value as it is typed."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def choices(axis: PolicyAxis) -> str:
    """What may be typed for an axis."""
    if axis.kind == "choice":
        return ", ".join(axis.choices)
    if axis.kind == "bool":
        return "on, off"
    low, high = (("…" if bound is None else f"{bound:.12g}") for bound in (axis.minimum, axis.maximum))
    unit = f" {axis.unit}" if axis.unit else ""
    return f"{low} to {high}{unit}"
