"""Sending one command to an engine and waiting for what it says."""

from pathlib import Path

from kvtop.protocol.base import MAX_COMMAND_BYTES
from kvtop.protocol.codec import encode
from kvtop.protocol.commands import Command, Reply
from kvtop.protocol.frames import Bye, Fault
from kvtop.protocol.hello import ClientHello, Hello
from kvtop.sources.connect import ConnectError, ConnectTimeout, Conversation, plain


class ControlError(RuntimeError):
    """The command got no answer. One sentence that says why and what to do next."""

    def __init__(self, sentence: str) -> None:
        super().__init__(plain(sentence))


class ControlClient:
    """Talks to a control socket (``NAME.ctl.sock``); connects anew for each command."""

    def __init__(self, path: Path, client: str = "kvtop") -> None:
        self.path = Path(path)
        self._client = client

    def hello(self, timeout: float = 5.0) -> Hello:
        """What the engine says about itself. Raises `ControlError`."""
        try:
            talk = Conversation(self.path, timeout)
        except ConnectError as error:
            raise ControlError(_advice(error)) from None
        talk.close()
        return talk.hello

    def send(self, command: Command, timeout: float = 10.0) -> Reply:
        """The engine's reply, which may be a refusal (``ok`` false). Blocks ``timeout`` seconds at most.

        A command for a run that is over is not sent at all: an engine of an older version would not look at its run.

        Raises `ControlError`.
        """
        line = encode(command)
        if len(line) > MAX_COMMAND_BYTES:
            raise ControlError(f"the command is longer than {MAX_COMMAND_BYTES} bytes; send it in parts")
        try:
            talk = Conversation(self.path, timeout)
        except ConnectError as error:
            raise ControlError(_advice(error)) from None
        try:
            if (missed := command.missed_run(talk.hello.engine.run)) is not None:
                raise ControlError(f"not sent: {missed}")
            talk.send(encode(ClientHello(client=self._client)) + line)
            return self._reply(talk, command)
        except ConnectTimeout:
            raise ControlError(
                f"no answer within {timeout:g} s; the engine may be busy and still do it, so look before trying again"
            ) from None
        except ConnectError as error:
            raise ControlError(f"{error} before it answered; see with `kvtop ls` whether it still runs") from None
        finally:
            talk.close()

    @staticmethod
    def _reply(talk: Conversation, command: Command) -> Reply:
        while True:
            frame = talk.read()
            if isinstance(frame, Reply) and frame.id == command.id:
                return frame
            if isinstance(frame, Fault):
                raise ControlError(
                    f"the engine could not use the command: {frame.message}; use the same kvtop version on both sides"
                )
            if isinstance(frame, Bye):
                raise ControlError(f"the engine left before it answered: {frame.reason}")


def _advice(error: ConnectError) -> str:
    return f"{error}; `kvtop ls` lists the engines that can be reached"
