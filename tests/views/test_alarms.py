"""Alarms in words: the first line, the row of evidence, the entries of the page; whatever an engine calls its requests."""

from dataclasses import replace

import pytest

from kvtop.alarms import Check, Finding, Report, Victim
from kvtop.alarms.report import Spell
from kvtop.views.alarms import alarm_forms, alarm_row, check_rows, listed, summary
from kvtop.views.header import header_rows
from tests.views.scene import LATER, MONO, WALL, gauges_only, scene
from tests.views.scene import check_rows as checked

EVIL = "\x1b[31m[bold]x[/]\n\u202e" + "名" * 300
FINDING = Finding(
    "warning", f"31 in 60 s, {EVIL}", f"31 preemptions; {EVIL} 6 times", Victim("request", EVIL, 7), f"try {EVIL}"
)
STORM = Check("preemption_storm", "preemption storm", "firing", FINDING.evidence, FINDING, MONO - 8.0, WALL - 8.0)
STALE = replace(STORM, name="stale_data", title="stale data", finding=replace(FINDING, severity="critical"))
FINE = Check("no_progress", "no progress", "fine", "12 new tokens")
UNKNOWN = Check("tier_thrash", "tier thrash", "unchecked", "tiers are not exposed by vllm")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_whatever_a_request_is_called_every_row_is_as_wide_as_it_should_be(width: int) -> None:
    report = Report((STORM, FINE, UNKNOWN))
    rows = header_rows(scene(), LATER, width, alarms=report)
    assert "! preemption storm" in checked(rows, width, 4)
    row = alarm_row(report, scene(), LATER, width)
    assert row is not None
    assert checked([row], width).startswith("! ALARM preemption storm 12.0s: 31 preemptions")
    for check in report.checks:
        for row in check_rows(check, scene(), LATER, width, chosen=True):
            checked([row], len(row.text))
            assert len(row.text) <= width


def test_the_worst_is_named_and_the_others_are_counted() -> None:
    report = Report((STORM, STALE, FINE))
    assert [form for form, _ in alarm_forms(report, scene(), LATER, 80)] == ["! stale data 12.0s +1", "! stale data +1"]
    assert [check.name for check in listed(report)] == ["stale_data", "preemption_storm", "no_progress"]
    assert summary(report) == "2 alarms, 1 fine"


def test_nothing_wrong_says_how_much_was_checked_and_on_wide_screens_what_was_not() -> None:
    report = Report((FINE, UNKNOWN))
    assert alarm_forms(report, scene(), LATER, 200)[0][0] == "nothing wrong: 1 of 2 checks, not tier thrash"
    assert [form for form, _ in alarm_forms(report, scene(), LATER, 80)] == ["1 of 2 checks fine", "1/2 fine"]
    assert alarm_forms(Report((FINE, FINE)), scene(), LATER, 120)[0][0] == "nothing wrong: 2 checks"


def test_of_an_engine_that_is_gone_nothing_is_called_fine() -> None:
    state = scene()
    state.link_down("gone", True, LATER)
    assert alarm_forms(Report((FINE,)), state, LATER + 1.0, 80) == []
    assert alarm_forms(Report((FINE,)), gauges_only(), LATER, 80) != []
    assert alarm_forms(Report(), scene(), LATER, 80) == []


def test_an_entry_tells_state_evidence_victim_advice_and_when_it_fired_before() -> None:
    plain = replace(
        STORM, text="31 preemptions", finding=replace(FINDING, victim=Victim("request", "A-1", 1), advice="abort it")
    )
    text = "\n".join(row.text.rstrip() for row in check_rows(plain, scene(), LATER, 100, chosen=True))
    assert text.startswith("▸ ! preemption storm  FIRING, warning, for 12.0s since ")
    assert "\n    31 preemptions\n    victim: A-1 (request, Enter goes there)\n    try: abort it" in text
    over = Check("no_progress", "no progress", "fine", "12 new tokens", before=Spell(WALL, 42.0))
    assert "fired before: at " in "\n".join(row.text for row in check_rows(over, scene(), LATER, 100))


@pytest.mark.parametrize("width", [60, 80, 200])
def test_where_nothing_could_be_checked_nothing_is_called_fine(width: int) -> None:
    forms = alarm_forms(Report((UNKNOWN, UNKNOWN)), scene(), LATER, width)
    assert [form for form, _ in forms] == ["nothing checked"]
