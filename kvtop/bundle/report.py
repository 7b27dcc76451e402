"""``report.html``: one page without any other file, with the story to be gone through moment by moment."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from kvtop import __version__
from kvtop.bundle.scenes import Scene
from kvtop.bundle.story import Story, pairs
from kvtop.bundle.summary import before_and_after
from kvtop.state import RequestRow
from kvtop.views.block_states import ALL

_DATA = "/*DATA*/null"

ROW = (
    "id",
    "label",
    "state",
    "priority",
    "prompt_tokens",
    "cached_tokens",
    "computed_tokens",
    "output_tokens",
    "blocks",
    "preemptions",
    "recomputed_tokens",
)
"""Columns of the page's table of requests, after num."""


def report(story: Story) -> str:
    """The page."""
    page = files(__package__).joinpath("report.html").read_text(encoding="utf-8")
    before, after = page.split(_DATA)
    return before + embedded(report_data(story)) + after


def embedded(data: Any) -> str:
    """JSON as it may stand in a script: nothing in it can end the script or begin a comment."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def report_data(story: Story) -> dict[str, Any]:
    """What the page shows."""
    hello = story.hello
    return {
        "kvtop": __version__,
        "engine": {"name": hello.engine.name, "kind": hello.engine.kind, "version": hello.engine.version},
        "model": hello.model.name,
        "random": hello.model.random_weights,
        "device": hello.device,
        "block_size": hello.geometry.block_size,
        "moment": story.moment,
        "began": story.began,
        "ended": story.ended,
        "runs": story.runs,
        "missing": [*story.holes, *story.damage],
        "states": [
            {"name": state.name, "meaning": state.meaning, "dark": rgb(state.colour), "light": rgb(state.colour_light)}
            for state in ALL
        ],
        "row": ROW,
        "seconds": {name: [getattr(second, name) for second in story.seconds] for name in _columns(story)},
        "alarms": story.alarms,
        "order": [asdict(told) for told in story.order],
        "order_left_out": story.left_out,
        "victims": [
            {**asdict(victim), "by": victim.by.most_common(), "causes": victim.causes.most_common()}
            for victim in story.victims
        ],
        "pairs": list(pairs(story.victims))[:100],
        "compared": before_and_after(story),
        "policies": [
            [axis, story.policy_at_start.get(axis), story.policy_at_end.get(axis)]
            for axis in dict.fromkeys([*story.policy_at_start, *story.policy_at_end])
        ],
        "scenes": [_scene(scene) for scene in story.scenes],
    }


def _columns(story: Story) -> Iterator[str]:
    yield from asdict(story.seconds[0]) if story.seconds else ()


def _scene(scene: Scene) -> dict[str, Any]:
    return {
        "wall": scene.wall,
        "iteration": scene.iteration,
        "per": scene.per_cell,
        "cells": None if scene.cells is None else [list(run) for run in scene.cells],
        "rows": [_row(row) for row in scene.rows],
        "more": scene.rows_left_out,
        "states": scene.states,
        "verdict": scene.verdict,
    }


def _row(row: RequestRow) -> list[Any]:
    return [row.num, *(getattr(row, name) for name in ROW)]


def rgb(colour: int) -> str:
    """A colour of the 256 of terminals, above the first 16."""
    if colour >= 232:
        level = 8 + 10 * (colour - 232)
        return f"#{level:02x}{level:02x}{level:02x}"
    place = colour - 16
    levels = (0, 95, 135, 175, 215, 255)
    return "#" + "".join(f"{levels[place // step % 6]:02x}" for step in (36, 6, 1))
