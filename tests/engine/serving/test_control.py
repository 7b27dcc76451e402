"""The engine does what the protocol lets people ask of it."""

from engine.serving.control import COMMANDS
from kvtop.protocol.commands import COMMANDS as OF_THE_PROTOCOL


def test_every_command_of_the_protocol_is_done_and_offered() -> None:
    assert set(COMMANDS) == set(OF_THE_PROTOCOL)
