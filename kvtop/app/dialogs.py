"""The dialogs that change the engine: what each says beforehand, from what is known, and the command behind it."""

from collections.abc import Callable, Mapping

import numpy as np

from kvtop.protocol import PolicyValue
from kvtop.protocol.commands import Abort, Compact, Pause, Pin, Preempt, ResetPrefixCache, Resume, Unpin
from kvtop.state import EngineState, RequestRow
from kvtop.views.format import called, count, percent, plural, seconds
from kvtop.views.rows import clean
from panels.dialogs.confirm_form import ConfirmForm
from panels.dialogs.policy_form import PolicyForm


def _holds(row: RequestRow) -> str:
    parts = []
    if row.block_count is not None:
        parts.append(plural(row.block_count, "block"))
    if row.computed_tokens is not None:
        parts.append(plural(row.computed_tokens, "computed token"))
    if row.output_tokens is not None:
        parts.append(plural(row.output_tokens, "output token"))
    return f"{clean(row.name)} is in state {clean(row.state or 'unknown')} and holds {', '.join(parts) or 'an unknown amount'}."


def _forgotten(row: RequestRow) -> Callable[[EngineState], str | None]:
    """Void once the engine does not show the request any more."""
    gone = f"{clean(row.name)} is no longer among the engine's requests."
    return lambda now: None if now.requests is None or row.num in now.requests else gone


def _ended(row: RequestRow) -> Callable[[EngineState], str | None]:
    """Void once the request has ended, or is not shown any more."""
    forgotten = _forgotten(row)

    def void(now: EngineState) -> str | None:
        known = now.request(row.num)
        if known is not None and known.finished:
            return f"{clean(row.name)} has ended meanwhile."
        return forgotten(now)

    return void


def request_form(what: str, state: EngineState, row: RequestRow) -> ConfirmForm:
    """The dialog behind a key of the requests table: ``abort``, ``preempt``, ``pin`` or ``unpin``."""
    match what:
        case "abort":
            return abort_form(state, row)
        case "preempt":
            return preempt_form(state, row)
        case "pin":
            return pin_form(state, row)
        case _:
            return unpin_form(state, row)


def _end_with_it(row: RequestRow) -> list[str]:
    """Whom an abort takes along: the beams of its search, or samples that wait for its prompt to be computed."""
    if row.score is not None and (row.siblings or 0) > 1:
        return [f"All {count(row.siblings)} beams of its search end with it."]
    if row.sibling == 1 and not row.output_tokens:
        return [f"The other {count((row.siblings or 2) - 1)} outputs of its prompt, which are not begun, end with it."]
    return []


def abort_form(state: EngineState, row: RequestRow) -> ConfirmForm:
    return ConfirmForm(
        title=f"abort {called(row.name)}?",
        sentences=(
            _holds(row),
            "It ends now and its client gets no more tokens. Its blocks are released; full ones stay in the prefix cache.",
            *_end_with_it(row),
        ),
        verb="Abort",
        command=Abort(id=f"abort-{row.num}", run=state.run, request=row.num),
        void_if=_ended(row),
    )


def preempt_form(state: EngineState, row: RequestRow) -> ConfirmForm:
    spent = [t for t in (row.prefill_s, row.decode_s) if t is not None]
    beams = [f"All {count(row.siblings)} beams of its search are preempted with it."] if row.score is not None else []
    cost = f" So far it had {seconds(sum(spent))} of prefill and decode in ended phases." if spent else ""
    return ConfirmForm(
        title=f"preempt {called(row.name)}?",
        sentences=(
            _holds(row),
            "It gives up its blocks, waits again, and is computed anew except for what the prefix cache still has then."
            + cost,
            *beams,
        ),
        verb="Preempt",
        command=Preempt(id=f"preempt-{row.num}", run=state.run, request=row.num),
        void_if=_ended(row),
    )


def pin_form(state: EngineState, row: RequestRow) -> ConfirmForm:
    sentences = [
        _holds(row),
        "The complete blocks of it that the prefix cache has are never evicted from now on, also when it has finished; "
        "nobody else can use them until they are unpinned.",
    ]
    if row.pinned_blocks:
        sentences.append(
            f"{plural(row.pinned_blocks, 'block')} of it are pinned already; this takes in what came since."
        )
    sentences.append(_all_pinned(state))
    command = Pin(id=f"pin-{row.num}", run=state.run, request=row.num)
    return ConfirmForm(f"pin {called(row.name)}?", sentences, "Pin", command, void_if=_forgotten(row))


