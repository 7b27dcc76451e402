"""What became of one request, in the client's own time."""

from array import array
from dataclasses import dataclass, field
from enum import StrEnum


class Failure(StrEnum):
    """Why a request has no complete answer; the order is that of tables."""

    CLIENT_LIMIT = "client_limit"
    """Not sent: the client had as many requests open as it may."""
    CONNECT = "connect"
    """No connection came about."""
    TOO_MANY = "http_429"
    UNAVAILABLE = "http_503"
    CLIENT_ERROR = "http_4xx"
    SERVER_ERROR = "http_5xx"
    REPORTED = "reported"
    """The server said in the stream that it failed."""
    TIMEOUT = "timeout"
    DROPPED = "dropped"
    """The connection ended before the answer did."""
    MALFORMED = "malformed"
    """What came is no answer of this API."""
    UNFINISHED = "unfinished"
    """Cut off by the end of the run, which is nobody's fault."""


BOUNDS = ("ttft", "tpot", "latency")
"""What of a sample a service level can be asked of, in seconds."""


@dataclass(slots=True)
class Sample:
    """Times are seconds from the start of the load; None: it did not come to that."""

    index: int
    label: str
    session: int
    turn: int
    due: float
    prompt_asked: int
    output_asked: int
    choices: int = 1
    sent: float | None = None
    done: float | None = None
    tokens_at: "array[float]" = field(default_factory=lambda: array("d"))
    """When pieces of text came: one token each from most servers, several from some. Eight bytes each: a long load has
    many."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    """As the server counted them (usage); None: it did not say."""
    finish_reason: str | None = None
    status: int | None = None
    retry_after: float | None = None
    failure: Failure | None = None
    detail: str = ""
    warmup: bool = False

    @property
    def name(self) -> str:
        """By which the server may call it: ``load-12``, the third turn of a chat ``chat-12.2``."""
        return f"{self.label or 'load'}-{self.session}" + (f".{self.turn}" if self.turn else "")

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def first(self) -> float | None:
        return self.tokens_at[0] if self.tokens_at else None

    @property
    def tokens(self) -> int:
        """Output tokens: as the server counted them, else a token for each piece of text."""
        return len(self.tokens_at) if self.output_tokens is None else self.output_tokens

    @property
    def lateness(self) -> float | None:
        return None if self.sent is None else max(0.0, self.sent - self.due)

    @property
    def ttft(self) -> float | None:
        """Seconds from sending to the first token's text."""
        return None if self.sent is None or self.first is None else self.first - self.sent

    @property
    def latency(self) -> float | None:
        """Seconds from sending to the end of a complete answer."""
        return None if self.sent is None or self.done is None or not self.ok else self.done - self.sent

    @property
    def tpot(self) -> float | None:
        """Seconds a token after the first, of each choice; None below two tokens."""
        each = self.tokens / self.choices
        if each <= 1 or len(self.tokens_at) < 2:
            return None
        return (self.tokens_at[-1] - self.tokens_at[0]) / (each - 1)
