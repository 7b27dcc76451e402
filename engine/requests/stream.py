"""A request's outputs as a stream: the engine's thread writes, any other thread reads.

The writer never waits: what nobody has read yet is joined to one piece for each output, so that a stream holds no more than
the outputs themselves, however slow its reader.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from engine.requests.logprobs import TokenLogprob


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one output and its prompt; ``cached``: of the prompt, found in the prefix cache at its latest admission.
    ``log_probability``: of the output (nats), the sum of its tokens', where they were asked for or it is a beam's."""

    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    log_probability: float | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """What is new of output ``index``: of samples their number, of beams their rank.

    ``text``: empty where the engine has no tokenizer, and while characters or stop strings are incomplete. The last one of
    an output has ``finish_reason`` (stop, length, abort, error), ``detail`` where that does not say all, and ``usage``.
    ``logprobs``: one for each of ``token_ids`` where the request asked for them, else none. ``stop_reason``: with the reason
    stop, the request's own stop string or stop token that did it.
    """

    index: int
    token_ids: tuple[int, ...] = ()
    text: str = ""
    finish_reason: str | None = None
    detail: str | None = None
    usage: Usage | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    stop_reason: int | str | None = None


def joined(pieces: Sequence[Output]) -> Output:
    """All ``pieces`` of one output, in their order, as one; what is told of its end is told by the last."""
    return replace(
        pieces[-1],
        token_ids=tuple(token for piece in pieces for token in piece.token_ids),
        text="".join(piece.text for piece in pieces),
        logprobs=tuple(each for piece in pieces for each in piece.logprobs),
    )


@dataclass(slots=True)
class _Unread:
    """Of one output: what came since it was last read. Adding to it costs the same however much there is."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    detail: str | None = None
    usage: Usage | None = None
    stop_reason: int | str | None = None

    def joined(self, index: int) -> Output:
        ids, text, logprobs = tuple(self.token_ids), "".join(self.text), tuple(self.logprobs)
        return Output(index, ids, text, self.finish_reason, self.detail, self.usage, logprobs, self.stop_reason)


class OutputStream:
    """``count`` outputs. All methods are safe from any thread."""

    def __init__(self, count: int) -> None:
        self._news = threading.Condition()
        self._unread: dict[int, _Unread] = {}
        self._open = set(range(count))
        self._listener: Callable[[], None] | None = None

    def listen(self, listener: Callable[[], None]) -> None:
        """``listener`` is called whenever there is something to `take`, in the thread that put it there, now where there is
        something already. It must not wait. One a stream."""
        with self._news:
            self._listener = listener
            if self._unread:
                listener()

    @property
    def ended(self) -> bool:
        """Nothing more comes; what came may still be unread."""
        return not self._open

    def put(self, index: int, token_ids: Sequence[int], text: str = "", logprobs: Sequence[TokenLogprob] = ()) -> None:
        """More of an output that has not ended; of one that has, nothing. ``logprobs``: of these tokens."""
        with self._news:
            if index in self._open and (token_ids or text):
                unread = self._unread_of(index)
                unread.token_ids += token_ids
                unread.logprobs += logprobs
                unread.text.append(text)
                self._tell()

    def end(
        self,
        index: int,
        reason: str,
        detail: str | None = None,
        usage: Usage | None = None,
        stop_reason: int | str | None = None,
    ) -> None:
        """The output is complete. Only its first end counts."""
        with self._news:
            if index in self._open:
                unread = self._unread_of(index)
                unread.finish_reason, unread.detail, unread.usage = reason, detail, usage
                unread.stop_reason = stop_reason
                self._open.remove(index)
                self._tell()

    def close(self, reason: str, detail: str | None = None) -> None:
        """All that have not ended end with this."""
        for index in sorted(self._open):
            self.end(index, reason, detail)

    def take(self) -> list[Output]:
        """What is new of every output, without waiting."""
        with self._news:
            unread, self._unread = self._unread, {}
        return [new.joined(index) for index, new in unread.items()]

    def get(self, timeout: float | None = None) -> Output | None:
        """What is new of one output, as soon as there is anything; None when all have ended and all is read.

        Raises TimeoutError after ``timeout`` seconds without news.
        """
        until = None if timeout is None else time.monotonic() + timeout
        with self._news:
            while not self._unread:
                if not self._open:
                    return None
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"no output for {timeout} s")
                self._news.wait(left)
            index = next(iter(self._unread))
            unread = self._unread.pop(index)
        return unread.joined(index)

    def __iter__(self) -> Iterator[Output]:
        while (output := self.get()) is not None:
            yield output

    def _tell(self) -> None:
        self._news.notify_all()
        if self._listener is not None:
            self._listener()

    def _unread_of(self, index: int) -> _Unread:
        unread = self._unread.get(index)
        if unread is None:
            unread = self._unread[index] = _Unread()
        return unread
