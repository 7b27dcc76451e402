"""The engine's handle on everything that is published: a few cheap calls from the engine's own thread."""

import threading
from collections.abc import Sequence
from pathlib import Path

from kvtop.protocol.events import Event
from kvtop.protocol.frames import IterationFrame, Keyframe
from kvtop.protocol.hello import Hello
from kvtop.protocol.places import control_path, observe_path, socket_folder
from kvtop.publish.dispatch import CommandQueue, PendingCommand
from kvtop.publish.flight import FlightLimits, FlightRecorder
from kvtop.publish.ring import EncodedKeyframe, Ring
from kvtop.publish.schedule import KeyframeSchedule
from kvtop.publish.server import Server
from kvtop.publish.sockets import Claim, claim_place
from kvtop.publish.waker import Waker

UNWATCHED = 32
"""Frames kept while nobody watches: the flight recorder takes each within moments."""


class Publisher:
    """Opens the two sockets of the engine that ``hello`` names and serves all viewers from a thread of its own.

    The engine calls `publish` after each iteration, `publish_keyframe` when `keyframe_due`, and answers what
    `commands` returns. None of these waits for a viewer or fails because of one.

    ``ring``: iteration frames kept for viewers that are behind. ``keyframe_every``: seconds between keyframes, so
    that a viewer that joins need not wait for the engine. ``folder``: where the sockets go (default: the user's
    socket folder). ``flight``: what its flight recorder keeps; default: there is none. One engine a publisher; not restartable.
    """

    def __init__(
        self,
        hello: Hello,
        folder: Path | None = None,
        *,
        ring: int = 512,
        keyframe_every: float = 5.0,
        flight: FlightLimits | None = None,
    ) -> None:
        self.hello = hello
        self._folder = folder
        self._flight = flight
        self._ring = Ring(ring)
        self._attention = threading.Event()
        self._schedule = KeyframeSchedule(keyframe_every, self._attention)
        self._waker = Waker()
        self._commands = CommandQueue(self._attention, self._waker.wake)
        self._claim: Claim | None = None
        self._server: Server | None = None
        self._recorder: FlightRecorder | None = None

    def start(self) -> None:
        """Bind both sockets. Raises `PublishError` in one sentence when that cannot be, and OSError where the process may have
        no more files."""
        claim = claim_place(self._folder, self.hello.engine.name)
        try:
            server = Server(
                claim.observe,
                claim.control,
                self.hello,
                self._ring,
                self._commands,
                self._waker,
                self._schedule.want,
                self._flight,
            )
            server.start()
        except BaseException:
            claim.observe.close()
            claim.control.close()
            claim.release()
            raise
        self._claim, self._server = claim, server
        self._recorder = server.flight

    def rehello(self, hello: Hello) -> None:
        """Greet those who come from now on with ``hello``: facts about the same engine that have changed."""
        self.hello = hello
        if self._server is not None:
            self._server.rehello(hello)

    def stop(self, reason: str = "engine stopped") -> None:
        """Refuse open commands, say bye to all, close and remove the sockets. Takes a second at most; safe to repeat."""
        self._commands.close(f"not done: {reason}")
        server, self._server = self._server, None
        if server is not None:
            server.stop(reason)
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.release()
            self._waker.close()

    @property
    def places(self) -> tuple[Path, Path]:
        """The observing and the control socket; they exist between `start` and `stop`."""
        folder = self._folder if self._folder is not None else socket_folder()
        name = self.hello.engine.name
        return observe_path(folder, name), control_path(folder, name)

    @property
    def viewers(self) -> int:
        """Viewers connected now."""
        return self._server.viewers if self._server is not None else 0

    @property
    def watched(self) -> bool:
        """Somebody is there to whom frames would go."""
        return self.viewers > 0

    @property
    def recorded(self) -> bool:
        """A flight recorder takes frames, also while nobody watches; a few a second are enough then."""
        return self._server is not None and self._server.flight is not None

    @property
    def _only_recorded(self) -> bool:
        return self.recorded and not self.watched

    @property
    def flight(self) -> FlightRecorder | None:
        """The flight recorder, where there is one; also after `stop`."""
        return self._recorder

    def pass_over(self, seq: int, events: Sequence[Event]) -> None:
        """Instead of `publish`, while it is not `watched`: no frame was made up to ``seq``; ``events`` are kept. Whoever
        comes asks for a keyframe."""
        self._ring.pass_over(seq, events)

    def publish(self, frame: IterationFrame) -> None:
        """Costs microseconds: the frame is encoded later, in the server thread, and only if somebody watches.

        Frames come in the order of ``seq``; ValueError otherwise (a fault of the engine). The frame must not be
        changed afterwards.
        """
        self._ring.append(frame, None if self.watched else UNWATCHED)
        self._waker.news()

    def keyframe_due(self) -> bool:
        """Whether the engine should make a keyframe before its next iteration."""
        return self._schedule.due(asked_only=self._only_recorded)

    def keyframe_coming(self, seq: int) -> None:
        """A keyframe as of frame ``seq`` is being encoded: frames behind it are kept until `publish_keyframe`, so that
        viewers can go on from it however long that takes."""
        self._ring.await_keyframe(seq)

    def publish_keyframe(self, keyframe: Keyframe | EncodedKeyframe) -> None:
        """From any thread. ``keyframe`` tells everything as of the last published frame, whose ``seq`` it has."""
        # In this order a request that comes in between is met by this keyframe, and never forgotten.
        self._schedule.done()
        self._ring.hold(keyframe)
        self._waker.news()

    def commands(self) -> list[PendingCommand]:
        """What controllers asked for since the last call. Each must be answered once with `PendingCommand.reply`."""
        return self._commands.drain()

    def nudge(self) -> None:
        """Ends a `wait`, now or the next. From any thread."""
        self._attention.set()

    def wait(self, seconds: float) -> None:
        """Sleep; wake early when a command comes or a keyframe is wanted or due. For an engine with nothing to do."""
        left = self._schedule.seconds_left(asked_only=self._only_recorded)
        self._attention.wait(min(seconds, left) if left > 0 else seconds)
        self._attention.clear()
