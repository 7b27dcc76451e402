"""``kvtop config``, and options, variables and files of settings as commands take them."""

import json
from pathlib import Path

import pytest

from kvtop.app.app import KvtopApp
from kvtop.app.app import run as show
from kvtop.cli import build_parser, run
from kvtop.commands import attach
from kvtop.commands.preferences import preferences
from kvtop.commands.settings_options import chosen
from kvtop.errors import UserError
from kvtop.settings.definitions import BY_NAME
from kvtop.settings.resolve import Chosen
from kvtop.term.depth import ColourDepth
from kvtop.term.paper import Paper
from kvtop.term.theme import THEMES
from kvtop.views.glyphs import ASCII
from tests.app.sources import HandFedSource
from tests.cli.fakes import FakeEngine
from tests.cli.run import assert_one_line, kvtop


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own, where it is looked for."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "kvtop" / "config.toml"
    path.parent.mkdir()
    path.write_text(
        'theme = "light"\n[keys]\nrequests.abort = "d"\n[profiles.p]\nmouse = false\nkeys.events.kinds = "Y"\n'
    )
    return path


def choice(*words: str) -> Chosen:
    return chosen(build_parser().parse_args(words))


def test_an_engine_of_the_settings_is_meant_where_none_is_named(
    folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder))
    file.write_text("\nengine = 'prod'")
    for words, says in (
        (["attach"], f"{file}:2: engine: no engine named prod is running"),
        ([], f"{file}:2: engine: no engine named prod is running"),
        (["attach", "other"], "no engine named other is running"),
        (["attach", "--no-config"], "no engine is running"),
    ):
        with pytest.raises(UserError) as caught:
            run(words)
        assert caught.value.message == says
    with FakeEngine(folder, "prod"), FakeEngine(folder, "other"):
        for words, name in ((["attach"], "prod"), (["attach", "other"], "other")):
            met = attach.found_engine(build_parser().parse_args(words).target, choice(*words))
            assert met.name == name


def test_every_theme_that_may_be_set_is_there() -> None:
    assert tuple(THEMES) == BY_NAME["theme"].choices
    assert {"auto", *(depth.value for depth in ColourDepth)} == set(BY_NAME["colors"].choices)


def test_options_stand_before_or_behind_the_command_and_the_inner_goes_first(file: Path) -> None:
    for words in (["--theme", "dark", "attach"], ["attach", "--theme", "dark"], ["--light", "demo", "--dark"]):
        held = choice(*words)
        assert (held.settings.theme, held.places["theme"]) == ("dark", "--theme")
    assert choice("attach").settings.theme == "light"
    assert choice("attach", "--no-config").settings.theme == "auto"
    assert choice("--no-ascii", "attach", "--ascii").settings.ascii is True
    with pytest.raises(UserError, match="not allowed with"):
        choice("attach", "--dark", "--theme", "light")


