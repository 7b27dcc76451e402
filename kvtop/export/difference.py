"""A difference of two states as a document for programs."""

from typing import Any

from kvtop.state import EngineState, RequestRow
from kvtop.state.difference import Difference, Figure
from kvtop.views.difference import another_run

SCHEMA = "kvtop.diff/1"


def difference_document(told: Difference) -> dict[str, Any]:
    """Ready for JSON. Null is unknown; levels and states of blocks are only those that differ."""
    levels, states = _moved(told.levels), _moved(told.states)
    document: dict[str, Any] = {
        "before": _side(told.earlier),
        "after": _side(told.later),
        "same_run": told.same_run,
        "said": another_run(told) or None,
        "seconds": told.seconds,
        "iterations": told.iterations,
        "policies": [{"axis": axis, "before": before, "after": after} for axis, before, after in told.policies],
        "preempted": [
            {"request": cost.row.name, "times": cost.preemptions, "recomputed_tokens": cost.recomputed}
            for cost in told.preempted
        ],
        "blocks": states,
        "blocks_with_another_owner": told.owners,
        "levels": levels,
        "done": dict(told.done),
        "arrived": [_request(row) for row in told.arrived],
        "ended_or_gone": [_request(row) for row in told.gone],
        "moved": [
            {"request": after.name, "before": before.state, "after": after.state} for before, after in told.moved
        ],
    }
    lists = (told.policies, told.preempted, states, levels, told.done, told.arrived, told.gone, told.moved)
    same = told.same_run and not any(lists) and not told.owners
    return {"schema": SCHEMA, "same": same} | document


def _side(state: EngineState) -> dict[str, Any]:
    return {
        "engine": None if state.hello is None else state.hello.engine.name,
        "run": state.run,
        "wall": state.wall,
        "iteration": state.iteration if state.counts_iterations else None,
    }


def _moved(figures: list[Figure]) -> dict[str, Any]:
    return {
        figure.name: {"before": figure.before, "after": figure.after}
        for figure in figures
        if figure.before != figure.after
    }


def _request(row: RequestRow) -> dict[str, Any]:
    return {"request": row.name, "state": row.state}
