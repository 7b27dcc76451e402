"""Textual's driver for Unix terminals, made to bear what terminals do to a program.

Bytes that are no text are dropped; a terminal that is gone ends the app (without SIGHUP, which may be ignored, nothing
else would); Ctrl+Z goes back to the shell and ``fg`` draws all anew, however the process was stopped.
"""

import errno
import os
import select
import signal
import termios
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import Any, Final

from textual._parser import ParseError
from textual.drivers.linux_driver import LinuxDriver

from kvtop.term.paper import ASK
from kvtop.term.paste import KeyParser
from kvtop.term.writer import TerminalWriter
from kvtop.views.clusters import spell_out, whole

STDERR: Final = 2
READ_BYTES: Final = 4096
POLL_MS: Final = 100
"""Between two looks at whether an escape key pressed alone is one."""

STANDARD_SIZE: Final = (80, 24)
LARGEST_SIZE: Final = (1000, 500)
"""Columns and rows beyond which the rest of a terminal is left alone; one that claims millions is not drawn in full."""


def terminal_size(number: int) -> tuple[int, int]:
    """Columns and rows of the terminal behind a file descriptor, by its own word.

    ``COLUMNS`` and ``LINES`` are not asked: exported, they stay what they were when the terminal changes its size.
    """
    try:
        columns, rows = os.get_terminal_size(number)
    except OSError:
        columns, rows = 0, 0
    if columns <= 0 or rows <= 0:  # a serial line, or a pseudo terminal whose size nobody has set
        return STANDARD_SIZE
    return min(columns, LARGEST_SIZE[0]), min(rows, LARGEST_SIZE[1])


def hung_up(number: int) -> bool:
    """Whether the terminal behind a file descriptor is gone."""
    poll = select.poll()
    poll.register(number, 0)
    return any(events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0))


class TerminalDriver(LinuxDriver):
    """The driver that `kvtop.term.front_buffer.FrontBufferApp` uses on a terminal."""

    def __init__(self, app: Any, **kwargs: Any) -> None:
        self._suspending = self._continued = self._leaving = False
        stopping = signal.getsignal(signal.SIGTSTP)
        super().__init__(app, **kwargs)
        if stopping is signal.SIG_IGN:  # by whoever started us and knows of no job control
            signal.signal(signal.SIGTSTP, stopping)
        encoding = "ascii" if getattr(app, "ascii_only", False) else "utf-8"
        # The terminal's descriptor is that of standard error, as Textual has it.
        self._file: Any = TerminalWriter(STDERR, encoding, self._terminal_gone)

    # Input

    def run_input_thread(self) -> None:
        """Reads keys until told to stop, or until the terminal is gone."""
        parser = KeyParser(self._debug, asked=getattr(self._app, "asks_paper", False))
        decode = getincrementaldecoder("utf-8")("ignore").decode
        poll = select.poll()
        poll.register(self.fileno, select.POLLIN)
        while not self.exit_event.is_set():
            if poll.poll(POLL_MS):
                data = self._read()
                if data is None:
                    return
                for event in parser.feed(decode(data)) if data else ():
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)
        with suppress(EOFError, ParseError):
            for _ in parser.feed(""):
                pass

    def _read(self) -> bytes | None:
        """What was typed; None when nothing more will ever be."""
        try:
            data = os.read(self.fileno, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:
            data, over = b"", True
        else:
            # An end of file alone may be a Ctrl+D, where somebody has changed the terminal's modes under us.
            over = not data and hung_up(self.fileno)
        if over:
            self._terminal_gone()
            return None
        if not data:
            self.exit_event.wait(POLL_MS / 1000)
        return data

    def _run_input_thread(self) -> None:
        try:
            self.run_input_thread()
        except Exception as error:
            self._in_loop(self._app._handle_exception, error)

    def _terminal_gone(self) -> None:
        """Called from any thread, perhaps more than once."""
        self._in_loop(self._leave)

    def _leave(self) -> None:
        if not self._leaving:
            self._leaving = True
            self._app.exit(return_code=1)

    def _in_loop(self, call: Any, *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: the app has ended already
            self._loop.call_soon_threadsafe(self._as_the_app, call, arguments)

    def _as_the_app(self, call: Any, arguments: tuple[Any, ...]) -> None:
        """A thread and a signal's handler know nothing of the app, and a timer begun for them would not find it."""
        with self._app._context():
            call(*arguments)

    # Output

    def write(self, data: str) -> None:
        """What Textual has painted itself may hold cells (see `kvtop.views.clusters`)."""
        super().write(data if data.isascii() else spell_out(whole(data)))

    # Size

    def _get_terminal_size(self) -> tuple[int, int]:
        return terminal_size(self.fileno)

    # Stopping and going on

    def start_application_mode(self) -> None:
        self._wait_for_foreground()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if getattr(self._app, "asks_paper", False):
            self.write(ASK)

    def _wait_for_foreground(self) -> None:
        """Stops here as a background job, as any program does that changes its terminal, until ``fg``."""
        before, self._suspending = self._suspending, True
        try:
            while True:
                try:
                    termios.tcsetattr(self.fileno, termios.TCSANOW, termios.tcgetattr(self.fileno))
                except termios.error as error:
                    if error.args[0] == errno.EINTR:  # continued; perhaps in the background again
                        continue
                return
        finally:
            self._suspending = before

    def suspend_process(self) -> bool:
        """Gives the terminal back and stops, with all of the job; returns after ``fg``.

        Returns:
            Whether it was stopped. A job that no shell could continue is not.
        """
        if self._suspending or signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN:
            return False
        self._suspending, self._continued = True, False
        app = self._app
        app._suspend_signal()
        self.suspend_application_mode()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            # To the job as a whole, as the terminal does it: a `make` or a script that waits for us stops too.
            os.kill(0, signal.SIGTSTP)
        finally:
            signal.signal(signal.SIGTSTP, handler)
            self._go_on()
            self._suspending = False
        return self._continued

    def _sigtstp_application(self, *_: Any) -> None:
        if self._loop.is_closed():
            os.kill(os.getpid(), signal.SIGSTOP)
        # Nothing else in a signal's handler: it may have struck while this very thread holds the writer's lock.
        self._in_loop(self.suspend_process)

    def _sigcont_application(self, *_: Any) -> None:
        self._continued = True
        if not self._suspending:
            self._in_loop(self._continued_by_others)

    def _continued_by_others(self) -> None:
        """After a stop that could not be prepared for (SIGSTOP): the shell has since had the terminal."""
        if self._writer_thread is not None and not self._suspending:
            self._app._suspend_signal()
            self.suspend_application_mode()
            self._go_on()

    def _go_on(self) -> None:
        self.resume_application_mode()
        self._app._resume_signal()
        self._app.refresh(layout=True)
