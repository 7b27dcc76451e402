"""Who is being watched, whether what one sees is live, under which policies it runs, and how fast."""

from kvtop.alarms import Report
from kvtop.record.playback import UNBOUNDED, Playback
from kvtop.state import EngineState, Summary
from kvtop.state.ledger import contradictions
from kvtop.state.rates import Rates
from kvtop.views.alarms import alarm_forms, alarm_row
from kvtop.views.definition import LONG_WINDOW, RATE_WINDOW
from kvtop.views.fit import Part, Span, cut, fit, line, part
from kvtop.views.format import age, called, clock, count, day, percent, plural, rate, seconds, serial, short
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.limit import OVER, batch_text, spent
from kvtop.views.policies import policy_parts
from kvtop.views.rows import Role, Row, RowBuilder, clean

STALE_AFTER = 2.0
"""Seconds without a frame after which a screen is no longer called live."""

JUMP_SHOWN_S = 60.0
"""Seconds for which the header says that a clock of the engine has jumped; the events keep it."""


def header_rows(
    state: EngineState,
    now: float,
    width: int,
    glyphs: Glyphs = UNICODE,
    *,
    held: float | None = None,
    alarms: Report | None = None,
) -> list[Row]:
    """Three rows, four with an alarm, or a warning or notice of the engine. ``held``: seconds for which the view is held
    still."""
    alarms = alarms or Report()
    rows = [_identity(state, now, width, held, alarms), _policies(state, now, width), _speed(state, now, width)]
    if state.status is not None and state.status.warning:
        rows.append(_warning(state, now, width))
    elif (alarm := alarm_row(alarms, state, now, width)) is not None:
        rows.append(alarm)
    elif state.hello is not None and state.hello.notice:
        rows.append(line([("! ", Role.WARN), (clean(state.hello.notice, 500), Role.WARN)], width))
    return glyphs.rows(rows)


def _warning(state: EngineState, now: float, width: int) -> Row:
    """What stands still, and for how long; it takes the place of a notice, which can wait."""
    assert state.status is not None
    since, mono = state.status.warning_since, state.mono_now(now)
    lasting = "" if since is None or mono is None else f" for {age(max(0.0, mono - since))}"
    return line([(f"! STUCK{lasting}: ", Role.BAD), (clean(state.status.warning or "", 500), Role.WARN)], width)


# -- line 1: who, on what, live or not ----------------------------------------------------------------------------


def _identity(state: EngineState, now: float, width: int, held: float | None, alarms: Report) -> Row:
    hello = state.hello
    right = part(99, *_with_alarms(alarm_forms(alarms, state, now, width), link_forms(state, now, held)))
    if hello is None:
        return fit([part(9, (("kvtop", Role.TITLE),))], width, right)
    name, kind = clean(hello.engine.name, 128), clean(hello.engine.kind, 64)
    version = clean(hello.engine.version, 64)
    who: list[tuple[Span, ...]] = [
        ((called(name, 40), Role.TITLE), (f" {kind} {version}", Role.DIM)),
        ((called(name, 24), Role.TITLE), (f" {kind}", Role.DIM)),
        ((called(name, 12), Role.TITLE),),
    ]
    model = clean(hello.model.name, 256)
    forms: list[tuple[Span, ...]] = [((called(model, size), Role.STRONG),) for size in (48, 32, 24, 16)]
    parts = [part(30, *_distinct(who)), part(31, *_distinct(forms))]
    if hello.model.random_weights:
        parts.append(part(90, (("RANDOM WEIGHTS", Role.BAD),), (("RANDOM", Role.BAD),)))
    if hello.device:
        device = clean(hello.device, 128)
        # Lighter than the model's name, which is never shortened for it.
        parts.append(part(7, *_distinct([((short(device, n), Role.TEXT),) for n in (32, 16, 8)]), ""))
    if hello.attention:
        parts.append(part(10, f"{clean(hello.attention, 24)} attention", clean(hello.attention, 16), ""))
    if hello.model.weight_dtype:
        parts.append(part(8, f"weights {clean(hello.model.weight_dtype, 32)}", ""))
    if hello.geometry.cache_dtype:
        parts.append(part(7, f"KV {clean(hello.geometry.cache_dtype, 16)}", ""))
    return fit(parts, width, right)


def _with_alarms(alarms: list[Span], link: list[tuple[Span, ...]]) -> list[tuple[Span, ...]]:
    """Both beside each other. The words of an alarm give way first, then those of the link; neither goes."""
    if not alarms:
        return link
    forms = [*((alarm, link[0]) for alarm in alarms), *((alarms[-1], form) for form in link[1:])]
    return [(alarm, (" · ", Role.DIM), *form) for alarm, form in forms]


