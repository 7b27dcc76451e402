"""The policy dialog without its terminal: what it asks, and how it follows what happens elsewhere."""

import pytest

from engine.policies.policy_set import PolicySet, protocol_axes
from kvtop.protocol import EngineIdentity, Hello, ModelFacts, PolicyAxis, PolicyValue, SetPolicy
from kvtop.state import EngineState
from kvtop.views.answer import Answer
from panels.dialogs.policy_form import PolicyForm, Stage

AXES = protocol_axes()
FINE = Answer(True, "", effects=("nobody is hurt",))


def state(
    run: str = "run-1", axes: list[PolicyAxis] | None = None, up: bool = True, **policy: PolicyValue
) -> EngineState:
    made = EngineState()
    if up:
        made.link_up(0.0)
    made.hello = Hello(
        engine=EngineIdentity(name="e", kind="kvtop", version="1", run=run),
        model=ModelFacts(name="m"),
        axes=AXES if axes is None else axes,
    )
    made.policy = {**PolicySet().values(), **policy}
    return made


def form_on(now: EngineState) -> PolicyForm:
    assert now.hello is not None
    return PolicyForm(now.hello.axes, now.policy, now.run)


def asked(axis: str, value: PolicyValue) -> tuple[PolicyForm, SetPolicy]:
    """A form at its preview, answered."""
    form = form_on(state())
    form.choose_axis(axis)
    command = form.choose(value)
    assert command is not None
    form.answered(command, FINE)
    return form, command


def said(form: PolicyForm) -> str:
    return " ".join([form.note, *(text for text, _ in form.paragraphs())])


@pytest.mark.parametrize(
    ("axis", "value", "matters"),
    [
        ("capacity", "static_batch", True),
        ("kv_dtype", "int8", True),
        ("pin_limit", 0.1, True),
        ("pin_limit", 0.8, False),
        ("max_running", 2, True),
        ("max_running", 64, False),
        ("victim", "most_blocks", False),
        ("token_budget", 1, False),
        ("compaction_moves", 1, False),
        ("prefix_cache", False, False),
    ],
)
def test_a_transition_is_asked_for_where_the_engine_says_that_one_applies(
    axis: str, value: PolicyValue, matters: bool
) -> None:
    form, _ = asked(axis, value)
    assert form.transition_matters is matters
    command = form.choose_transition("preempt")
    assert (command is not None) is matters
    if command is not None:
        form.answered(command, FINE)
    done = form.apply()
    assert done is not None
    assert done.transition == ("preempt" if matters else "drain")


def test_an_axis_that_does_not_say_is_asked_for_too() -> None:
    now = state(axes=[PolicyAxis(name="novel", kind="bool")], novel=False)
    form = form_on(now)
    form.choose_axis("novel")
    assert form.choose(True) is not None
    assert form.transition_matters


def test_every_command_carries_the_run_that_was_shown() -> None:
    form, first = asked("max_running", 2)
    second = form.choose_transition("preempt")
    assert second is not None
    form.answered(second, FINE)
    third = form.apply()
    assert third is not None
    assert [command.run for command in (first, second, third)] == ["run-1"] * 3


def test_a_value_changed_elsewhere_is_shown_and_the_preview_asked_anew() -> None:
    form, _ = asked("capacity", "static_batch")
    assert form.follow(state()) is None, "nothing has changed"
    command = form.follow(state(victim="most_blocks", capacity="guaranteed_no_evict"))
    assert command is not None
    assert (command.dry_run, command.changes) == (True, {"capacity": "static_batch"})
    assert form.change == "capacity  guaranteed_no_evict → static_batch"
    assert "changed elsewhere meanwhile: capacity, victim" in said(form)
    assert not form.ready, "what would happen is not known any more"
    assert form.apply() is None
    assert form.follow(state(victim="most_blocks", capacity="guaranteed_no_evict")) is None, "asked once"
    form.answered(command, FINE)
    assert form.ready


def test_what_somebody_else_has_set_already_is_not_set_again() -> None:
    form, _ = asked("capacity", "static_batch")
    assert form.follow(state(capacity="static_batch")) is None
    assert form.stage is Stage.VALUE
    assert form.note == "capacity is static_batch by now: it was changed elsewhere"
    assert form.current == "static_batch"


def test_the_values_of_all_axes_are_those_of_now() -> None:
    form = form_on(state())
    form.follow(state(max_running=3))
    assert form.policy["max_running"] == 3


@pytest.mark.parametrize("stage", [Stage.AXIS, Stage.VALUE, Stage.CONFIRM])
def test_a_restart_leads_back_to_the_new_runs_policies(stage: Stage) -> None:
    form, command = asked("max_running", 2)
    while form.stage is not stage:
        form.back()
    assert form.follow(state("run-2", max_running=5)) is None
    assert form.stage is Stage.AXIS
    assert form.note == "the engine has been restarted; these are its policies now"
    assert form.policy["max_running"] == 5
    form.answered(command, FINE)
    assert form.preview is None, "the old run's answer says nothing of the new one"
    form.choose_axis("max_running")
    again = form.choose(2)
    assert again is not None
    assert again.run == "run-2"


def test_a_restart_while_it_is_applied_says_that_nobody_knows() -> None:
    form, _ = asked("max_running", 2)
    assert form.apply() is not None
    form.follow(state("run-2"))
    assert form.stage is Stage.DONE
    assert "the engine has been restarted: the run that was asked is over" in said(form)


def test_without_a_connection_nothing_is_applied() -> None:
    form, _ = asked("max_running", 2)
    gone = state(up=False)
    form.follow(gone)
    assert form.apply() is None
    assert "No connection to the engine" in said(form)
    form.follow(state())
    assert form.apply() is not None


def test_an_axis_that_is_gone_and_a_choice_that_is_gone() -> None:
    form, _ = asked("capacity", "static_batch")
    fewer = [axis for axis in AXES if axis.name != "capacity"]
    form.follow(state(axes=fewer))
    assert (form.stage, form.note) == (Stage.AXIS, "the engine has no policy capacity any more")
    form, _ = asked("capacity", "static_batch")
    poorer = [axis.model_copy(update={"choices": {"max_utilization": ""}}) for axis in AXES if axis.name == "capacity"]
    form.follow(state(axes=poorer, victim="most_blocks"))
    assert (form.stage, form.note) == (Stage.VALUE, "capacity cannot be static_batch any more")


@pytest.mark.parametrize(
    ("axis", "typed", "note"),
    [
        ("max_running", "", "type a whole number"),
        ("max_running", "1.5", "type a whole number"),
        ("max_running", "0", "at least 1"),
        ("max_running", "1" * 5000, "type a whole number"),
        ("watermark", "nan", "type a number"),
        ("watermark", "inf", "type a number"),
        ("watermark", "1", "at most 0.9"),
        ("watermark", "0", "watermark is 0 already"),
    ],
)
def test_a_number_that_cannot_be_is_refused_in_words(axis: str, typed: str, note: str) -> None:
    form = form_on(state())
    form.choose_axis(axis)
    assert form.choose_number(typed) is None
    assert form.note == note
