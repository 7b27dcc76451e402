"""Gauges and counters as OpenMetrics text (https://openmetrics.io), by the names of the protocol."""

from collections.abc import Iterator
from typing import NamedTuple

from kvtop.protocol import Counters, Gauges, Hello
from kvtop.state import EngineState

END = "# EOF\n"


class Family(NamedTuple):
    """A metric: ``name`` as in the protocol; ``kind``: gauge or counter."""

    name: str
    kind: str
    help: str

    def head(self) -> Iterator[str]:
        """What stands before its samples, in lines."""
        yield f"# TYPE kvtop_{self.name} {self.kind}\n"
        if self.help:
            yield f"# HELP kvtop_{self.name} {_value(self.help)}\n"

    def sample(self, labels: str, number: int | float, at: float | None = None) -> str:
        """One line. ``at``: Unix seconds."""
        when = "" if at is None else f" {at:.3f}"
        return f"kvtop_{self.name}{'_total' if self.kind == 'counter' else ''}{labels} {number}{when}\n"


FAMILIES: tuple[Family, ...] = tuple(
    Family(name, kind, field.description or "")
    for message, kind in ((Gauges, "gauge"), (Counters, "counter"))
    for name, field in message.model_fields.items()
)


def labels(hello: Hello | None, *, run: bool = False) -> str:
    """Of which engine; with ``run`` also of which of its lives, so that each has series of its own."""
    if hello is None:
        return ""
    told = {"engine": hello.engine.name, "model": hello.model.name}
    if run and hello.engine.run:
        told["run"] = hello.engine.run
    return "{" + ",".join(f'{name}="{_value(text)}"' for name, text in told.items()) + "}"


def known(state: EngineState, family: Family) -> int | float | None:
    """Its number in ``state``; None where the engine does not expose it."""
    return (state.gauges if family.kind == "gauge" else state.counters).get(family.name)


def openmetrics(state: EngineState) -> str:
    """What is known at one moment."""
    lines: list[str] = []
    for family in FAMILIES:
        number = known(state, family)
        if number is not None:
            lines += [*family.head(), family.sample(labels(state.hello), number)]
    return "".join([*lines, END])


def _value(text: str) -> str:
    """``text`` as a label or a help: in one line, and nothing in it that a terminal would obey."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return "".join(c if c.isprintable() else "?" for c in escaped)
