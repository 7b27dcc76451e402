"""A state's gauges and counters as OpenMetrics text (https://openmetrics.io), by the names of the protocol."""

from kvtop.protocol import Counters, Gauges
from kvtop.state import EngineState


def openmetrics(state: EngineState) -> str:
    """Only what is known; one label says of which engine."""
    hello = state.hello
    labels = "" if hello is None else f'{{engine="{_value(hello.engine.name)}",model="{_value(hello.model.name)}"}}'
    lines: list[str] = []
    for known, message, kind in ((state.gauges, Gauges, "gauge"), (state.counters, Counters, "counter")):
        for name, number in known.items():
            field = message.model_fields.get(name)
            if field is None:
                continue
            lines.append(f"# TYPE kvtop_{name} {kind}")
            if field.description:
                lines.append(f"# HELP kvtop_{name} {_value(field.description)}")
            lines.append(f"kvtop_{name}{'_total' if kind == 'counter' else ''}{labels} {number}")
    return "\n".join([*lines, "# EOF"]) + "\n"


def _value(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
