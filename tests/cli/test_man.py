"""The manual page: everything that can be typed is in it, and it is roff that can be set."""

import re
import shutil
import subprocess

import pytest

from kvtop.app.keys import SECTIONS
from kvtop.cli import build_parser
from kvtop.commands.tree import tree_of
from kvtop.man import page, roff
from kvtop.settings.definitions import DEFINITIONS

TREE = tree_of(build_parser())
REQUESTS = {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".nf", ".fi", ".nh"}


def test_all_that_can_be_typed_set_and_pressed_is_in_it() -> None:
    text = page().replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")
    for command in TREE.all():
        assert not command.path or f".SS kvtop {' '.join(command.path)}\n" in text
        for argument in [*command.options, *command.places]:
            assert argument.help, (command.path, argument)
            assert all(flag in text for flag in argument.flags)
    for definition in DEFINITIONS:
        assert f"\n{definition.name}" in text
        assert definition.variable in text
    for place, actions in SECTIONS:
        assert all(f"[{action.id(place)}]" in text for action in actions)


def test_it_is_made_of_few_requests_and_of_ascii() -> None:
    text = page()
    assert text.isascii()
    assert {line.split()[0] for line in text.splitlines() if line.startswith(".")} - {'.\\"'} == REQUESTS
    assert not re.findall(r"\\(?!fB|fI|fR|-|e|&|\[u[0-9A-F]{4,6}\])", text.split("\n", 1)[1])


@pytest.mark.parametrize(("text", "shown"), [("a-b\\c", "a\\-b\\ec"), (".x", "\\&.x"), ("'x", "\\&'x"), ("é→", "\\[u00E9]\\[u2192]")])  # fmt: skip
def test_what_roff_would_take_for_its_own_is_shown_as_it_is(text: str, shown: str) -> None:
    assert roff(text) == shown


def test_it_can_be_set_without_a_complaint() -> None:
    if (groff := shutil.which("groff")) is None:
        pytest.skip("no groff here")
    done = subprocess.run(
        [groff, "-man", "-Tascii", "-ww", "-P-cbou"], input=page(), capture_output=True, text=True, timeout=60
    )
    # What no character of the device stands for is a matter of the terminal.
    complaints = [line for line in done.stderr.splitlines() if "special character" not in line]
    assert (done.returncode, complaints) == (0, [])
    assert "--transition {drain,preempt}" in done.stdout
