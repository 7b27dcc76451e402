"""A story as ``summary.json`` and ``summary.md``: the same facts, for programs and to be read."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from statistics import median
from typing import Any

from kvtop import __version__
from kvtop.bundle.story import Story, Told, Victim, pairs
from kvtop.views.format import UNKNOWN, age, clock, count, day, percent, plural, seconds, size, value
from kvtop.views.rows import clean
from kvtop.views.second import Second

SCHEMA = "kvtop.bundle/1"

LINES = 200
"""Events of the order that the readable summary has; all are in the other one."""

VICTIMS = 25

FIGURES = (
    "kv_used",
    "running",
    "waiting",
    "prefill_per_s",
    "decode_per_s",
    "ttft_p50",
    "ttft_p95",
    "tpot_p50",
    "tpot_p95",
)
"""Compared before and after the moment: the median of the seconds on either side."""

UNITS = {
    "wall, moment, began, ended, first, last": "Unix seconds, the engine's clock",
    "kv_used, kv_total, blocks": "blocks",
    "running, waiting": "requests",
    "prefill_per_s, decode_per_s": "tokens a second, over rate_window seconds",
    "ttft_*, tpot_*": "seconds, of requests of the last latency_window seconds",
    "tokens": "tokens given up, to be computed again",
    "seconds": "seconds spent on what was given up",
}


def summary_document(story: Story, environment: dict[str, Any]) -> dict[str, Any]:
    """All of it, ready for JSON; unknown is null. ``environment``: of whoever writes the bundle."""
    hello = story.hello
    return {
        "schema": SCHEMA,
        "kvtop": __version__,
        "units": UNITS,
        "engine": hello.engine.model_dump(),
        "model": hello.model.model_dump(),
        "geometry": hello.geometry.model_dump(),
        "memory": None if hello.memory is None else hello.memory.model_dump(),
        "device": hello.device,
        "limits": dict(hello.limits),
        "workload": hello.workload,
        "environment": environment,
        "moment": story.moment,
        "began": story.began,
        "ended": story.ended,
        "runs": story.runs,
        "holes": story.holes,
        "damage": story.damage,
        "policy_at_start": story.policy_at_start,
        "policy_at_end": story.policy_at_end,
        "alarms": story.alarms,
        "order": [asdict(told) for told in story.order],
        "order_left_out": story.left_out,
        "preempted": [_victim(victim) for victim in story.victims],
        "preempted_by": [{"by": by, "request": who, "times": times} for by, who, times in pairs(story.victims)],
        "done": done(story),
        "tiers": [_tier(before, after) for before, after in _tiers(story)],
        "before_and_after": [
            {"figure": name, "before": before, "after": after, "n_before": n, "n_after": m}
            for name, before, after, n, m in before_and_after(story)
        ],
        "rate_window": story.rate_window,
        "latency_window": story.latency_window,
        "seconds": [asdict(second) for second in story.seconds],
    }


def _victim(victim: Victim) -> dict[str, Any]:
    return {**asdict(victim), "by": dict(victim.by.most_common()), "causes": dict(victim.causes.most_common())}


def done(story: Story) -> dict[str, float] | None:
    """By how much each counter rose; None where the engine was restarted in between, so that nothing can be subtracted."""
    if story.runs > 1:
        return None
    start = story.counters_at_start
    return {name: total - start[name] for name, total in story.counters_at_end.items() if name in start}


def _tiers(story: Story) -> Iterable[tuple[Any, Any]]:
    if story.runs > 1:
        return []
    before = {(level.tier, level.group): level for level in story.tiers_at_start}
    return [(before.get((level.tier, level.group)), level) for level in story.tiers_at_end]


def _tier(before: Any, after: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"tier": after.tier, "group": after.group, "at_end": after.model_dump()}
    for name in ("bytes_in", "bytes_out", "hit_tokens"):
        first, last = (None if level is None else getattr(level, name) for level in (before, after))
        told[name] = None if first is None or last is None else last - first
    return told


def before_and_after(story: Story) -> list[tuple[str, float | None, float | None, int, int]]:
    """Each of `FIGURES`: the median of the seconds before the moment and of those after it, and how many are known."""
    before = [second for second in story.seconds if second.wall < story.moment]
    after = [second for second in story.seconds if second.wall >= story.moment]
    rows = []
    for name in FIGURES:
        first, last = _known(before, name), _known(after, name)
        rows.append((name, median(first) if first else None, median(last) if last else None, len(first), len(last)))
    return rows


def _known(seconds: Sequence[Second], name: str) -> list[float]:
    return [number for second in seconds if (number := getattr(second, name)) is not None]


# -- to be read -------------------------------------------------------------------------------------------------


def summary_text(story: Story) -> str:
    """The summary in Markdown. Names from outside cannot change its form."""
    hello = story.hello
    lines = [
        f"# {_plain(hello.engine.name)}: {day(story.moment)} {clock(story.moment)}",
        "",
        f"{_plain(hello.engine.kind)} {_plain(hello.engine.version)}, {_plain(hello.model.name)}"
        + (f" on {_plain(hello.device)}" if hello.device else "")
        + f"; recorded {clock(story.began)} to {clock(story.ended)} ({age(story.ended - story.began)}), by the engine's clock.",
    ]
    if hello.model.random_weights:
        lines.append("The weights are random: the text is noise, the paging is real.")
    for what in (*story.holes, *story.damage):
        lines.append(f"**Not all of it is there: {_plain(what)}.**")
    if story.runs > 1:
        lines.append(f"**The engine was restarted {plural(story.runs - 1, 'time')} in it.**")
    lines += ["", "## Alarms at the moment", "", *_alarms(story)]
    lines += ["", "## Preempted", "", *_victims(story)]
    lines += ["", "## Before and after the moment", "", *_compared(story)]
    lines += ["", "## Policies", "", *_policies(story)]
    lines += ["", "## Done", "", *_done(story)]
    lines += ["", "## In order", "", *_order(story)]
    return "\n".join(lines) + "\n"


def _alarms(story: Story) -> list[str]:
    firing = [alarm for alarm in story.alarms if alarm["state"] in ("firing", "ending")]
    unchecked = [alarm for alarm in story.alarms if alarm["state"] in ("unchecked", "off")]
    lines = []
    for alarm in firing:
        lines.append(f"- **{_plain(alarm['title'])}**: {_plain(alarm['evidence'])}")
        if alarm["advice"]:
            lines.append(f"  - to try: {_plain(alarm['advice'])}")
    if not firing:
        lines.append(f"Nothing was wrong by {len(story.alarms) - len(unchecked)} checks.")
    if unchecked:
        lines += ["", f"Not checked: {', '.join(_plain(alarm['title']) for alarm in unchecked)}."]
    return lines


def _victims(story: Story) -> list[str]:
    if not story.victims:
        return ["No request was preempted."]
    total = sum(victim.times for victim in story.victims)
    lines = [
        f"{plural(len(story.victims), 'request')} in all {plural(total, 'time')}; the most preempted first.",
        "",
        "| request | class | times | by | given up | time lost | first | last |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for victim in story.victims[:VICTIMS]:
        by = ", ".join(f"{_code(who)} {times}×" for who, times in victim.by.most_common(3)) or "no request: a command"
        lost = UNKNOWN if victim.tokens is None else plural(victim.tokens, "token")
        cells = [_code(victim.request), _plain(victim.label or ""), count(victim.times), by, lost]
        cells += [seconds(victim.seconds), clock(victim.first), clock(victim.last)]
        lines.append(f"| {' | '.join(cells)} |")
    more = len(story.victims) - VICTIMS
    return lines + (["", f"And {plural(more, 'request')} more, in `summary.json`."] if more > 0 else [])


def _compared(story: Story) -> list[str]:
    lines = ["Medians of the seconds on either side.", "", "| figure | before | after |", "|---|---|---|"]
    for name, before, after, _, _ in before_and_after(story):
        lines.append(
            f"| {name.replace('_per_s', ' tokens/s').replace('_', ' ')} | {_figure(name, before)} | {_figure(name, after)} |"
        )
    return lines


def _figure(name: str, number: float | None) -> str:
    if name.startswith(("ttft", "tpot")):
        return seconds(number)
    return UNKNOWN if number is None else f"{number:.3g}" if name.endswith("_per_s") else count(number)


def _policies(story: Story) -> list[str]:
    lines = ["| axis | at the start | at the end |", "|---|---|---|"]
    for axis in dict.fromkeys([*story.policy_at_start, *story.policy_at_end]):
        before, after = value(story.policy_at_start.get(axis)), value(story.policy_at_end.get(axis))
        lines.append(f"| {_code(axis)} | {_code(before)} | {_code(after)}{'' if before == after else ' **changed**'} |")
    return lines if len(lines) > 2 else ["No policy is exposed."]


def _done(story: Story) -> list[str]:
    counters = done(story)
    if counters is None:
        return ["The engine was restarted in it: its counters cannot be subtracted."]
    lines = ["| counter | |", "|---|---|"]
    for name, more in counters.items():
        if more:
            lines.append(f"| {_plain(name.replace('_', ' '))} | {size(more) if 'bytes' in name else count(more)} |")
    for before, after in _tiers(story):
        told = _tier(before, after)
        if told["bytes_in"] or told["bytes_out"]:
            lines.append(f"| {_plain(after.tier)}: in, out | {size(told['bytes_in'])}, {size(told['bytes_out'])} |")
    hits, asked = counters.get("prefix_hit_tokens"), counters.get("prefix_query_tokens")
    if hits is not None and asked:
        lines.append(f"| prefix cache hit | {percent(hits / asked)} |")
    return lines if len(lines) > 2 else ["Nothing was counted."]


def _order(story: Story) -> list[str]:
    if not story.order:
        return ["Nothing notable happened."]
    shown = story.order[-LINES:]
    lines = (
        [f"The last {len(shown)} of {len(story.order) + story.left_out}; the others are in `summary.json`.", ""]
        if len(shown) < len(story.order) + story.left_out
        else []
    )
    return lines + [_line(told) for told in shown]


def _line(told: Told) -> str:
    at = "" if told.iteration is None else f" it {told.iteration}"
    mark = {"error": "**!** ", "warn": ""}.get(told.severity, "")
    return f"- {clock(told.wall)}{at} {mark}{_plain(told.text)}"


def _plain(text: str) -> str:
    """``text`` from outside as text of a Markdown page, whatever is in it."""
    text = clean(text, 1000)
    escaped = "".join(
        f"\\{c}" if c in _SPECIAL or (c == "_" and _at_edge(text, at)) else c for at, c in enumerate(text)
    )
    return f"\\{escaped}" if escaped[:1] in ("#", "-", "+", "=") else escaped


_SPECIAL = frozenset("\\`*[]<>|!~&$")


def _at_edge(text: str, at: int) -> bool:
    """An underscore that could open or close an emphasis; those within words cannot."""
    return not (text[at - 1 : at].isalnum() and text[at + 1 : at + 2].isalnum())


def _code(text: str) -> str:
    """A name as code: read as it is."""
    text = clean(text, 300).replace("`", "'").replace("|", "/")
    return f"`{text}`" if text.strip() else ""


def environment(host: bool = True) -> dict[str, Any]:
    """Of this process, for the summary."""
    import platform

    return {
        "written": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node() if host else None,
    }
