"""Each event as a sentence that names who, why and at what cost."""

from collections.abc import Iterator
from itertools import islice, takewhile

from kvtop.protocol import ROUTINE_EVENTS, Event
from kvtop.state import EngineState, LogEntry, Marker
from kvtop.views.exposure import message_rows, not_exposed
from kvtop.views.fit import blank, line
from kvtop.views.format import NAME_WIDTH, called, clock, count, plural, seconds, serial, value
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, clean

_WIDE = 100
"""From this width on each event has its iteration before it."""

_SEVERITY = {"info": Role.TEXT, "warn": Role.WARN, "error": Role.BAD}


def _who(num: int | None, id: str | None, width: int = NAME_WIDTH) -> str:
    if id:
        return called(id, width)
    return "?" if num is None else f"#{count(num)}"


def _commander(event: Event) -> str:
    if event.uid is None:
        return ""
    return f" by uid {serial(event.uid)}" + (f" pid {serial(event.pid)}" if event.pid is not None else "")


def _preempt(event: Event) -> str:
    victim = _who(event.request, event.request_id)
    text = f"preempt {victim}"
    if event.by is not None or event.by_id:
        text += f" by {_who(event.by, event.by_id)}"
    else:
        text += _commander(event)
    if event.need_blocks is not None:
        text += f": needed {plural(event.need_blocks, 'block')}"
        text += f", {count(event.free_blocks)} free" if event.free_blocks is not None else ""
    elif event.cause:
        text += f": {clean(event.cause, 200)}"
    cost = []
    if event.tokens is not None:
        spent = f" ({seconds(event.seconds)})" if event.seconds is not None else ""
        cost.append(f"lost {plural(event.tokens, 'token')}{spent}")
    if event.blocks is not None:
        cost.append(f"released {plural(event.blocks, 'block')}")
    if cost:
        text += " → " + ", ".join(cost)
    if event.need_blocks is not None and event.cause:
        text += f"; {clean(event.cause, 200)}"
    return text


def _preempt_short(event: Event) -> str:
    """The same for a narrow screen: victim, cause and cost in 70 cells."""
    by = f" by {_who(event.by, event.by_id, 16)}" if event.by is not None or event.by_id else _commander(event)
    text = f"preempt {_who(event.request, event.request_id, 16)}{by}"
    if event.need_blocks is not None:
        text += f": need {count(event.need_blocks)}"
        text += f", {count(event.free_blocks)} free" if event.free_blocks is not None else ""
    if event.tokens is not None:
        spent = f" ({seconds(event.seconds)})" if event.seconds is not None else ""
        text += f" → lost {count(event.tokens)} tok{spent}"
    if event.blocks is not None:
        text += f", {count(event.blocks)} blk"
    return f"{text}; {clean(event.cause, 200)}" if event.need_blocks is None and event.cause else text


def _admit(event: Event) -> str:
    parts = [f"admit {_who(event.request, event.request_id)}"]
    if event.seconds is not None:
        parts.append(f"waited {seconds(event.seconds)}")
    if event.blocks is not None:
        parts.append(f"with {plural(event.blocks, 'block')}")
    if event.tokens:
        parts.append(f"{plural(event.tokens, 'token')} from the prefix cache")
    return _first_then(parts)


def _finish(event: Event) -> str:
    parts = [f"finish {_who(event.request, event.request_id)}"]
    if event.tokens is not None:
        parts.append(f"{plural(event.tokens, 'output token')}")
    if event.seconds is not None:
        parts.append(f"in {seconds(event.seconds)}")
    if event.blocks is not None:
        parts.append(f"released {plural(event.blocks, 'block')}")
    if event.cause:
        parts.append(clean(event.cause, 100))
    return _first_then(parts)


def _abort(event: Event) -> str:
    """A cause that only repeats the kind is left out."""
    parts = [f"abort {_who(event.request, event.request_id)}{_commander(event)}"]
    if event.blocks is not None:
        parts.append(f"released {plural(event.blocks, 'block')}")
    if event.cause and event.cause != event.kind:
        parts.append(clean(event.cause, 200))
    return _first_then(parts)


def _error(event: Event) -> str:
    """``error A-0007: 12 output tokens, in 2.4s``; why is its detail."""
    parts = [f"error {_who(event.request, event.request_id)}"]
    parts += [plural(event.tokens, "output token")] if event.tokens is not None else []
    parts += [f"in {seconds(event.seconds)}"] if event.seconds is not None else []
    return _first_then(parts)


