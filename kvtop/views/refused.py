"""For how long the head of the queue was refused in the last minute, by reason and rule."""

from kvtop.state import EngineState
from kvtop.state.refusals import WINDOW_S, Refusal
from kvtop.views.exposure import not_exposed
from kvtop.views.fit import Part, Span, part
from kvtop.views.format import plural, seconds
from kvtop.views.rows import Role, clean


def refusals(state: EngineState, now: float) -> list[Refusal]:
    """Of the last minute, the silence of an engine that stands still included."""
    mono = state.mono_now(now)
    if mono is None or state.mono is None:
        return []
    found = state.refusals.tally(state.history.at(mono))
    verdict = state.verdict
    silent = min(float(WINDOW_S), mono - state.mono)
    if verdict is None or not state.stands_still or silent <= 0:
        return found
    key = (verdict.code, verdict.rule or "")
    same = next((one for one in found if (one.code, one.rule) == key), Refusal(*key, 0.0, 1))
    grown = same._replace(seconds=min(float(WINDOW_S), same.seconds + silent))
    return sorted([one for one in found if one is not same] + [grown], key=lambda refusal: -refusal.seconds)


def refusal_parts(state: EngineState, now: float) -> list[Part]:
    """``needs blocks 41.0s, 12 requests (capacity=max_utilization)``, the longest first; that there was none. A reason with
    several rules is one, with the time of each."""
    reasons: dict[str, list[Refusal]] = {}
    for one in refusals(state, now):
        reasons.setdefault(one.code, []).append(one)
    if not reasons:
        exposed = state.has("queue") or state.verdict is not None
        said = f"nobody in the last {WINDOW_S} s" if exposed else not_exposed(state, "reasons")
        return [part(50, said, role=Role.DIM)]
    parts = []
    for place, (code, found) in enumerate(reasons.items()):
        whole = min(float(WINDOW_S), sum(one.seconds for one in found))
        spent: list[Span] = [(f"{clean(code, 32).replace('_', ' ')} ", Role.WARN), (seconds(whole), Role.STRONG)]
        heads: list[Span] = [(f", {plural(max(one.heads for one in found), 'request')}", Role.DIM)]
        if len(found) > 1:
            heads = []
        named = [
            f"{clean(one.rule, 64)} {seconds(one.seconds)}" if len(found) > 1 else clean(one.rule, 64)
            for one in found
            if one.rule
        ]
        rules: list[Span] = [(f" ({', '.join(named)})", Role.DIM)] if named else []
        last = [""] if place else []
        parts.append(part(50 - place, [*spent, *heads, *rules], [*spent, *heads], spent, *last))
    return parts
