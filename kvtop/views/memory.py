"""What the engine takes of the memory there is: weights, runtime, KV, headroom."""

from typing import NamedTuple

from kvtop.protocol import Hello, MemoryFacts
from kvtop.views.fit import cut
from kvtop.views.format import size, size_of
from kvtop.views.rows import Role, Row, clean

SEPARATOR = " · "


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


def memory_forms(hello: Hello | None) -> list[str]:
    """The sum, from long to short; none where the engine does not tell.

    ``weights 513 MiB + runtime 310 MiB + KV 180 MiB + headroom 3.0 GiB = 4.0 GiB, the container's limit``
    """
    if hello is None or hello.memory is None or hello.memory.total_bytes is None:
        return []
    memory = hello.memory
    said = " + ".join(f"{share.name} {size(share.bytes)}" for share in shares(memory))
    total = f"{said} = {size(memory.total_bytes)}"
    forms = [f"{total}, {clean(memory.what, 48)}"] if memory.what else []
    return [*forms, total, f"headroom {size_of(memory.headroom_bytes, memory.total_bytes)}"]


def beside(row: Row, forms: list[str]) -> Row:
    """``row`` with the longest of ``forms`` that the blanks at its end have room for."""
    used, width = len(row.text.rstrip()), len(row.text)
    form = next((form for form in forms if used + len(SEPARATOR) + len(form) <= width), None)
    if form is None:
        return row
    text = row.text[:used] + SEPARATOR + form
    return cut(Row(text, row.roles[:used] + bytes((Role.DIM,)) * (len(text) - used)), width)
