"""Thresholds: defaults, bounds, and names that are refused with those there are."""

import re
from pathlib import Path

import pytest

from kvtop.alarms import Settings
from kvtop.alarms.document import definition, page
from kvtop.alarms.limits import thresholds
from kvtop.alarms.rules import RULES
from kvtop.alarms.settings import RULE_NAMES


def test_every_rule_has_its_thresholds_and_there_are_no_others() -> None:
    assert tuple(kind.NAME for kind in RULES) == RULE_NAMES


def test_values_are_taken_as_numbers_and_as_they_are_typed() -> None:
    made = Settings.of({"preemption_storm.window_s": "30", "stale_data.after_s": 5, "tier_thrash": "off"})
    assert (made.preemption_storm.window_s, made.stale_data.after_s, made.tier_thrash.on) == (30, 5, False)
    assert Settings.of(made.values()) == made
    assert Settings.of({}) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("preemption_strom.window_s", 5, "there is no alarm 'preemption_strom', did you mean preemption_storm?; alarms are stale_data,"),
        ("preemption_storm.windows", 5, "has no threshold 'windows', did you mean window_s?; it has for_s, hold_s, window_s"),
        ("preemption_storm.window_s", "soon", "preemption_storm.window_s must be a number, not 'soon'"),
        ("preemption_storm.window_s", 1, "preemption_storm.window_s of 1 must be from 5 to 600 s"),
        ("preemption_storm.window_s", "nan", "preemption_storm.window_s must be a number"),
        ("preemption_storm.window_s", True, "preemption_storm.window_s must be a number"),
        ("preemption_storm", "maybe", "preemption_storm is on or off, not 'maybe'; its thresholds are preemption_storm.for_s"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(name: str, value: object, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        Settings.of({name: value})


def test_defaults_lie_within_their_bounds_and_the_page_names_all() -> None:
    text = page()
    for kind in RULES:
        assert kind.TITLE.lower() in text.lower()
        assert "{" not in definition(kind)
        for each in thresholds(type(Settings().limits(kind.NAME))):
            assert each.least <= each.default <= each.most
            assert f"| `{each.name}` |" in text
            assert each.meaning


def test_the_committed_page_is_current() -> None:
    assert (Path(__file__).parents[2] / "docs" / "alarms.md").read_text() == page()


def test_every_rule_can_advise_an_engine_that_takes_no_commands() -> None:
    for kind in RULES:
        assert any(not each.axis and not each.command for each in kind.TRIES), kind.NAME
