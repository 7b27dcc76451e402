"""Which server ``kvtop load`` means: a URL, or the place where a running engine of that name serves HTTP."""

from kvtop.errors import UserError
from kvtop.load.target import base_url
from kvtop.protocol.places import valid_name


def server_url(target: str) -> str:
    """``http://HOST:PORT``. Raises `UserError` in a sentence where there is none."""
    if "://" in target or ":" in target or not valid_name(target):
        return base_url(target)
    from kvtop.commands.target import find_engine

    found = find_engine(target)
    http = None if found.hello is None else found.hello.engine.http
    if not http:
        raise UserError(
            f"engine {found.name} serves no HTTP",
            f"start it so: kvtop engine --name {found.name} --http 127.0.0.1:8000",
        )
    return base_url(http)
