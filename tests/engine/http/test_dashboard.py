"""The committed page and Grafana dashboard of the metrics: current, complete, and such as Grafana and Prometheus take."""

import json
import re
from typing import Any

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.http.metrics.definitions import Moment
from engine.http.metrics.exposition import exposition
from engine.http.metrics.own import OWN
from kvtop.generated import DOCS
from kvtop.protocol import Geometry
from tests.engine.serving.recount import Town
from tests.engine.tiers.late import Trouble

BOARD: dict[str, Any] = json.loads((DOCS / "grafana" / "kvtop.json").read_text())

SOURCE = {
    "type": "object",
    "required": ["type", "uid"],
    "properties": {"type": {"const": "prometheus"}, "uid": {"const": "${datasource}"}},
}
PANEL = {
    "type": "object",
    "required": ["id", "type", "title", "gridPos"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "type": {"enum": ["row", "timeseries"]},
        "title": {"type": "string", "minLength": 1},
        "gridPos": {
            "type": "object",
            "required": ["x", "y", "w", "h"],
            "properties": {
                "x": {"type": "integer", "minimum": 0, "maximum": 23},
                "y": {"type": "integer", "minimum": 0},
                "w": {"type": "integer", "minimum": 1, "maximum": 24},
                "h": {"type": "integer", "minimum": 1},
            },
        },
    },
    "if": {"properties": {"type": {"const": "timeseries"}}},
    "then": {
        "required": ["datasource", "targets", "fieldConfig", "options"],
        "properties": {
            "datasource": SOURCE,
            "fieldConfig": {"type": "object", "required": ["defaults", "overrides"]},
            "targets": {
                "type": "array",
                "minItems": 1,
                "maxItems": 26,
                "items": {
                    "type": "object",
                    "required": ["refId", "expr", "legendFormat", "datasource"],
                    "properties": {"refId": {"pattern": "^[A-Z]$"}, "expr": {"minLength": 1}, "datasource": SOURCE},
                },
            },
        },
    },
}
DASHBOARD = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "panels", "templating", "annotations", "time", "refresh"],
    "properties": {
        "uid": {"pattern": "^[a-zA-Z0-9_-]{1,40}$"},
        "schemaVersion": {"type": "integer", "minimum": 36},
        "panels": {"type": "array", "minItems": 1, "items": PANEL},
        "templating": {
            "properties": {
                "list": {"items": {"required": ["name", "type", "query"], "properties": {"type": {"enum": ["datasource", "query"]}}}}
            }
        },
    },
}  # fmt: skip
FUNCTIONS = {"histogram_quantile", "sum", "by", "rate", "unless", "offset"}


def drawn() -> list[dict[str, Any]]:
    return [panel for panel in BOARD["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    told = [target["expr"] for panel in drawn() for target in panel["targets"]]
    return [*told, *(each["expr"] for each in BOARD["annotations"]["list"])]


@pytest.fixture(scope="module")
def scraped() -> set[str]:
    """Names of all series that an engine with lower tiers tells."""
    town = Town([], seed=0, trouble=Trouble(fail=0.0, late=0.0))
    reading = town.meter.reading
    geometry = Geometry(block_size=4, bytes_per_token=8)
    moment = Moment(
        "serving",
        ("m",),
        reading._replace(hello=reading.hello.model_copy(update={"geometry": geometry})),
        {("/metrics", "GET", 200): 1},
        {"/metrics": 0},
        0,
        1,
        1,
    )
    text = exposition(OWN, moment, "")[0].decode()
    return {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}


def test_every_metric_is_told_by_an_engine_that_has_all_there_is(scraped: set[str]) -> None:
    assert {metric.series for metric in OWN} <= scraped


def test_grafana_takes_it() -> None:
    jsonschema.validate(BOARD, DASHBOARD)
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in drawn():
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters), panel["title"]
    variables = {each["name"]: each["type"] for each in BOARD["templating"]["list"]}
    assert variables == {"datasource": "datasource", "job": "query", "instance": "query"}


def test_no_panel_lies_on_another() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            assert cell not in taken, f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]


@pytest.mark.parametrize("expression", expressions())
def test_every_query_can_be_read_and_names_what_is_told(expression: str, scraped: set[str]) -> None:
    bare = re.sub(r'"[^"]*"', '""', expression)
    open_ = []
    for sign in bare:
        if sign in "([{":
            open_.append(sign)
        elif sign in ")]}":
            assert open_, expression
            assert open_.pop() + sign in ("()", "[]", "{}"), expression
    assert not open_, expression
    outside = re.sub(r"\{[^}]*\}|\[[^]]*\]|by \([^)]*\)|\$__\w+", " ", bare)
    words = set(re.findall(r"[a-zA-Z_:][\w:]*", outside))
    assert (named := words - FUNCTIONS), expression
    assert named <= scraped
    assert '{job=~"$job", instance=~"$instance"}' in expression, "of the engines that were chosen alone"


def test_a_rate_is_of_what_only_rises_and_of_all_that_does() -> None:
    by_series = {metric.series: metric for metric in OWN}
    for expression in expressions():
        (name,) = set(re.findall(r"\b(kvtop_\w+)\{", expression))
        assert ("rate(" in expression) == (by_series[name].kind != "gauge"), expression


def test_every_metric_is_drawn_but_for_those_that_tell_names() -> None:
    text = " ".join(expressions())
    absent = {metric.name for metric in OWN if f"{metric.series}{{" not in text}
    assert absent == {"kvtop_engine_info", "kvtop_model_info"}