def _evict(event: Event) -> str:
    text = f"evict {plural(event.blocks, 'cached block') if event.blocks is not None else 'cached blocks'}"
    if event.by is not None or event.by_id:
        text += f" for {_who(event.by, event.by_id)}"
    elif event.request is not None or event.request_id:
        text += f" for {_who(event.request, event.request_id)}"
    return f"{text}: {clean(event.cause, 200)}" if event.cause else text


def _policy(event: Event) -> str:
    text = f"policy {clean(event.axis or '?', 64)}: {value(event.old)} → {value(event.new)}{_commander(event)}"
    return f"{text}; {clean(event.cause, 200)}" if event.cause else text


def _swap(event: Event) -> str:
    """``swap_out a-0007 to host: 27 blocks, 212 tokens kept``."""
    out = event.kind == "swap_out"
    where = f" {'to' if out else 'from'} {clean(event.tier, 32)}" if event.tier else ""
    parts = [f"swap {'out' if out else 'in'} {_who(event.request, event.request_id)}{where}"]
    parts += [plural(event.blocks, "block")] if event.blocks is not None else []
    parts += [f"{plural(event.tokens, 'token')} kept"] if event.tokens is not None else []
    parts += [f"after {seconds(event.seconds)}"] if event.seconds is not None and not out else []
    return _first_then(parts)


def _watchdog(event: Event) -> str:
    """``watchdog after 12.0s: …``; its ``cause`` is a code, the sentence is the detail."""
    return "watchdog" + (f" after {seconds(event.seconds)}" if event.seconds is not None else "")


def _plain(event: Event) -> str:
    """Commands, pauses, ledger violations, notices and kinds of a later version."""
    text = clean(event.kind, 32).replace("_", " ") + _commander(event)
    if event.request is not None or event.request_id:
        text += f" {_who(event.request, event.request_id)}"
    said = event.detail or event.cause
    return f"{text}: {clean(said, 400)}" if said else text


