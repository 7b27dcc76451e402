"""The one exception that carries a foreseeable fault to the user, and how what others say is put into a line."""

import os


class UserError(Exception):
    """``message`` in one line, ``hint`` (what to do next) in another, ``code`` the exit status.

    Codes: 1 something failed or is unhealthy, 2 the command was used wrongly: at no time can what was typed be right.
    """

    def __init__(self, message: str, hint: str = "", code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


def one_line(text: object, limit: int = 300) -> str:
    """``text`` on one printable line: what peers and files say goes to a terminal only like this."""
    flat = "".join(c if c.isprintable() else " " for c in str(text))
    flat = " ".join(flat.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def system_error(error: BaseException) -> str | None:
    """What the system said of a connection that did not come about: the client library only says that all attempts failed."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno is not None and seen.errno > 0:
            return os.strerror(seen.errno)
        seen = seen.__cause__ or seen.__context__
    return None