def _distinct(forms: list[tuple[Span, ...]]) -> list[tuple[Span, ...]]:
    return [form for place, form in enumerate(forms) if place == 0 or form != forms[place - 1]]


def link_forms(state: EngineState, now: float, held: float | None = None) -> list[tuple[Span, ...]]:
    """The state of the connection in words, from long to short; the first word never goes."""
    if state.playback is not None:
        return _replayed(state, state.playback, held)
    if state.past and held is not None:
        return _past(state, held)
    link = state.link
    silent = state.age(now)
    if not link.up:
        reason = clean(state.bye or link.reason, 120)
        if link.since is None or state.seq is None:
            word = "connecting" if link.retrying or not reason else "NOT CONNECTED"
            return [*_with_reason(word, "", reason, Role.WARN)]
        lost = f" {age(max(0.0, now - link.since))} ago"
        return [*_with_reason("DISCONNECTED", lost, reason, Role.BAD)]
    if held is not None:
        paused = f"VIEW PAUSED {age(held)}"
        return [((f"{paused}, at {clock(state.wall)}", Role.WARN),), ((paused, Role.WARN),)]
    if silent is None:
        return [(("connected, waiting for the first frame", Role.WARN),), (("waiting", Role.WARN),)]
    status = state.status.state if state.status else None
    if state.resync:
        return [(("catching up", Role.WARN),)]
    if status in ("paused", "draining"):
        word = clean(status.upper() if status else "", 16)
        detail = clean(state.status.detail, 120) if state.status and state.status.detail else ""
        return [*_with_reason(word, "", detail, Role.WARN)]
    if status == "idle" and silent > STALE_AFTER:
        return [((f"idle, last frame {age(silent)} ago", Role.GOOD),), ((f"idle {age(silent)}", Role.GOOD),)]
    if status == "idle":
        return [(("live, idle", Role.GOOD),), (("idle", Role.GOOD),)]
    if status is not None and status != "running" and silent <= STALE_AFTER:
        # What a newer engine calls what it does is its own affair.
        return [((f"live, {clean(status, 32)}", Role.WARN),), ((clean(status, 16), Role.WARN),)]
    if silent > STALE_AFTER:
        return [((f"stale {age(silent)}", Role.WARN),)]
    return [(("live", Role.GOOD),)]


def _past(state: EngineState, ago: float) -> list[tuple[Span, ...]]:
    """A moment that is looked back on; never a word that a live engine has."""
    at = clock(state.wall)
    return [
        ((f"PAST {day(state.wall)} {at}, {age(ago)} ago", Role.BAD),),
        ((f"PAST {at}, {age(ago)} ago", Role.BAD),),
        ((f"PAST {at}", Role.BAD),),
    ]


def _replayed(state: EngineState, playback: Playback, held: float | None) -> list[tuple[Span, ...]]:
    """Of a recording: when what one sees was, and how it is played; never a word that a live engine has."""
    if state.wall is None:
        return [(("REPLAY, nothing to see yet", Role.WARN),), (("REPLAY", Role.WARN),)]
    speed = "max speed" if playback.speed == UNBOUNDED else f"{playback.speed:g}x"
    how = "end" if playback.ended else "stopped" if playback.paused or held is not None else speed
    damaged = ", damaged here" if state.resync else ""
    at = clock(state.wall)
    return [
        ((f"REPLAY of {day(state.wall)} {at}, {how}{damaged}", Role.WARN),),
        ((f"REPLAY {at}, {how}{damaged}", Role.WARN),),
        ((f"REPLAY {at}", Role.WARN),),
    ]


def _with_reason(word: str, more: str, reason: str, role: int) -> list[tuple[Span, ...]]:
    forms: list[tuple[Span, ...]] = [((word + more, role),), ((word, role),)]
    if reason:
        forms[:0] = [((word + more, role), (f": {short(reason, size)}", Role.TEXT)) for size in (80, 40, 24)]
    return _distinct(forms)


# -- line 2: policies, progress -----------------------------------------------------------------------------------