def test_a_file_is_named_by_option_before_variable(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("colors = 16")
    other.write_text("colors = 256")
    monkeypatch.setenv("KVTOP_CONFIG", str(one))
    assert choice().settings.colors == "16"
    assert choice("--config", str(other)).settings.colors == "256"
    monkeypatch.setenv("KVTOP_CONFIG", "")
    assert choice().settings.theme == "light"
    with pytest.raises(UserError, match="No such file"):
        choice("--config", str(tmp_path / "none"))


def test_the_screen_gets_what_was_chosen(file: Path) -> None:
    wanted = preferences(choice("--profile", "p", "--colors", "16", "--ascii"))
    assert (wanted.theme.paper, wanted.depth, wanted.mouse, wanted.ascii_only) == (
        Paper.LIGHT,
        ColourDepth.ANSI16,
        False,
        True,
    )
    assert (wanted.keymap.key("requests", "abort"), wanted.keymap.key("events", "kinds")) == ("d", "Y")
    file.write_text('snapshot-folder = "~/incidents"')
    assert preferences(choice()).snapshot_folder == Path.home() / "incidents"
    assert preferences(choice()).depth is None


def test_the_app_is_made_and_run_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mouse is left alone, and the glyphs are those there are."""
    ran: list[tuple[KvtopApp, bool]] = []
    monkeypatch.setattr(KvtopApp, "run", lambda app, *, mouse: ran.append((app, mouse)))
    show(
        HandFedSource(),
        preferences=preferences(
            choice("--mouse", "off", "--ascii", "--colors", "16", "--theme", "high-contrast-light")
        ),
    )
    ((app, mouse),) = ran
    assert mouse is False
    assert app.ascii_only
    assert app.engines[0].glyphs is ASCII
    assert (app.depth, app.palette.paper, app.palette.strong) == (ColourDepth.ANSI16, Paper.LIGHT, True)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ('\nrequests.abor = "d"', "3: keys.requests.abor: no such action; did you mean requests.abort?"),
        ('"requests.abort" = "q"', "2: keys.requests.abort: q would mean both everywhere.quit and requests.abort"),
        ('requests.abort = ["d",\n "d"]', "2: keys.requests.abort: has the same key twice"),
        ("requests.abort = 1", "2: keys.requests.abort: needs a key or a list of keys, not 1"),
        ('requests.abort = "ctrl+c"', "2: keys.requests.abort: ctrl+c always does what it does"),
    ],
)
def test_keys_that_cannot_be_are_told_with_file_and_line(file: Path, keys: str, says: str) -> None:
    file.write_text(f"[keys]\n{keys}\n")
    for words in (["config"], ["config", "--check", str(file)]):
        with pytest.raises(UserError) as caught:
            run(words)
        assert caught.value.message.startswith(f"{file}:{says}")
        assert caught.value.code == 2


def test_a_check_looks_at_every_profile(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "--check", str(file)]) == 0
    assert "as it should be" in capsys.readouterr().out
    file.write_text(file.read_text() + "[profiles.q.keys]\nrequests.pin = 'd'\n")
    assert run(["config"]) == 0
    with pytest.raises(UserError, match="d would mean both") as caught:
        run(["config", "--check", str(file)])
    assert f"{file}:8: " in caught.value.message


def test_of_two_that_get_one_key_the_profile_is_named(file: Path) -> None:
    file.write_text("[keys]\nrequests.abort = 'd'\nrequests.pin = 'D'\n[profiles.p.keys]\nrequests.abort = 'D'\n")
    with pytest.raises(UserError) as caught:
        run(["config", "--profile", "p"])
    assert caught.value.message.startswith(f"{file}:5: keys.requests.abort: D would mean both")


def test_it_shows_what_holds_and_why(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVTOP_COLOR", "256")
    run(["config", "--profile", "p", "--ascii"])
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert rows["file:"] == [str(file)]
    assert rows["theme"] == ['"light"', f"{file}:1"]
    assert rows["colors"] == ['"256"', "KVTOP_COLOR"]
    assert rows["ascii"] == ["true", "--ascii"]
    assert rows["mouse"] == ["false", f"{file}:5"]
    assert rows["engine"][-1] == "default"
    assert rows["keys.events.kinds"] == ['"Y"', f"{file}:6"]
    run(["config", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["settings"]["theme"] == {"value": "light", "from": f"{file}:1"}
    assert document["keys"]["requests.abort"] == {"value": "d", "from": f"{file}:3"}
    run(["--no-config", "config"])
    assert "none; it would be" in capsys.readouterr().out
    file.write_text(file.read_text() + "[profiles.'$(id) x']\n")
    run(["config", "--profiles"])
    assert capsys.readouterr().out == "p\n"
    file.write_text("colour = 3")
    assert run(["config", "--profiles"]) == 0
    assert capsys.readouterr().out == ""
    run(["config", "--example"])
    assert "# theme = " in capsys.readouterr().out


def test_a_wrong_file_stops_the_screen_before_anything_starts_and_nothing_else(
    folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder))
    file.write_text('theme = "light"\n\ncolour = 3\n')
    says = f"{file}:3: colour: no such key; did you mean colors?"
    for words in (["attach"], ["demo", "--model", "random"], ["replay", "x"], ["config"], []):
        with pytest.raises(UserError) as caught:
            run(words)
        assert caught.value.message == says, words
    assert list(folder.iterdir()) == []
    assert run(["ls"]) == 0
    assert_one_line(kvtop(folder, "attach"), 2, says, "--no-config")
    with pytest.raises(UserError, match=r"--theme: 'pink' is not one of auto, dark"):
        run(["attach", "--theme", "pink"])