def unpin_form(state: EngineState, row: RequestRow) -> ConfirmForm:
    known = f" {plural(row.pinned_blocks, 'block')} of it are pinned now." if row.pinned_blocks else ""
    return ConfirmForm(
        title=f"unpin {called(row.name)}?",
        sentences=(
            f"What was pinned for it can be evicted again as soon as no request holds it.{known}",
            "Blocks that another pin holds too stay pinned.",
            _all_pinned(state),
        ),
        verb="Unpin",
        command=Unpin(id=f"unpin-{row.num}", run=state.run, request=row.num),
    )


def _all_pinned(state: EngineState) -> str:
    """How much of the pool pins take, and how much they may. The gauge counts only those that no request holds."""
    limit = state.policy.get("pin_limit")
    most = f" pin_limit allows {percent(limit)} of the pool to be pinned." if isinstance(limit, int | float) else ""
    return f"Pinned blocks that no request holds now: {count(state.gauges.get('kv_blocks_pinned'))}.{most}"


def compact_form(state: EngineState) -> ConfirmForm:
    most = state.policy.get("compaction_moves")
    pace = f"at most {count(most)} an iteration" if isinstance(most, int) else "over the next iterations"
    return ConfirmForm(
        title="compact the pool?",
        sentences=(
            f"Blocks with content move down to the lowest free places, {pace}, so that the top of the pool becomes free.",
            *_to_move(state),
            "Every request keeps its content and goes on meanwhile; only block numbers change, and copying takes time.",
        ),
        verb="Compact",
        command=Compact(id="compact", run=state.run),
    )


def _to_move(state: EngineState) -> list[str]:
    """How many blocks lie higher than they need, and whose they are, as far as is known here."""
    blocks = state.blocks
    if blocks is None:
        return []
    used = np.flatnonzero(blocks.state[: blocks.device])
    above = used[used >= len(used)]
    if not len(above):
        return ["Nothing would move: all blocks with content lie together already."]
    owners = blocks.owner[above]
    nums, counts = np.unique(owners[owners >= 0], return_counts=True)
    most = sorted(zip(counts.tolist(), nums.tolist(), strict=True), reverse=True)
    rows: Mapping[int, RequestRow] = state.requests or {}
    named = [f"{count(n)} of {called(rows[num].name, 24) if num in rows else f'#{num}'}" for n, num in most[:3]]
    if len(most) > 3:
        named.append(f"{count(sum(n for n, _ in most[3:]))} of {plural(len(most) - 3, 'other request')}")
    if unowned := int((owners < 0).sum()):
        named.append(f"{count(unowned)} without an owner")
    return [f"As it is now, {plural(len(above), 'block')} would move: {', '.join(named)}."]


def pause_form(state: EngineState, hold: str = "p") -> ConfirmForm:
    """``hold``: the key that holds only the view."""
    running = _number(state.gauges, "running")
    waiting = _number(state.gauges, "waiting")
    if state.paused:
        return ConfirmForm(
            title="resume the engine?",
            sentences=(f"Scheduling goes on with {running} running and {waiting} waiting.",),
            verb="Resume",
            command=Resume(id="resume", run=state.run),
            void_if=lambda now: None if now.paused else "The engine goes on already: somebody else has resumed it.",
        )
    return ConfirmForm(
        title="pause the engine?",
        sentences=(
            f"No request gets further tokens until it is resumed: {running} running, {waiting} waiting.",
            f"KV memory stays as it is. To hold only this view still, press {hold} instead.",
        ),
        verb="Pause",
        command=Pause(id="pause", run=state.run),
        void_if=lambda now: "The engine is paused already: somebody else has done it." if now.paused else None,
    )


def reset_form(state: EngineState) -> ConfirmForm:
    cached = _number(state.gauges, "kv_blocks_cached")
    return ConfirmForm(
        title="reset the prefix cache?",
        sentences=(
            f"{cached} blocks without an owner lose their content and become free.",
            "Running requests keep their blocks, but nobody new matches them; prompts that would have hit are computed in full.",
        ),
        verb="Reset",
        command=ResetPrefixCache(id="reset-prefix-cache", run=state.run),
    )


def policy_form(state: EngineState, read_only: str | None) -> PolicyForm:
    policy: Mapping[str, PolicyValue] = state.policy
    axes = list(state.hello.axes) if state.hello is not None else []
    return PolicyForm(axes, policy, state.run, read_only)


def _number(gauges: Mapping[str, int | float], name: str) -> str:
    return f"{int(gauges[name]):,}" if name in gauges else "an unknown number of"
