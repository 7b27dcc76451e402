"""What the engine takes of the memory there is: weights, runtime, KV, headroom."""

from typing import NamedTuple

from kvtop.protocol import Hello, MemoryFacts
from kvtop.views.fit import Part, part
from kvtop.views.format import size
from kvtop.views.rows import Role, clean


class Share(NamedTuple):
    """A part of the memory; ``bytes`` None: not exposed. ``field``: of `MemoryFacts`."""

    name: str
    field: str
    bytes: int | None


_NAMES = {
    "weights_bytes": "weights",
    "runtime_bytes": "runtime",
    "kv_bytes": "KV",
    "host_tier_bytes": "host tier",
    "others_bytes": "others",
    "headroom_bytes": "headroom",
}
_MAY_BE_NOTHING = ("host_tier_bytes", "others_bytes")
"""Told only where there is some."""


def shares(memory: MemoryFacts) -> list[Share]:
    """The parts of the memory, in the order of the sum."""
    found = [Share(name, field, getattr(memory, field)) for field, name in _NAMES.items()]
    return [share for share in found if share.bytes or share.field not in _MAY_BE_NOTHING]


def memory_sum(memory: MemoryFacts) -> str:
    """``weights 513 MiB + runtime 310 MiB + KV 180 MiB + headroom 3.0 GiB = 4.0 GiB of the container's limit``."""
    said = " + ".join(f"{share.name} {size(share.bytes)}" for share in shares(memory))
    of = f", {clean(memory.what, 48)}" if memory.what else ""
    return f"{said} = {size(memory.total_bytes)}{of}"


def memory_part(hello: Hello | None) -> Part:
    """For a line of numbers, the first to go; nothing where the engine does not tell."""
    if hello is None or hello.memory is None or hello.memory.total_bytes is None:
        return part(1, "")
    return part(1, memory_sum(hello.memory), "", role=Role.DIM)
