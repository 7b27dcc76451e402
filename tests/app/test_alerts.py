"""Told beyond the screen: the bell, and a command that gets the alarm as JSON and nothing else from the engine."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kvtop.alarms import Change, Check, Finding, Victim
from kvtop.app import alerts
from kvtop.app.alerts import Alerts
from tests.views.scene import scene

EVIL = "$(touch pwned); `touch pwned`\n\x1b[31m"
FINDING = Finding("critical", "brief", EVIL, Victim("request", EVIL, 7), "abort it")
CHECK = Check("never_fits", "head can never fit", "firing", EVIL, FINDING, 5000.0, 1_790_000_000.0)


def told(made: Alerts, *changes: Change) -> None:
    """All commands have ended when it returns."""
    made.take(scene(), list(changes))
    for thread in threading.enumerate():
        if thread.name == "kvtop-on-alarm":
            thread.join(20.0)


def test_the_bell_rings_for_critical_ones_and_at_most_once_in_ten_seconds() -> None:
    now, rung = [0.0], []
    made = Alerts(bell=True, now=lambda: now[0])
    made.ring = lambda: rung.append(now[0])
    warning = replace(CHECK, finding=replace(FINDING, severity="warning"))
    for at, change in (
        (0.0, Change(warning, True)),
        (1.0, Change(CHECK, True)),
        (5.0, Change(CHECK, True)),
        (9.0, Change(CHECK, False)),
        (12.0, Change(CHECK, True)),
    ):
        now[0] = at
        told(made, change)
    assert rung == [1.0, 12.0]
    silent = Alerts()
    silent.ring = lambda: rung.append(99.0)
    told(silent, Change(CHECK, True))
    assert 99.0 not in rung


def test_the_command_gets_the_alarm_on_its_standard_input_and_the_engines_words_nowhere_else(tmp_path: Path) -> None:
    made = Alerts(command=f"cd '{tmp_path}' && cat >> told")
    told(made, Change(CHECK, True))
    told(made, Change(replace(CHECK, since=float("inf")), False))
    first, second = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert (first["engine"], first["run"], first["alarm"], first["state"]) == ("demo", "r1", "never_fits", "firing")
    assert (first["evidence"], first["victim"]["num"], first["severity"]) == (EVIL, 7, "critical")
    assert (second["state"], second["victim"]["num"]) == ("over", 7)
    assert [path.name for path in tmp_path.iterdir()] == ["told"]


def test_a_failure_is_shown_once() -> None:
    said: list[str] = []
    made = Alerts(command="exit 3")
    made.say = lambda text, severity: said.append(text)
    told(made, Change(CHECK, True))
    told(made, Change(CHECK, True))
    assert said == ["--on-alarm: exit code 3 (further failures are not told)"]


def test_a_command_that_does_not_read_is_no_failure() -> None:
    said: list[str] = []
    made = Alerts(command="exec true")
    made.say = lambda text, severity: said.append(text)
    told(made, Change(replace(CHECK, text="x" * 200_000), True))
    assert said == []


def test_one_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    said: list[str] = []
    made = Alerts(command=f"(sleep 60; touch '{tmp_path}/late') & sleep 60", timeout=0.2)
    made.say = lambda text, severity: said.append(text)
    told(made, Change(CHECK, True))
    assert said == ["--on-alarm: it took more than 0.2 s and was ended (further failures are not told)"]


def test_only_so_many_run_at_once_and_the_end_of_the_screen_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    made = Alerts(command="sleep 60")
    made.say = lambda text, severity: said.append(text)
    made.take(scene(), [Change(CHECK, True)] * (alerts.AT_ONCE + 2))
    assert len(made._running) == alerts.AT_ONCE
    assert said == [
        "--on-alarm: 4 of it run already, so it was not told of head can never fit (further failures are not told)"
    ]
    made.close()
    assert not made._running
    made.take(scene(), [Change(CHECK, True)])
    assert not made._running