def _policies(state: EngineState, now: float, width: int) -> Row:
    if state.seq is None:
        return cut(RowBuilder().row(), width)
    pace = state.rates.per_second("iterations", state.mono_now(now))
    right: Part | None = None
    if state.iteration is not None and state.counts_iterations:
        at = serial(state.iteration)
        right = part(45, f"iteration {at} {rate(pace)}/s", f"it {at} {rate(pace)}/s", f"{rate(pace)} it/s")
    parts = policy_parts(state)
    if state.bad_facts:
        note = f"{plural(state.bad_facts, 'impossible fact')} ignored"
        parts.append(
            part(60, (((f"{note}: {short(clean(state.bad_note or ''), 60)}"), Role.BAD),), ((note, Role.BAD),))
        )
    if state.counters.get("ledger_violations"):
        broken = f"LEDGER BROKEN {plural(state.counters['ledger_violations'], 'time')}"
        parts.insert(0, part(95, ((broken, Role.BAD),)))
    if state.jump is not None and 0 <= now - state.jump.at < JUMP_SHOWN_S:
        parts.insert(0, part(93, ((f"CLOCK JUMPED {state.jump.shown}", Role.WARN),)))
    if differs := next(iter(contradictions(state)), ""):
        # What we have added up ourselves, whatever the engine's own check says.
        forms = [((f"NOT ADDING UP: {short(differs, size)}", Role.BAD),) for size in (90, 50, 30)]
        parts.insert(0, part(94, *forms, (("NOT ADDING UP", Role.BAD),)))
    return fit(parts, width, right)


# -- line 3: speed and latency ------------------------------------------------------------------------------------


def _speed(state: EngineState, now: float, width: int) -> Row:
    mono = state.mono_now(now)
    if mono is None:
        return cut(RowBuilder().row(), width)
    rates = state.rates
    prefill, decode = rate(rates.per_second("prefill_tokens", mono)), rate(rates.per_second("decode_tokens", mono))
    hits, ever = percent(rates.hit_rate(mono)), percent(rates.hit_rate_lifetime())
    preempted = rate(rates.per_minute("preemptions", mono))
    short_window, long_window = _window(rates, mono, RATE_WINDOW), _window(rates, mono, LONG_WINDOW)
    parts = [
        part(
            50,
            (*_value("prefill ", prefill), *_value(" decode ", decode), (f" tok/s ({short_window})", Role.DIM)),
            (*_value("prefill ", prefill), *_value(" decode ", decode), (" tok/s", Role.DIM)),
        ),
        part(
            40,
            (*_value("hit ", hits), (f" ({long_window}) ", Role.DIM), (ever, Role.STRONG), (" (ever)", Role.DIM)),
            (*_value("hit ", hits), (f" ({long_window})", Role.DIM)),
            _value("hit ", hits),
            "",
        ),
        _latency(state, "ttft", state.ttft.summary(mono), 45),
        _latency(state, "tpot", state.tpot.summary(mono), 44),
        part(
            20,
            (*_value("preempt ", preempted), (f"/min ({long_window})", Role.DIM)),
            _value("preempt/min ", preempted),
            "",
        ),
        *_more(state, mono),
    ]
    return fit(parts, width, separator="  ")


def _window(rates: Rates, mono: float, window: float) -> str:
    """Over how long a rate is really taken: less where less has been seen."""
    return f"{max(1, round(rates.span(mono, window) or 0.0))}s"


def _value(name: str, shown: str) -> tuple[Span, ...]:
    return ((name, Role.DIM), (shown, Role.STRONG))


def _latency(state: EngineState, name: str, summary: Summary | None, weight: int) -> Part:
    """p50 and p95 of the requests of the last minute, with their number; that is 0 only where requests are exposed."""
    if summary is None and state.requests is None:
        return part(weight, _value(f"{name} ", "–"))
    if summary is None:
        return part(weight, (*_value(f"{name} ", "–"), (" (60s n=0)", Role.DIM)), _value(f"{name} ", "–"))
    low, high, n = seconds(summary.p50), seconds(summary.p95), count(summary.n)
    return part(
        weight,
        (*_value(f"{name} p50 ", low), *_value(" p95 ", high), (f" (60s n={n})", Role.DIM)),
        ((f"{name} ", Role.DIM), (f"{low}/{high}", Role.STRONG), (f" n={n}", Role.DIM)),
        ((f"{name} ", Role.DIM), (f"{low}/{high}", Role.STRONG)),
        _value(f"{name} ", low),
    )


def _more(state: EngineState, mono: float) -> list[Part]:
    """What only a wide screen has room for."""
    evicted = rate(state.rates.per_minute("evictions", mono))
    parts = [part(10, (*_value("evict ", evicted), ("/min", Role.DIM)), "")]
    if parts_of_time := spent(state):
        shown = {name: seconds(ms / 1000) for name, ms in parts_of_time.items()}
        all_of_it = " ".join(f"{name.replace('_', ' ')} {ms}" for name, ms in shown.items())
        last = sum(timing.iterations for timing in list(state.durations)[-OVER:])
        brief = f"schedule {shown['schedule']} forward {shown['forward']} (last {last})"
        parts.append(part(9, f"{all_of_it} (last {last})", brief, ""))
    if batch := batch_text(state):
        parts.append(part(8, batch, ""))
    return parts
