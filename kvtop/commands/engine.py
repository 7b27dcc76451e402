"""``kvtop engine …``: kvtop's own engine without a screen; this process becomes it."""

import argparse
import os

from kvtop.commands.child import engine_command, engine_environment, require_engine
from kvtop.errors import UserError


def run(options: argparse.Namespace) -> int:
    require_engine()
    command = engine_command(options.arguments)
    try:
        os.execve(command[0], command, engine_environment())
    except OSError as error:
        raise UserError(f"cannot start the engine: {error.strerror}") from None
