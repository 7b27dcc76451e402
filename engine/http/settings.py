"""Where the HTTP server listens, who may ask it, and how much of anything it takes."""

import ipaddress
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What one client can ask for, and all together. Seconds are of the clock on the wall."""

    body_bytes: int = 4 * 2**20
    """Of one request's body."""
    bodies_bytes: int = 64 * 2**20
    """Of all bodies that come, or wait to be taken apart."""
    depth: int = 32
    """Of arrays and objects in each other in a body."""
    prompt_tokens: int = 0
    """Of one prompt; 0: what the model's context has room for."""
    choices: int = 256
    """Outputs that one body may ask for: its prompts times ``n``."""
    requests: int = 512
    """Answered at a time, each from the end of its body on. One more is told to come again."""
    queue: int = 512
    """Waiting in the engine's queue. One more is told to come again."""
    connections: int = 1024
    request_seconds: float = 600.0
    """From the body's end to the answer's."""
    header_seconds: float = 10.0
    """From the first byte of a request to the end of its headers."""
    body_seconds: float = 30.0
    """From there to the end of its body."""
    idle_seconds: float = 15.0
    """Between two requests on one connection."""
    write_seconds: float = 60.0
    """For which a client may take nothing of what has been written to it."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            least = 0 if each.name == "prompt_tokens" else 1 if each.type is int else 0.001
            if not least <= value <= MOST:
                raise ValueError(f"HTTP limit {each.name} of {value} is not in {least}…{MOST}")


MOST = 10**9

METRICS_NAMES = ("kvtop", "vllm")


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """``token``: what a client must bring, none where empty. ``metrics_names``: by whose names metrics are told, one of
    `METRICS_NAMES`."""

    host: str
    port: int
    token: str = ""
    limits: HttpLimits = field(default_factory=HttpLimits)
    metrics_names: str = METRICS_NAMES[0]

    @property
    def guarded(self) -> bool:
        """Nobody but programs of this machine reaches it, though without a token: so a web page must not, by a name that
        leads here."""
        return is_loopback(self.host) and not self.token


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_place(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``[IPV6]:PORT``, ``:PORT`` or ``PORT``; port 0: any that is free. Without a host it is
    127.0.0.1. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"--http {text!r}: an IPv6 address goes in brackets, as in [::1]:8000")
    if not (port.isascii() and port.isdecimal()) or len(port) > 5 or int(port) > 65535:
        raise ValueError(f"--http {text!r} is not HOST:PORT with a port from 0 to 65535")
    host = host or "127.0.0.1"
    if not host.isascii() or not host.isprintable() or len(host) > 253 or any(c in host for c in " /@?#%"):
        raise ValueError(f"--http {text!r} names no host")
    return host, int(port)


def http_config(
    place: str,
    token: str,
    *,
    open_to_all: bool,
    limits: HttpLimits | None = None,
    metrics_names: str = METRICS_NAMES[0],
) -> HttpConfig:
    """Raises ValueError, in a sentence, for a place that cannot be, and for one that others reach without a token."""
    host, port = parse_place(place)
    if token and not (token.isascii() and token.isprintable() and " " not in token and len(token) <= 1024):
        raise ValueError("the HTTP token must be of printable ASCII without spaces, 1024 characters at most")
    if not is_loopback(host) and not token and not open_to_all:
        raise ValueError(
            f"--http {place}: others could reach it; set KVTOP_HTTP_TOKEN or --http-token, or give --http-open to let "
            "everybody in"
        )
    return HttpConfig(host, port, token, limits or HttpLimits(), metrics_names)
