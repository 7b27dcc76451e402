"""Which server ``kvtop load`` means: a URL, or the place where a running engine of that name serves HTTP."""

import os
import sys
from pathlib import Path

from kvtop.errors import UserError
from kvtop.load.target import base_url, is_loopback
from kvtop.protocol.places import valid_name
from kvtop.snapshot.files import save_texts
from kvtop.sources.discover import Found

TOKEN = "KVTOP_LOAD_TOKEN"
"""The variable that holds the bearer token of a server that asks for one."""

ANOTHER = "give another name with -o"


def server_url(target: str) -> str:
    """``http://HOST:PORT``. Raises `UserError` in a sentence where there is none."""
    if "://" in target or ":" in target or not valid_name(target):
        return base_url(target)
    from kvtop.commands.target import find_commanded

    found = find_commanded(target, typed=lambda found: f"kvtop load {_http(found) or target}")
    http = _http(found)
    if not http:
        raise UserError(
            f"engine {found.name} serves no HTTP",
            f"start it so: kvtop engine --name {found.name} --http 127.0.0.1:8000",
        )
    # It listens at every address of this machine; this one does not leave it.
    return base_url(http).replace("//0.0.0.0", "//127.0.0.1").replace("//[::]", "//[::1]")


def _http(found: Found) -> str | None:
    return None if found.hello is None else found.hello.engine.http


def bearer_token() -> str | None:
    """That of the environment; None where there is none. Raises `UserError` for what no header could carry."""
    token = os.environ.get(TOKEN, "").strip()
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise UserError(f"{TOKEN} has characters that no bearer token has", "printable ASCII without spaces", 2)
    return token or None


def warn_of_others(url: str) -> None:
    if not is_loopback(url):
        print(f"kvtop: {url} is not this machine: make sure that it may be loaded", file=sys.stderr)


def new_file(name: str | None) -> Path | None:
    """Where a result is to be written, looked at before the load and not after it. Raises `UserError`."""
    if name is None:
        return None
    path = Path(name)
    if path.is_dir() or not path.parent.is_dir():
        why = "a folder" if path.is_dir() else "there is no such folder"
        raise UserError(f"{name} cannot be written: {why}", code=2)
    if path.exists():
        raise UserError(f"{name} exists", ANOTHER, 2)
    return path


def write_result(path: Path, text: str) -> None:
    """Whole or not at all, and never over what came there during the load. Raises `UserError`."""
    save_texts({path: [text]}, ANOTHER, 0o666)