def _first_then(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{parts[0]}: {', '.join(parts[1:])}"


_SENTENCES = {
    "preempt": _preempt,
    "admit": _admit,
    "finish": _finish,
    "abort": _abort,
    "error": _error,
    "evict": _evict,
    "policy": _policy,
    "swap_out": _swap,
    "swap_in": _swap,
    "watchdog": _watchdog,
}


def event_sentence(entry: LogEntry) -> str:
    """``preempt A-0007 by B-0011: needed 1 block, 0 free → lost 212 tokens (2.4s), released 27 blocks``."""
    if isinstance(entry, Marker):
        return clean(entry.text, 600)
    sentence = _SENTENCES.get(entry.kind)
    if sentence is None:
        return _plain(entry)
    text = sentence(entry)
    if entry.kind == "watchdog" and entry.detail:
        return f"{text}: {clean(entry.detail, 600)}"
    return f"{text}; {clean(entry.detail, 400)}" if entry.detail else text


def event_role(entry: LogEntry) -> int:
    """The role its severity gives it; a preemption warns whatever the engine thinks of it."""
    if isinstance(entry, Event) and entry.kind == "preempt" and entry.severity == "info":
        return Role.WARN
    if isinstance(entry, Event) and entry.kind == "policy" and entry.severity == "info":
        return Role.ACCENT
    return _SEVERITY.get(entry.severity, Role.WARN)


def _mark(severity: str) -> str:
    """What is said before an event of it; one that this version does not know, by its name."""
    if severity in _SEVERITY:
        return "! " if severity == "error" else ""
    return f"{clean(severity, 16)}! "


def event_row(entry: LogEntry, width: int) -> Row:
    """One entry with its time."""
    # Before the first, and in an engine that does not count them, there is none to name.
    iteration = f"i{serial(entry.iteration)}" if entry.iteration else ""
    stamp = f"{clock(entry.wall)} {iteration:<6} " if width >= _WIDE else f"{clock(entry.wall)} "
    mark = "· " if isinstance(entry, Marker) else _mark(entry.severity)
    text = mark + event_sentence(entry)
    if isinstance(entry, Event) and entry.kind == "preempt" and len(stamp) + len(text) > width:
        text = mark + _preempt_short(entry)
    return line([(stamp, Role.DIM), (text, event_role(entry))], width)


def shown_events(state: EngineState, routine: bool = True) -> list[LogEntry]:
    """The log, oldest first; without ``routine``, only what is notable (the viewer's own marks always are).

    Evictions of like cause that follow one another are one entry with their sum, so that they do not push out all else.
    """
    return [entry for _, entry in _latest(state, routine)][::-1]


def _latest(state: EngineState, routine: bool, at: int | None = None) -> Iterator[tuple[int, LogEntry]]:
    """The same from the newest back, as far as it is read: a screen shows the end of a log of thousands.

    With each goes its number in the log, that of the last where several are one. Of ``at`` and what came before it only:
    what comes later joins no entry that one is reading.
    """
    run: list[Event] = []
    number = 0
    for place, entry in state.events.numbered(routine, at):
        if isinstance(entry, Event) and entry.kind == "evict":
            if run and not _alike(entry, run[-1]):
                yield number, _sum(run[::-1])
                run = []
            number = number if run else place
            run.append(entry)
            continue
        if run:
            yield number, _sum(run[::-1])
            run = []
        yield place, entry
    if run:
        yield number, _sum(run[::-1])


def _notable_first(state: EngineState, height: int) -> Iterator[LogEntry]:
    """All that is notable; the rows of ``height`` that it does not need show what is usual. From the newest back."""
    spare = height - state.events.notable_count
    for _, entry in _latest(state, routine=spare > 0):
        if isinstance(entry, Event) and entry.kind in ROUTINE_EVENTS:
            if spare <= 0:
                continue
            spare -= 1
        yield entry


def scrolled(state: EngineState, height: int, routine: bool, at: int | None, back: int) -> int | None:
    """Where ``back`` rows further into the past (less than 0: towards the present) lead from ``at``.

    Both are the number in the log of the last entry that is shown; None follows the newest.
    """
    if back >= 0:
        older = [number for number, _ in islice(_latest(state, routine, at), back + height)]
        step = min(back, len(older) - height)
        return older[step] if step > 0 else at
    if at is None:
        return None
    newer = [number for number, _ in takewhile(lambda numbered: numbered[0] > at, _latest(state, routine))]
    return newer[back] if -back < len(newer) else None


def still_there(state: EngineState, height: int, routine: bool, at: int | None) -> int | None:
    """``at``, or, where what filled the rows above it is no longer kept, where the oldest fill them."""
    if at is None or len(list(islice(_latest(state, routine, at), height))) == height:
        return at
    every = [number for number, _ in _latest(state, routine)]
    return every[-height] if len(every) > height > 0 else None


def _sum(run: list[Event]) -> Event:
    """Evictions in a row as the last of them, with the blocks of all."""
    if len(run) == 1:
        return run[0]
    blocks = sum(event.blocks or 0 for event in run)
    return run[-1].model_copy(
        update={"blocks": blocks, "detail": f"{count(len(run))} times since {clock(run[0].wall)}"}
    )


def _alike(last: Event, entry: Event) -> bool:
    """Whether two evictions can be told as one."""
    return (
        (last.cause, last.by, last.request) == (entry.cause, entry.by, entry.request)
        and last.blocks is not None
        and entry.blocks is not None
    )


def event_rows(
    state: EngineState,
    width: int,
    height: int,
    glyphs: Glyphs = UNICODE,
    *,
    at: int | None = None,
    routine: bool = True,
) -> list[Row]:
    """The newest at the bottom; or the one that has the number ``at`` in the log, with what came before it.

    Without ``routine`` only what is notable, and what is usual in rows to spare.
    """
    numbered = _latest(state, routine, at)
    back = (entry for _, entry in numbered) if routine or at is not None else _notable_first(state, height)
    entries = list(islice(back, height))
    if not entries:
        known = state.has("events") or state.hello is None
        return message_rows("no events yet" if known else not_exposed(state, "events"), width, height, glyphs)
    rows = [event_row(entry, width) for entry in reversed(entries)]
    return glyphs.rows(rows + [blank(width)] * (height - len(rows)))


def events_title(state: EngineState) -> str:
    """``events: 12 preemptions, 340 evictions since the engine started``; just ``events`` where that is not exposed."""
    known = []
    for name in ("preemptions", "evictions"):
        if (total := state.counters.get(name)) is not None:
            known.append(plural(total, name.removesuffix("s")))
    return f"events: {', '.join(known)} in all" if known else "events"
