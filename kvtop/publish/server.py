"""The thread that speaks with viewers and controllers, so that the engine's thread never has to."""

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable

from kvtop.protocol.codec import encode
from kvtop.protocol.frames import Fault
from kvtop.protocol.hello import Hello
from kvtop.publish.controller import Controller
from kvtop.publish.cursor import Cursor
from kvtop.publish.dispatch import CommandQueue
from kvtop.publish.flight import FlightLimits, FlightRecorder
from kvtop.publish.merged_lines import MergedLines
from kvtop.publish.peer import Peer, PeerGone
from kvtop.publish.ring import Ring
from kvtop.publish.viewer import Viewer
from kvtop.publish.waker import Waker

MAX_VIEWERS = 64
MAX_CONTROLLERS = 64
FAREWELL_SECONDS = 0.5
"""Time all peers together have to read what is left for them when the engine stops."""

LONGEST_SLEEP = 60.0
ACCEPTS_PER_TURN = 32
ACCEPT_AGAIN = 1.0
"""Seconds until the next try when the process has no file descriptor left for another connection."""

_LOG = logging.getLogger(__name__)


class Server:
    """Owns the listening sockets it is given and every connection accepted from them."""

    def __init__(
        self,
        observe: socket.socket,
        control: socket.socket,
        hello: Hello,
        ring: Ring,
        commands: CommandQueue,
        waker: Waker,
        want_keyframe: Callable[[], None],
        flight: FlightLimits | None = None,
    ) -> None:
        self._observe = observe
        self._control = control
        self._hello = encode(hello)
        self._ring = ring
        self._commands = commands
        self._waker = waker
        self._want_keyframe = want_keyframe
        self._lines = MergedLines()
        self.flight: FlightRecorder | None = None
        """The flight recorder, where there is one."""
        if flight is not None and flight.on:
            self.flight = FlightRecorder(flight, hello, ring, self._lines, want_keyframe)
        self._viewers: set[Viewer] = set()
        self._controllers: set[Controller] = set()
        self._selector = selectors.DefaultSelector()
        self._accept_at = 0.0
        self._accepting = False
        self._goodbye: str | None = None
        self._flight_failed = False
        self._thread = threading.Thread(target=self._run, name="kvtop-publish", daemon=True)

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    def start(self) -> None:
        self._thread.start()

    def stop(self, reason: str) -> None:
        """Say goodbye to everybody and close all connections. Returns within about a second."""
        self._goodbye = reason
        self._waker.wake()
        self._thread.join(FAREWELL_SECONDS * 4)

    # -- the thread

    def _run(self) -> None:
        self._selector.register(self._waker.reader, selectors.EVENT_READ)
        self._accept_from_now_on()
        try:
            while self._goodbye is None:
                self._turn()
            self._say_goodbye(self._goodbye)
        finally:
            for peer in self._peers():
                self._drop(peer)
            self._selector.close()
            self._observe.close()
            self._control.close()

    def _turn(self) -> None:
        timeout = self._time_to_sleep()
        ready = self._selector.select(timeout)
        self._waker.armed = False
        now = time.monotonic()
        for key, events in ready:
            if key.fileobj is self._waker.reader:
                self._waker.drain()
            elif key.fileobj is self._observe:
                self._accept(self._observe, self._welcome_viewer)
            elif key.fileobj is self._control:
                self._accept(self._control, self._welcome_controller)
            elif events & selectors.EVENT_READ:
                self._guard(key.data, lambda peer: peer.receive(now))
        if not self._accepting and now >= self._accept_at:
            self._accept_from_now_on()
        for controller in list(self._controllers):
            self._guard(controller, lambda peer: peer.work(now, peer.take))
        self._deliver_answers()
        for controller in list(self._controllers):
            self._guard(controller, self._serve_controller)
        last = self._ring.last_seq
        for viewer in list(self._viewers):
            self._guard(viewer, lambda peer: self._serve_viewer(peer, now, last))
        if self.flight is not None:
            self._record(self.flight, now, last)
        for peer in self._peers():
            self._watch(peer, now)

    def _record(self, flight: FlightRecorder, now: float, last: int | None) -> None:
        """A fault of the recorder ends it and nothing else; what it has recorded can still be written."""
        if self._flight_failed:
            return
        try:
            flight.serve(now, last)
        except Exception:
            self._flight_failed = True
            _LOG.exception("kvtop: the flight recorder has stopped because of an internal error")

    def _time_to_sleep(self) -> float:
        """Seconds until somebody is due. Arms the waker when a viewer is waiting for news from the engine."""
        now = time.monotonic()
        times = [at for peer in self._peers() if (at := peer.next_at(now)) is not None]
        if not self._accepting:
            times.append(self._accept_at)
        # Armed before looking: news that come after the look find it armed.
        flight = None if self._flight_failed else self.flight
        self._waker.armed = bool(self._viewers) or flight is not None
        waiting = flight is not None and flight.waits
        if flight is not None and (at := flight.due_at()) is not None:
            times.append(at)
        for viewer in self._viewers:
            at = viewer.due_at()
            if at is not None:
                times.append(at)
            elif not viewer.writing:
                waiting = True
        if not waiting:
            self._waker.armed = False
        return min(LONGEST_SLEEP, max(0.0, min(times) - now)) if times else LONGEST_SLEEP

    def _peers(self) -> list[Peer]:
        return [*self._viewers, *self._controllers]

    def _serve_controller(self, controller: Controller) -> None:
        controller.flush()
        if controller.done():
            raise PeerGone

    def _serve_viewer(self, viewer: Viewer, now: float, last: int | None) -> None:
        viewer.work(now, viewer.take)
        viewer.serve(now, last)

    def _deliver_answers(self) -> None:
        for asker, reply in self._commands.answers():
            if isinstance(asker, Controller) and asker in self._controllers:
                asker.reply(reply)

    def _guard(self, peer: Peer, work: Callable[..., None]) -> None:
        """A fault of one connection ends that connection and nothing else."""
        if peer not in self._viewers and peer not in self._controllers:
            return
        try:
            work(peer)
        except PeerGone:
            self._drop(peer)
        except Exception as error:
            _LOG.exception("kvtop: a connection was closed because of an internal error")
            if not peer.writing:
                self._send_away(peer.sock, "internal", f"{type(error).__name__}: {error}")
            self._drop(peer)

    def _watch(self, peer: Peer, now: float) -> None:
        mask = (selectors.EVENT_READ if peer.wants_read(now) else 0) | (selectors.EVENT_WRITE if peer.writing else 0)
        if mask == peer.mask:
            return
        if not peer.mask:
            self._selector.register(peer.sock, mask, peer)
        elif not mask:
            self._selector.unregister(peer.sock)
        else:
            self._selector.modify(peer.sock, mask, peer)
        peer.mask = mask

    def _drop(self, peer: Peer) -> None:
        if peer.mask:
            self._selector.unregister(peer.sock)
            peer.mask = 0
        peer.close()
        self._viewers.discard(peer)
        self._controllers.discard(peer)
        if not self._viewers:
            self._lines.clear()

    # -- coming

    def _accept_from_now_on(self) -> None:
        for listener in (self._observe, self._control):
            self._selector.register(listener, selectors.EVENT_READ)
        self._accepting = True

    def _accept(self, listener: socket.socket, welcome: Callable[[socket.socket], None]) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, _address = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                _LOG.warning("kvtop: no new connections for a while: %s", error.strerror)
                self._accept_later()
                return
            welcome(sock)

    def _accept_later(self) -> None:
        if self._accepting:
            for listener in (self._observe, self._control):
                self._selector.unregister(listener)
        self._accepting = False
        self._accept_at = time.monotonic() + ACCEPT_AGAIN

    def rehello(self, hello: Hello) -> None:
        """Greet new peers with this. Safe from any thread: one reference is replaced."""
        self._hello = encode(hello)
        if self.flight is not None:
            self.flight.rehello(hello)

    def _welcome_viewer(self, sock: socket.socket) -> None:
        if len(self._viewers) >= MAX_VIEWERS:
            self._turn_away(sock, f"{MAX_VIEWERS} viewers are connected already; close one and try again")
            return
        self._viewers.add(Viewer(sock, self._hello, Cursor(self._ring, self._lines, self._want_keyframe)))

    def _welcome_controller(self, sock: socket.socket) -> None:
        if len(self._controllers) >= MAX_CONTROLLERS:
            self._turn_away(sock, f"{MAX_CONTROLLERS} controllers are connected already; close one and try again")
            return
        self._controllers.add(Controller(sock, self._hello, self._commands, self._keyframe_for_all))

    def _keyframe_for_all(self) -> None:
        for viewer in self._viewers:
            viewer.cursor.ask_keyframe()
        self._want_keyframe()

    def _turn_away(self, sock: socket.socket, message: str) -> None:
        self._send_away(sock, "busy", message)
        sock.close()

    @staticmethod
    def _send_away(sock: socket.socket, code: str, message: str) -> None:
        sock.setblocking(False)
        with contextlib.suppress(OSError):  # it is gone, or does not read: nothing more can be done for it
            sock.send(encode(Fault(code=code, message=message[:1000], fatal=True)))

    # -- going

    def _say_goodbye(self, reason: str) -> None:
        if self._accepting:
            for listener in (self._observe, self._control):
                self._selector.unregister(listener)
        self._deliver_answers()
        for peer in self._peers():
            self._guard(peer, lambda peer: peer.farewell(reason))
        until = time.monotonic() + FAREWELL_SECONDS
        for peer in self._peers():
            self._guard(peer, lambda peer: peer.flush())
        while (left := [peer for peer in self._peers() if peer.writing]) and (now := time.monotonic()) < until:
            for peer in left:
                self._watch(peer, float("-inf"))
            for key, _events in self._selector.select(until - now):
                if isinstance(key.data, Peer):
                    self._guard(key.data, lambda peer: peer.flush())
                elif key.fileobj is self._waker.reader:
                    self._waker.drain()
