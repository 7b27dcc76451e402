"""Which of several values of a setting holds, and that it is said why."""

import itertools

import pytest

from kvtop.errors import UserError
from kvtop.settings.definitions import BY_NAME, DEFINITIONS, Definition, Settings
from kvtop.settings.file import Given, parse
from kvtop.settings.resolve import choose

PLACES = ("option", "environment", "profile", "top")
VALUES = dict(zip(PLACES, ("dark", "light", "high-contrast-dark", "high-contrast-light"), strict=True))
FROM = {"option": "--theme", "environment": "KVTOP_THEME", "profile": "c.toml:", "top": "c.toml:1"}


@pytest.mark.parametrize("given", [set(some) for n in range(5) for some in itertools.combinations(PLACES, n)])
def test_the_command_line_goes_first_then_environment_profile_and_file(given: set[str]) -> None:
    lines = [f"theme = '{VALUES['top']}'"] * ("top" in given)
    lines += ["[profiles.p]", *[f"theme = '{VALUES['profile']}'"] * ("profile" in given)]
    options = {"profile": Given("p", "--profile")}
    if "option" in given:
        options["theme"] = Given(VALUES["option"], "--theme")
    env = {"KVTOP_THEME": VALUES["environment"]} if "environment" in given else {"KVTOP_THEME": ""}
    chosen = choose(env, options, parse("\n".join(lines), "c.toml"))
    first = next((place for place in PLACES if place in given), None)
    assert chosen.settings.theme == (VALUES[first] if first else "auto")
    assert chosen.places["theme"].startswith(FROM[first] if first else "default")


def test_a_profile_is_named_by_option_environment_or_file() -> None:
    file = parse("profile = 'a'\n[profiles.a]\nengine = 'A'\n[profiles.b]\nengine = 'B'\n[profiles.c]", "c.toml")
    assert choose({}, {}, file).settings.engine == "A"
    assert choose({"KVTOP_PROFILE": "b"}, {}, file).settings.engine == "B"
    assert choose({"KVTOP_PROFILE": "b"}, {"profile": Given("c", "--profile")}, file).settings.engine is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[profiles.night]", "--profile: there is no profile 'nigt'; did you mean night?"),
        ("[profiles.a]\n[profiles.b]", "--profile: there is no profile 'nigt' in c.toml; there are a, b"),
        ("", "--profile: there is no profile 'nigt' in c.toml, nor any other"),
        (None, "--profile: there is no profile 'nigt': no file of settings was read"),
    ],
)
def test_a_profile_that_is_not_there_is_told_with_those_that_are(text: str | None, says: str) -> None:
    with pytest.raises(UserError) as caught:
        choose({}, {"profile": Given("nigt", "--profile")}, None if text is None else parse(text, "c.toml"))
    assert says in caught.value.message
    assert caught.value.code == 2


def test_keys_of_a_profile_take_the_place_of_those_at_the_top_action_by_action() -> None:
    file = parse("keys.a.x = '1'\nkeys.a.y = '2'\n[profiles.p.keys]\n'a.x' = ['3', '4']", "c.toml")
    chosen = choose({"KVTOP_PROFILE": "p"}, {}, file)
    assert chosen.settings.keys == {"a.x": ["3", "4"], "a.y": "2"}
    assert chosen.key_places == {"a.x": "c.toml:4", "a.y": "c.toml:2"}


def test_no_color_goes_before_the_file_and_behind_what_is_meant_for_kvtop_alone() -> None:
    file = parse("colors = 256", "c.toml")

    def colors(env: dict[str, str], **options: Given) -> tuple[str, str]:
        chosen = choose(env, options, file)
        return chosen.settings.colors, chosen.places["colors"]

    assert colors({"NO_COLOR": "1"}) == ("none", "NO_COLOR")
    assert colors({"NO_COLOR": ""}) == ("256", "c.toml:1")
    assert colors({"NO_COLOR": "1", "KVTOP_COLOR": "16"}) == ("16", "KVTOP_COLOR")
    assert colors({"NO_COLOR": "1"}, colors=Given("16", "--colors")) == ("16", "--colors")


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(UserError, match=r"KVTOP_THEME: 'pink' is not one of auto, dark"):
        choose({"KVTOP_THEME": "pink"}, {}, None)


WHOLE = Definition("n", "whole", 5, "", bounds=(1, 10))
NUMBER = Definition("x", "number", None, "", bounds=(0, 1e6))
TEXTS = Definition("t", "texts", (), "")


@pytest.mark.parametrize("text", ["0", "11", "1.5", "x", "", "nan", "٣٤"])
def test_a_whole_number_out_of_bounds_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not a whole number from 1 to 10"):
        WHOLE.typed(text)


@pytest.mark.parametrize("value", [0, 11, 1.0, True, "5", float("nan"), [5]])
def test_nor_is_it_in_a_file(value: object) -> None:
    with pytest.raises(ValueError, match="is not a whole number from 1 to 10"):
        WHOLE.written(value)


def test_values_of_every_kind() -> None:
    assert (WHOLE.typed(" 10 "), WHOLE.written(1)) == (10, 1)
    assert (NUMBER.typed("1e3"), NUMBER.written(2), NUMBER.written(0.5)) == (1000.0, 2, 0.5)
    for bad in ("inf", "nan", "-1", "2e6"):
        with pytest.raises(ValueError, match="is not a number from 0 to 1,000,000"):
            NUMBER.typed(bad)
    assert (TEXTS.typed("a, b"), TEXTS.written(["a", "b"]), TEXTS.written("a")) == (("a, b",), ("a", "b"), ("a",))
    with pytest.raises(ValueError, match="a list is no list of texts"):
        TEXTS.written([1])
    assert BY_NAME["mouse"].typed("OFF") is False
    assert BY_NAME["colors"].typed("24bit") == "truecolor"


def test_every_definition_is_of_a_field_and_makes_sense() -> None:
    defaults = Settings()
    for definition in DEFINITIONS:
        value = getattr(defaults, definition.field)
        if value is None:
            assert definition.unset, definition.name
        else:
            assert definition.written(list(value) if isinstance(value, tuple) else value) == value
        assert not definition.option or definition.option == f"--{definition.name}"
        assert all(definition.typed(word) is not None for word in definition.words)
