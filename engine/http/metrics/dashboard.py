"""A Grafana dashboard of the engine's own metrics: a panel for each that the list names, in the list's order."""

import json
from dataclasses import dataclass
from typing import Any

from engine.http.metrics.definitions import Metric
from engine.http.metrics.own import OWN

SCHEMA_VERSION = 39
WIDTH, HEIGHT = 24, 8

_SELECTOR = 'job=~"$job", instance=~"$instance"'
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class _Panel:
    """``unit`` as Grafana names it."""

    title: str
    unit: str
    stacked: bool = False


_ROWS: tuple[tuple[str, tuple[_Panel, ...]], ...] = (
    ("Requests", (
        _Panel("Engine", "none"), _Panel("Requests", "short"), _Panel("Requests that ended", "reqps"),
        _Panel("Admissions and preemptions", "ops"), _Panel("Preemptions of a request", "short"), _Panel("Sizes of requests", "short"),
    )),
    ("Latency", (
        _Panel("Time to first token", "s"), _Panel("Time between tokens", "s"), _Panel("Time per output token", "s"),
        _Panel("Request phases", "s"), _Panel("End to end", "s"),
    )),
    ("KV memory", (
        _Panel("KV memory, blocks", "short"), _Panel("KV memory, bytes", "bytes"), _Panel("KV memory, tokens", "short"),
        _Panel("Evictions", "ops"), _Panel("Prefix cache", "short"), _Panel("Policies", "none"),
    )),
    ("Iterations", (
        _Panel("Tokens", "short"), _Panel("Iterations", "ops"), _Panel("Batch size", "short"),
        _Panel("Tokens of an iteration", "short"), _Panel("Where the time goes", "percentunit", stacked=True), _Panel("Ledger", "ops"),
    )),
    ("Tiers", (
        _Panel("Offload", "Bps"), _Panel("Promotions", "ops"), _Panel("Tiers, blocks", "short"), _Panel("Tiers, bytes", "Bps"),
        _Panel("Tiers, prompt tokens", "short"), _Panel("Tiers, trouble", "ops"), _Panel("Tiers, seconds stalled", "percentunit"),
    )),
    ("HTTP", (_Panel("HTTP answers", "reqps"), _Panel("HTTP aborts", "reqps"), _Panel("HTTP now", "short"))),
)  # fmt: skip


def dashboard() -> dict[str, Any]:
    """As Grafana imports it. Raises ValueError for a metric whose panel is in no row."""
    by_panel: dict[str, list[Metric]] = {}
    for metric in OWN:
        if metric.panel:
            by_panel.setdefault(metric.panel, []).append(metric)
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in _ROWS:
        panels.append(_row(title, len(panels) + 1, top))
        top += 1
        for place, panel in enumerate(row):
            at = {"x": place % 3 * (WIDTH // 3), "y": top + place // 3 * HEIGHT, "w": WIDTH // 3, "h": HEIGHT}
            panels.append(_panel(panel, by_panel.pop(panel.title), len(panels) + 1, at))
        top += -(-len(row) // 3) * HEIGHT
    if by_panel:
        raise ValueError(f"no row has the panels {', '.join(by_panel)}")
    return {
        "uid": "kvtop",
        "title": "kvtop",
        "description": "Made of the engine's list of metrics; for Prometheus that scrapes /metrics of kvtop engine --http.",
        "tags": ["kvtop", "llm"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "",
        "annotations": {"list": [_policy_changes()]},
        "templating": {"list": _variables()},
        "links": [],
        "panels": panels,
    }


def _variables() -> list[dict[str, Any]]:
    chosen = {"type": "query", "datasource": _SOURCE, "refresh": 2, "sort": 1, "multi": True, "includeAll": True}
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1},
        {"name": "job", "label": "Job", **chosen, "query": "label_values(kvtop_engine_info, job)"},
        {
            "name": "instance",
            "label": "Engine",
            **chosen,
            "query": 'label_values(kvtop_engine_info{job=~"$job"}, instance)',
        },
    ]


def _policy_changes() -> dict[str, Any]:
    now = f"kvtop_policy_info{{{_SELECTOR}}}"
    return {
        "name": "Policy changes",
        "datasource": _SOURCE,
        "enable": True,
        "iconColor": "orange",
        "expr": f"{now} unless {now} offset $__interval",
        "titleFormat": "{{axis}}={{value}}",
    }


def _row(title: str, number: int, top: int) -> dict[str, Any]:
    place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: _Panel, metrics: list[Metric], number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [target for metric in metrics for target in _targets(metric, alone=len(metrics) == 1)]
    for letter, target in enumerate(targets):
        target |= {"refId": chr(ord("A") + letter), "datasource": _SOURCE}
    custom = {"fillOpacity": 30 if panel.stacked else 0, "stacking": {"mode": "normal" if panel.stacked else "none"}}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": "\n\n".join(f"`{metric.name}`: {metric.help}" for metric in metrics),
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }


def _targets(metric: Metric, *, alone: bool) -> list[dict[str, Any]]:
    """``alone``: the panel shows nothing else, so that its title says the name."""
    series = f"{metric.series}{{{_SELECTOR}}}"
    name = "" if alone else metric.name.removeprefix("kvtop_").removesuffix("_total").removesuffix("_seconds")
    if metric.kind == "histogram":
        rate = f"sum by (instance, le) (rate({series}[$__rate_interval]))"
        return [
            _target(f"histogram_quantile({quantile}, {rate})", f"{name} p{100 * quantile:g}") for quantile in _QUANTILES
        ]
    legend = f"{name} {' '.join(f'{{{{{label}}}}}' for label in metric.labels)}"
    if metric.kind == "counter":
        by = ", ".join(("instance", *metric.labels))
        return [_target(f"sum by ({by}) (rate({series}[$__rate_interval]))", legend)]
    return [_target(series, legend)]


def _target(expression: str, legend: str) -> dict[str, Any]:
    return {"expr": expression, "legendFormat": f"{legend.strip()} {{{{instance}}}}".strip()}


def dashboard_text() -> str:
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"
