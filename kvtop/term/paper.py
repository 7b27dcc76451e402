"""Whether the terminal writes on dark or on light paper."""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from kvtop.term.contrast import contrast


class Paper(Enum):
    """The values are words for it."""

    DARK = "dark"
    LIGHT = "light"


ASK: Final = "\x1b]11;?\x1b\\"
"""Asks a terminal for the colour of its paper. Most answer, some multiplexers for them; the others ignore it."""

ANSWER: Final = re.compile(r"\x1b\]11;([^\x07\x1b]{0,64})(?:\x07|\x1b\\)")
"""What they answer with; its group goes to `answered`."""

_LIGHT_ENDS = frozenset({"7", *map(str, range(9, 16))})
_CHANNELS = re.compile(r"rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")


def told(env: Mapping[str, str]) -> Paper:
    """What ``COLORFGBG`` says, which some terminals set to the numbers of their ink and paper (``15;0``, ``0;default;15``);
    dark where it says nothing."""
    ground = env.get("COLORFGBG", "").rpartition(";")[2].strip()
    return Paper.LIGHT if ground in _LIGHT_ENDS else Paper.DARK


def answered(text: str) -> Paper | None:
    """The paper that a terminal's answer to `ASK` names: ``rgb:ffff/ffff/dddd``. None where it cannot be read."""
    match = _CHANNELS.fullmatch(text.strip())
    if match is None:
        return None
    colour = 0
    for channel in match.groups():
        colour = colour << 8 | round(int(channel, 16) / (16 ** len(channel) - 1) * 255)
    return Paper.LIGHT if contrast(colour, 0) > contrast(colour, 0xFFFFFF) else Paper.DARK
