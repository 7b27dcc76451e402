"""The dialogs that change the engine: what each says beforehand, from what is known, and the command behind it."""

from collections.abc import Mapping

from kvtop.protocol import Abort, Pause, PolicyValue, Preempt, ResetPrefixCache, Resume
from kvtop.state import EngineState, RequestRow
from kvtop.views.format import plural, seconds
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


def abort_form(row: RequestRow) -> ConfirmForm:
    return ConfirmForm(
        title=f"abort {clean(row.name)}?",
        sentences=(
            _holds(row),
            "It ends now and its client gets no more tokens. Its blocks are released; full ones stay in the prefix cache.",
        ),
        verb="Abort",
        command=Abort(id=f"abort-{row.num}", request=row.num),
    )


def preempt_form(row: RequestRow) -> ConfirmForm:
    spent = [t for t in (row.prefill_s, row.decode_s) if t is not None]
    cost = f" So far it had {seconds(sum(spent))} of prefill and decode in ended phases." if spent else ""
    return ConfirmForm(
        title=f"preempt {clean(row.name)}?",
        sentences=(
            _holds(row),
            "It gives up its blocks, waits again, and is computed anew except for what the prefix cache still has then."
            + cost,
        ),
        verb="Preempt",
        command=Preempt(id=f"preempt-{row.num}", request=row.num),
    )


def pause_form(state: EngineState) -> ConfirmForm:
    running = _number(state.gauges, "running")
    waiting = _number(state.gauges, "waiting")
    if state.paused:
        return ConfirmForm(
            title="resume the engine?",
            sentences=(f"Scheduling goes on with {running} running and {waiting} waiting.",),
            verb="Resume",
            command=Resume(id="resume"),
        )
    return ConfirmForm(
        title="pause the engine?",
        sentences=(
            f"No request gets further tokens until it is resumed: {running} running, {waiting} waiting.",
            "KV memory stays as it is. To hold only this view still, press p instead.",
        ),
        verb="Pause",
        command=Pause(id="pause"),
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
        command=ResetPrefixCache(id="reset-prefix-cache"),
    )


def policy_form(state: EngineState, read_only: str | None) -> PolicyForm:
    policy: Mapping[str, PolicyValue] = state.policy
    axes = list(state.hello.axes) if state.hello is not None else []
    return PolicyForm(axes, policy, read_only=read_only)


def _number(gauges: Mapping[str, int | float], name: str) -> str:
    return f"{int(gauges[name]):,}" if name in gauges else "an unknown number of"
