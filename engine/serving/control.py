"""Carries out commands between two iterations and records each as an event with who asked."""

from collections.abc import Callable
from typing import Any

from engine.core import Engine
from engine.requests.request import Request
from engine.scheduling.roster import ADMITTED_STATES
from engine.serving.flight import FlightFiles
from engine.serving.telemetry import Telemetry
from engine.words import counted
from kvtop.protocol.commands import (
    Abort,
    Command,
    Compact,
    Dump,
    Pause,
    Pin,
    Preempt,
    RequestKeyframe,
    ResetPrefixCache,
    Resume,
    SetPolicy,
    Unpin,
)
from kvtop.publish import PendingCommand

Done = tuple[str, list[str]]
"""What was done, in a sentence, and its effects; None in place of it: the asker is answered later."""


class Refused(ValueError):
    """The command cannot be carried out; the text says why in one sentence."""


class Control:
    """Executes commands on the engine's own thread."""

    def __init__(self, engine: Engine, telemetry: Telemetry, run: str, flight: FlightFiles | None = None) -> None:
        """``run``: this life of the engine, as its hello names it."""
        self._engine = engine
        self._flight = flight
        self._run = run
        self._telemetry = telemetry

    def execute(self, pending: PendingCommand) -> None:
        """Do it, answer it, log it. A refusal is an answer too."""
        command = pending.command
        dry = isinstance(command, SetPolicy) and command.dry_run
        try:
            if (missed := command.missed_run(self._run)) is not None:
                raise Refused(missed)
            done = self._do(command, pending)
        except ValueError as error:
            if not dry:
                self._telemetry.event(
                    "command",
                    severity="warn",
                    uid=pending.uid,
                    pid=pending.pid,
                    detail=f"{command.type} refused: {error}"[:1000],
                )
            pending.reply(False, message=str(error)[:1000])
            return
        if done is not None:
            message, effects = done
            pending.reply(True, iteration=self._engine.iteration + 1, message=message[:1000], effects=effects)

    def abort(self, request: Request, why: str) -> None:
        """End a live request, and the beams of its search, on somebody's word."""
        self._engine.scheduler.abort(request, self._engine.clock(), why)
        for each in [request] if request.beam is None else request.beam.seen:
            self._telemetry.log.finished(each)

    def _do(self, command: Command, asker: PendingCommand) -> Done | None:
        return _DOES[type(command)](self, command, asker)

    def _abort(self, command: Abort, asker: PendingCommand) -> Done:
        request = self._find(command.request)
        self.abort(request, f"by command of uid {asker.uid} pid {asker.pid}")
        self._tell_of("abort", request, asker)
        return f"{request.id} aborted after {request.output_tokens} output tokens", []

    def _preempt(self, command: Preempt, asker: PendingCommand) -> Done:
        scheduler, request = self._engine.scheduler, self._find(command.request)
        if request.state not in ADMITTED_STATES:
            raise Refused(f"{request.id} is {request.state}, only a running request can be preempted")
        cause = f"command of uid {asker.uid} pid {asker.pid}"
        self._telemetry.log.preempted(scheduler.preempt(request, self._engine.clock(), cause))
        self._tell_of("preempt", request, asker)
        fate = "it is queued again" if request.num in scheduler.requests else "it ended"
        return f"{request.id} preempted; {fate}", []

    def _pause(self, _command: Pause, asker: PendingCommand) -> Done:
        if self._engine.scheduler.paused:
            return "already paused", []
        self._engine.scheduler.pause()
        self._telemetry.event("pause", severity="warn", detail="scheduling stopped; KV stays in place", **_who(asker))
        return "paused; KV stays in place", []

    def _resume(self, _command: Resume, asker: PendingCommand) -> Done:
        if not self._engine.scheduler.paused:
            return "was not paused", []
        self._engine.scheduler.resume()
        self._telemetry.event("resume", **_who(asker))
        return "resumed", []

    def _reset_prefix_cache(self, _command: ResetPrefixCache, asker: PendingCommand) -> Done:
        pins = len(self._engine.scheduler.pins)
        dropped = self._engine.scheduler.reset_prefix_cache()
        self._touch_running()
        self._telemetry.event("prefix_reset", severity="warn", blocks=dropped, **_who(asker))
        unpinned = [f"{counted(pins, 'pin')} undone"] if pins else []
        return f"prefix cache emptied: {dropped} blocks forgot their content", unpinned

    def _keyframe(self, _command: RequestKeyframe, _asker: PendingCommand) -> Done:
        # The publisher has made it: see `kvtop.publish.controller`.
        return "a keyframe is on its way to every viewer", []

    def _set_policy(self, command: SetPolicy, asker: PendingCommand) -> Done:
        if command.dry_run:
            return "nothing changed (dry run)", self._engine.scheduler.preview(command.changes, command.transition)
        change = self._engine.scheduler.set_policies(command.changes, command.transition, self._engine.clock())
        old, new = change.old.values(), change.new.values()
        changed = [axis for axis in new if old[axis] != new[axis]]
        for preemption in change.preempted:
            self._telemetry.log.preempted(preemption)
        scheduler = self._engine.scheduler
        for axis in changed:
            waits = axis == "kv_dtype" and scheduler.switching
            self._telemetry.event(
                "policy",
                severity="warn",
                axis=axis,
                old=old[axis],
                new=new[axis],
                uid=asker.uid,
                pid=asker.pid,
                cause=f"transition {command.transition}",
                detail=scheduler.transition_text()
                if waits
                else f"in effect from iteration {self._engine.iteration + 1}",
            )
        said = ", ".join(f"{axis} {old[axis]} -> {new[axis]}" for axis in changed)
        if not changed and not change.preempted:
            return "nothing to change: these values are in effect already", []
        said = said or f"{len(change.preempted)} preempted, so that the values in effect hold at once"
        if scheduler.switching:
            return f"{said}; {scheduler.transition_text()}", change.effects
        return f"{said}, in effect from iteration {self._engine.iteration + 1}", change.effects

    def _pin(self, command: Pin | Unpin, asker: PendingCommand) -> Done:
        scheduler = self._engine.scheduler
        if isinstance(command, Pin):
            known = self._telemetry.finished_request(command.request)
            pin = scheduler.pin(known or self._find(command.request))
            said = f"{counted(len(pin.blocks), 'block')} of {pin.name} pinned"
        else:
            pin = scheduler.unpin(self._pinned_name(command.request))
            said = f"{counted(len(pin.blocks), 'block')} of {pin.name} unpinned"
        self._touch_running()
        self._telemetry.event(
            "pin",
            request=pin.num,
            request_id=pin.name,
            blocks=len(pin.blocks),
            cause=command.type,
            detail=f"{said}; {scheduler.pool.pinned_total} of {scheduler.pool.total} blocks are pinned now",
            **_who(asker),
        )
        return f"{said}; {scheduler.pool.pinned_total} of {scheduler.pool.total} blocks are pinned now", []

    def _compact(self, command: Compact, asker: PendingCommand) -> Done:
        scheduler = self._engine.scheduler
        first, end = command.first, command.end
        whole = first is None and end is None
        span = None if whole else (first or 0, scheduler.pool.total if end is None else end)
        count = scheduler.compact(span)
        where = "" if span is None else f" out of {span[0]} to {span[1]}"
        if not count:
            return f"nothing to move{where}: no block with content has a free block to go to", []
        most = scheduler.policies.compaction_moves
        said = f"{counted(count, 'block')} to be moved{where}, at most {most} an iteration"
        self._telemetry.event("command", detail=f"compact: {said}", **_who(asker))
        return said, []

    def _dump(self, _command: Dump, asker: PendingCommand) -> None:
        """Answered when the file is written, by another thread."""
        refusal = "there is no flight recorder" if self._flight is None else self._flight.command(asker)
        if refusal is not None:
            raise Refused(refusal)

    def _tell_of(self, what: str, request: Request, asker: PendingCommand) -> None:
        detail = f"{what} {request.id}"
        self._telemetry.event("command", request=request.num, request_id=request.id, detail=detail, **_who(asker))

    def _pinned_name(self, wanted: int | str) -> str:
        pins = self._engine.scheduler.pins.by_name.values()
        return next((pin.name for pin in pins if wanted in (pin.num, pin.name)), str(wanted))

    def _touch_running(self) -> None:
        """Pins show in every request that holds pinned blocks."""
        for request in self._engine.scheduler.running:
            self._telemetry.touch(request)

    def _find(self, wanted: int | str) -> Request:
        for request in self._engine.scheduler.requests.values():
            if wanted in (request.num, request.id):
                return request
        raise Refused(f"no live request {wanted!r}; see the requests table for ids")


def _who(asker: PendingCommand) -> dict[str, int | None]:
    return {"uid": asker.uid, "pid": asker.pid}


_DOES: dict[type[Command], Callable[[Control, Any, PendingCommand], Done | None]] = {
    SetPolicy: Control._set_policy,
    Abort: Control._abort,
    Preempt: Control._preempt,
    Pause: Control._pause,
    Resume: Control._resume,
    ResetPrefixCache: Control._reset_prefix_cache,
    RequestKeyframe: Control._keyframe,
    Pin: Control._pin,
    Unpin: Control._pin,
    Compact: Control._compact,
    Dump: Control._dump,
}

COMMANDS: list[str] = [command.model_fields["type"].default for command in _DOES]
"""What this engine does when it is told to, by ``type``."""
