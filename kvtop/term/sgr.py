"""Select Graphic Rendition: how a cell looks, and the shortest way from one look to another."""

from functools import lru_cache
from typing import NamedTuple

OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "8": "28", "9": "29"}
"""What switches an attribute off. Bold and dim share one."""


class Look(NamedTuple):
    """Colours and attributes of a cell as SGR parameters; an empty string is the terminal's default."""

    fg: str = ""
    bg: str = ""
    attrs: tuple[str, ...] = ()

    @property
    def params(self) -> str:
        """The parameters that set this look after a reset."""
        return ";".join(p for p in (*self.attrs, self.fg, self.bg) if p)

    @property
    def leaves_blanks_alone(self) -> bool:
        """Whether a space in this look cannot be told from a space in the default look."""
        return not self.bg and all(attr in ("1", "2", "3") for attr in self.attrs)


PLAIN = Look()


@lru_cache(maxsize=8192)
def switch(old: Look, new: Look) -> str:
    """The shortest escape sequence that turns ``old`` into ``new``; empty when they are equal."""
    if old == new:
        return ""
    if new == PLAIN:
        return "\x1b[m"
    fresh = f"\x1b[0;{new.params}m"
    gone = [attr for attr in old.attrs if attr not in new.attrs]
    if any(attr not in OFF for attr in gone):
        return fresh
    off = dict.fromkeys(OFF[attr] for attr in gone)
    kept = [attr for attr in old.attrs if attr in new.attrs and OFF.get(attr) not in off]
    params = [*off, *(attr for attr in new.attrs if attr not in kept)]
    if old.fg != new.fg:
        params.append(new.fg or "39")
    if old.bg != new.bg:
        params.append(new.bg or "49")
    step = f"\x1b[{';'.join(params)}m"
    return step if len(step) <= len(fresh) else fresh
