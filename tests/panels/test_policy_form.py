"""The policy dialog with all of the engine's axes, in cards of every height: what is chosen is on the screen."""

import pytest

from engine.policies.policy_set import PolicySet, protocol_axes
from panels.dialogs.policy_form import PolicyForm, Stage

AXES = protocol_axes()


def text(form: PolicyForm, height: int) -> str:
    rows = form.rows(72, height)
    assert len(rows) == height
    return "\n".join(row.text for row in rows)


def form_at(number: int) -> PolicyForm:
    form = PolicyForm(AXES, PolicySet().values())
    for _ in range(number):
        form.key("down", None)
    return form


@pytest.mark.parametrize("height", [10, 16, 40])
@pytest.mark.parametrize("number", range(len(AXES)))
def test_the_chosen_axis_and_its_help_are_in_view(number: int, height: int) -> None:
    shown = text(form_at(number), height)
    assert f"▸ {AXES[number].name}" in shown
    assert AXES[number].help.split()[-1] in shown
    hidden = [axis.name for axis in AXES if f" {axis.name} " not in shown]
    assert bool(hidden) == ("more lines" in shown)


@pytest.mark.parametrize("height", [10, 16, 40])
@pytest.mark.parametrize("number", [i for i, axis in enumerate(AXES) if axis.kind == "choice"])
def test_the_chosen_value_and_its_first_words_are_in_view(number: int, height: int) -> None:
    form = form_at(number)
    form.key("enter", None)
    assert form.stage is Stage.VALUE
    for _ in range(form.value_at):
        form.key("up", None)
    for value, meaning in AXES[number].choices.items():
        shown = text(form, height)
        assert f"▸ ● {value}" in shown or f"▸ ○ {value}" in shown
        assert meaning.split()[0] in shown
        form.key("down", None)


def test_what_is_cut_is_counted() -> None:
    rows = form_at(9).rows(72, 10)
    above, below = rows[0].text, next(row.text for row in rows if "below" in row.text)
    counts = [int(line.split()[1]) for line in (above, below)]
    listed = sum(any(f" {axis.name} " in row.text for axis in AXES) for row in rows)
    assert sum(counts) + listed == len(AXES)
