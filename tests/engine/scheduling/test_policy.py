"""Policy axes: values from strings and JSON, refusals in one sentence, and what the hello says."""

import dataclasses
import math

import pytest

from engine.policies.policy_set import AXES, PolicySet, protocol_axes, spell, validate


@pytest.mark.parametrize(
    ("axis", "given", "value"),
    [
        ("capacity", "static_batch", "static_batch"),
        ("prefix_cache", "on", True),
        ("prefix_cache", "FALSE", False),
        ("prefix_cache", False, False),
        ("max_running", "8", 8),
        ("max_running", 8.0, 8),
        ("watermark", "0.25", 0.25),
        ("watermark", 0, 0.0),
    ],
)
def test_values_come_as_strings_or_json(axis: str, given: bool | int | float | str, value: object) -> None:
    read = validate(axis, given)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("axis", "given", "says"),
    [
        ("speed", 1, "there is no policy axis 'speed'; the axes are capacity, order, victim"),
        ("capacity", "best", "capacity cannot be 'best'; choose guaranteed_no_evict, max_utilization or static_batch"),
        ("capacity", True, "capacity cannot be True; choose"),
        ("order", 3, "order cannot be 3; choose fcfs, priority or shortest_prompt"),
        ("prefix_cache", "maybe", "prefix_cache cannot be 'maybe'; choose on or off"),
        ("prefix_cache", 2, "prefix_cache cannot be 2"),
        ("max_running", 0, "max_running cannot be 0; choose a whole number from 1 to 65536"),
        ("max_running", True, "max_running cannot be True"),
        ("max_running", 2.5, "max_running cannot be 2.5; choose a whole number"),
        ("token_budget", "many", "token_budget cannot be 'many'"),
        ("token_budget", 10**400, "token_budget cannot be 1000"),
        ("watermark", math.nan, "watermark cannot be nan; choose a number from 0 to 0.9"),
        ("watermark", math.inf, "watermark cannot be inf"),
        ("watermark", "1", "watermark cannot be '1'"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(axis: str, given: bool | int | float | str, says: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be|there is no") as caught:
        validate(axis, given)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000, "more than a reply holds"


def test_hostile_text_is_quoted_and_cut() -> None:
    with pytest.raises(ValueError, match="cannot be") as caught:
        validate("capacity", "\x1b[31m" + "x" * 5000)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_change_gives_a_new_set_with_a_higher_version() -> None:
    old = PolicySet.of({"max_running": "4"})
    new = old.changed({"max_running": 8, "prefix_cache": "off"})
    assert (old.max_running, old.version) == (4, 0)
    assert (new.max_running, new.prefix_cache, new.version) == (8, False, 1)
    assert new.capacity == old.capacity


def test_a_change_to_the_same_values_is_none() -> None:
    old = PolicySet()
    assert old.changed({"capacity": old.capacity}) is old


def test_one_wrong_value_spoils_the_whole_change() -> None:
    with pytest.raises(ValueError, match="order"):
        PolicySet().changed({"max_running": 3, "order": "random"})


def test_a_set_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        PolicySet().max_running = 3  # type: ignore[misc]


def test_every_axis_has_a_default_that_it_takes_itself() -> None:
    values = PolicySet().values()
    assert list(values) == list(AXES)
    assert {axis: validate(axis, value) for axis, value in values.items()} == values


def test_the_hello_explains_every_axis_and_every_choice() -> None:
    for axis in protocol_axes():
        assert axis.help
        if axis.kind == "choice":
            assert len(axis.choices) >= 2
            assert all(axis.choices.values())
        elif axis.kind != "bool":
            assert axis.minimum is not None
            assert axis.maximum is not None
            assert axis.unit


def test_rules_are_spelled_as_an_operator_would_type_them() -> None:
    policies = PolicySet.of({"watermark": 0.05})
    rules = [policies.rule(axis) for axis in ("capacity", "prefix_cache", "watermark", "max_running")]
    assert rules == ["capacity=max_utilization", "prefix_cache=on", "watermark=0.05", "max_running=16"]
    assert [validate(axis, spell(value)) for axis, value in policies.values().items()] == list(
        policies.values().values()
    )
