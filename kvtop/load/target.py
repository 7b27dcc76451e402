"""Where requests go and in which form: the bodies of both APIs, with what only some servers understand left out if asked."""

import json
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from kvtop.errors import UserError, one_line
from kvtop.load.driver import Said
from kvtop.load.plan import Session, Turn
from kvtop.load.prompts import Writer, prompt_tokens

Api = Literal["completions", "chat"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """``plain``: only fields of OpenAI's own API. ``extensions``: priorities, salts, retention and beams, as kvtop's engine
    has them. ``temperature`` for requests whose class says none."""

    model: str
    api: Api = "completions"
    plain: bool = False
    extensions: bool = False
    temperature: float = 0.0
    seed: int | None = None

    def body(self, session: Session, turn: Turn, said: Said, text: str, head: str) -> bytes:
        """The JSON of one request whose turn says ``text`` after ``said``; ``head`` is the session's."""
        fields: dict[str, Any] = {"model": self.model}
        if self.api == "chat":
            system = [{"role": "system", "content": head.strip()}] if head else []
            before = [{"role": who, "content": what.strip() if who == "user" else what} for who, what in said]
            fields["messages"] = [*system, *before, {"role": "user", "content": text.strip()}]
        else:
            fields["prompt"] = "".join((head, *(what for _, what in said), text))
        fields |= {
            "max_tokens": turn.output,
            "temperature": self.temperature if session.temperature is None else session.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if session.samples > 1:
            fields["n"] = session.samples
        if self.seed is not None:
            fields["seed"] = self.seed
        if not self.plain:
            fields["ignore_eos"] = True
        if self.extensions:
            fields |= _extended(session)
        return json.dumps(fields, ensure_ascii=False).encode()

    def write(self, writer: Writer, session: Session, turn: Turn, said: Said) -> tuple[str, bytes]:
        """What the user says, and the request."""
        text = writer.text(turn.user)
        return text, self.body(session, turn, said, text, writer.text(session.head))


def _extended(session: Session) -> dict[str, Any]:
    asked = session.extensions
    fields: dict[str, Any] = {}
    if asked.priority:
        fields["priority"] = asked.priority
    if asked.cache_salt:
        fields["cache_salt"] = asked.cache_salt
    if asked.beams is not None:
        fields |= {"use_beam_search": True, "beam_width": asked.beams}
    if asked.keep is not None:
        kept = {"start": 0, "end": prompt_tokens(session.head), "priority": asked.keep}
        fields["retention"] = [kept if asked.keep_seconds is None else {**kept, "seconds": asked.keep_seconds}]
    return fields


def base_url(target: str) -> str:
    """``http://HOST:PORT`` of what was typed: a URL, with or without ``/v1``, or HOST:PORT. Raises `UserError`."""
    text = target if "://" in target else f"http://{target}"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise UserError(f"{one_line(target)!r} is no URL of a server", "for example http://127.0.0.1:8000", 2)
    if parts.username is not None or parts.password is not None:
        raise UserError("a URL with a password in it", "the bearer token goes into KVTOP_LOAD_TOKEN", 2)
    shown = f"[{host}]" if ":" in host else host
    place = shown if port is None else f"{shown}:{port}"
    path = parts.path.rstrip("/").removesuffix("/v1")
    return f"{parts.scheme}://{place}{path}"


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
