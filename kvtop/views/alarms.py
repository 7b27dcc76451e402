"""What is wrong, in a few words for the first line, in a row, and in full for the page of all alarms."""

from kvtop.alarms import Check, Report
from kvtop.state import EngineState
from kvtop.views.fit import Span, line, wrap
from kvtop.views.format import age, clock, plural, short
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, RowBuilder, clean

ROOMY = 160
"""Columns from which on the first line names the numbers of an alarm, or what cannot be checked."""

USUAL = 100
"""Columns below which names of engine and model matter more than its words while nothing is wrong."""

NARROW = 72
"""Columns below which it has but a word."""

_STATES = {
    "firing": "FIRING",
    "ending": "no longer so, and over if it stays so",
    "pending": "so, but not long enough yet to be told",
    "fine": "fine",
    "unchecked": "not checkable",
    "off": "off",
}
_INDENT = 4


def severity_role(check: Check) -> int:
    return Role.BAD if check.severity == "critical" else Role.WARN


def lasting(check: Check, state: EngineState, now: float) -> float | None:
    """Seconds since it began; they go on while the engine is silent or gone, too."""
    if check.since is None or state.mono is None or state.arrived is None:
        return None
    return max(0.0, state.mono + max(0.0, now - state.arrived) - check.since)


def alarm_forms(report: Report, state: EngineState, now: float, width: int) -> list[Span]:
    """``! preemption storm +1``, or ``nothing wrong: 6 of 8 checks``, from long to short; empty while nothing is known."""
    if state.seq is None or not report.checks:
        return []
    firing = report.firing
    if firing:
        worst, more = firing[0], f" +{len(firing) - 1}" if len(firing) > 1 else ""
        role = severity_role(worst)
        since = age(lasting(worst, state, now))
        brief = f": {clean(worst.finding.brief, 60)}" if worst.finding is not None else ""
        forms = [f"! {worst.title}{brief} ({since}){more}", f"! {worst.title} {since}{more}", f"! {worst.title}{more}"]
        return [(form, role) for form in (forms if width >= ROOMY else forms[1:])]
    if not state.link.up:
        return []  # What was fine then says nothing of now.
    if not report.checked:
        return [("nothing checked", Role.DIM)]  # which is not that nothing is wrong
    missing = report.unchecked
    made = f"{report.checked} of {len(report.checks)}" if missing else str(report.checked)
    forms = [f"nothing wrong: {made} checks", f"{made} checks fine", f"{made.replace(' of ', '/')} fine"]
    if missing and width >= ROOMY:
        forms.insert(0, f"nothing wrong: {made} checks, not {', '.join(check.title for check in missing)}")
    if width < USUAL:
        forms = forms[-1:] if width < NARROW else forms[-2:]
    return [(form, Role.GOOD) for form in forms]


def alarm_row(report: Report, state: EngineState, now: float, width: int) -> Row | None:
    """The worst alarm with its evidence, and how many more fire; None where none does."""
    firing = report.firing
    if not firing:
        return None
    worst, since = firing[0], age(lasting(firing[0], state, now))
    more = f" (+{len(firing) - 1} more)" if len(firing) > 1 else ""
    over = ", no longer so" if worst.status == "ending" else ""
    head = f"! ALARM {worst.title} {since}{over}{more}: "
    return line([(head, severity_role(worst)), (clean(worst.text, 500), Role.WARN)], width)


def listed(report: Report) -> list[Check]:
    """All checks as the page has them: what fires, what may soon, what is fine, what cannot be checked."""
    rest = [check for check in report.checks if not check.fires]
    order = ("pending", "fine", "unchecked", "off")
    return [*report.firing, *sorted(rest, key=lambda check: order.index(check.status))]


def check_rows(
    check: Check,
    state: EngineState,
    now: float,
    width: int,
    *,
    chosen: bool = False,
    jump: str = "Enter",
    glyphs: Glyphs = UNICODE,
) -> list[Row]:
    """One check of the page: title and state; evidence, victim and what to try, or what was looked at. ``jump``: the key that
    goes to the victim."""
    builder = RowBuilder().add("▸ " if chosen else "  ", Role.STRONG)
    role = severity_role(check) if check.fires else Role.STRONG
    builder.add(f"{'! ' if check.fires else ''}{check.title}", role).add("  ")
    builder.add(_state(check, state, now), role if check.fires else _role(check))
    rows = [builder.row(width)]
    rows += _paragraph("", check.text, width, Role.TEXT if check.status != "unchecked" else Role.DIM)
    finding = check.finding
    if finding is not None:
        if finding.victim is not None:
            goes = "" if finding.victim.kind == "engine" else f", {jump} goes there"
            rows += _paragraph(
                "victim: ", f"{clean(finding.victim.name)} ({finding.victim.kind}{goes})", width, Role.STRONG
            )
        rows += _paragraph("try: ", finding.advice, width, Role.ACCENT)
    if check.before is not None and not check.fires:
        lasted = f"fired before: at {clock(check.before.began)}, for {age(check.before.lasted)}"
        rows += _paragraph("", lasted, width, Role.DIM)
    return glyphs.rows(rows)


def _state(check: Check, state: EngineState, now: float) -> str:
    word = _STATES[check.status]
    if check.since is None:
        return word
    return f"{word}, {check.severity}, for {age(lasting(check, state, now))} since {clock(check.wall)}"


def _role(check: Check) -> int:
    return {"fine": Role.GOOD, "pending": Role.WARN}.get(check.status, Role.DIM)


def _paragraph(name: str, text: str, width: int, role: int) -> list[Row]:
    indent = RowBuilder().to(_INDENT).row()
    rows = wrap([(name, Role.DIM), (clean(text, 1000), role)], max(8, width - _INDENT), 12)
    return [Row(indent.text + row.text, indent.roles + row.roles) for row in rows]


def summary(report: Report) -> str:
    """``2 alarms, 5 fine, 1 not checkable``."""
    parts = [plural(len(report.firing), "alarm")]
    fine = report.checked - len(report.firing)
    parts += [f"{fine} fine"] if fine else []
    parts += [f"{len(report.unchecked)} not checkable"] if report.unchecked else []
    return short(", ".join(parts), 60)
