"""An engine that serves in a thread of this process, with its sockets, until it is closed."""

import logging
import os
import threading
from itertools import count

from engine.config import EngineConfig
from engine.model.tokenizer import TextTokenizer
from engine.serving.server import EngineFailed, Server
from engine.words import one_line
from kvtop.publish.errors import PublishError
from kvtop.publish.sockets import rehearse

_LOG = logging.getLogger(__name__)

_PATIENCE = 60.0
"""Seconds that closing waits for the iteration in progress; a long prefill takes some."""


class LLMError(RuntimeError):
    """The engine cannot be made, or has failed; the text says why."""


_NUMBERS = count(1)
"""Never the same twice, so that two threads which make one each do not meet."""


def own_name() -> str:
    """``llm-PID``, and for all but the first of this process a number behind it."""
    number = next(_NUMBERS)
    return f"llm-{os.getpid()}" if number == 1 else f"llm-{os.getpid()}-{number}"


class Session:
    """Holds no signal handler, so that any thread can make one. Raises `LLMError` where the engine cannot be made."""

    def __init__(self, config: EngineConfig) -> None:
        # Here, so that `import engine` and whoever wants only the parameters do without torch.
        from engine.build import BuildError, build

        self.failure: str | None = None
        try:
            rehearse(None, config.name)
            server = build(config, lambda *_: None, _LOG.info)
            try:
                server.publisher.start()
            except BaseException:
                server.close()
                raise
        except BuildError as error:
            raise LLMError(f"{error} ({error.hint})" if error.hint else str(error)) from None
        except (PublishError, OSError) as error:
            raise LLMError(str(error)) from None
        self._process = os.getpid()
        self._server: Server | None = server
        self._thread = threading.Thread(target=self._serve, args=(server,), name=f"llm {config.name}", daemon=True)
        self._thread.start()

    @property
    def server(self) -> Server:
        """Raises `LLMError` where it serves no more, and in a process that was forked from its own: threads stay behind."""
        if self._process != os.getpid():
            raise LLMError(f"this LLM is of process {self._process}; make one of its own in each process")
        if self.failure is not None:
            raise LLMError(self.failure)
        if self._server is None:
            raise LLMError("this LLM is closed")
        return self._server

    @property
    def tokenizer(self) -> TextTokenizer:
        tokenizer = self.server.tokenizer
        assert tokenizer is not None
        return tokenizer

    def close(self) -> None:
        """Safe to repeat, and from any thread. Requests under way end with reason abort; the memory goes with the last who
        has some of it."""
        server, self._server = self._server, None
        if self._process != os.getpid():
            return
        if server is not None:
            server.stop()
        # The collector may call this in the engine's own thread, which ends by itself then.
        if threading.current_thread() is not self._thread:
            self._thread.join(_PATIENCE)

    def _serve(self, server: Server) -> None:
        why = "the LLM was closed"
        try:
            server.run()
        except EngineFailed as error:
            self.failure = why = str(error)
        except BaseException as error:
            self.failure = why = f"the engine failed: {one_line(error)}"
        finally:
            server.publisher.stop(why[:200])
            server.close(why)
