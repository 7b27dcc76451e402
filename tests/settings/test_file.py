"""Files of settings: every mistake is one line with the file and the line it is on."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.errors import UserError
from kvtop.settings.definitions import BY_NAME, DEFINITIONS, Settings
from kvtop.settings.document import example
from kvtop.settings.file import LARGEST_BYTES, default_path, parse, read_file

WHOLE = """\
# what holds
theme = "light"
colors = 256          # the number is a word, too
keys = { "requests.abort" = "d", requests.pin = ["p", "f5"] }

[profiles.night]
theme = 'HIGH-contrast'
ascii = true
[profiles.night.keys.requests]
abort = "D"
"""


def test_a_file_says_what_it_sets_and_on_which_lines() -> None:
    file = parse(WHOLE, "c.toml")
    assert {name: (given.value, given.place) for name, given in file.top.values.items()} == {
        "theme": ("light", "c.toml:2"),
        "colors": ("256", "c.toml:3"),
    }
    assert {id: (given.keys, given.place) for id, given in file.top.keys.items()} == {
        "requests.abort": ("d", "c.toml:4"),
        "requests.pin": (["p", "f5"], "c.toml:4"),
    }
    night = file.profiles["night"]
    assert {name: (given.value, given.place) for name, given in night.values.items()} == {
        "theme": ("high-contrast", "c.toml:7"),
        "ascii": (True, "c.toml:8"),
    }
    assert night.keys["requests.abort"].place == "c.toml:10"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\n\ncolour = 1\n", "3: colour: no such key; did you mean colors?"),
        ("zzz = 1", "1: zzz: no such key"),
        ("[them]\n", "1: them: no such key; did you mean theme?"),
        ('[profiles.a]\ntheme = "dark"\nprofile = "b"\n', "3: profiles.a.profile: no such key"),
        ('theme = "pink"', "1: theme: 'pink' is not one of auto, dark, light, high-contrast"),
        ("theme = 1", "1: theme: '1' is not one of"),
        ("theme = [1]", "1: theme: a list is not one of"),
        ("colors = true", "1: colors: true is not one of auto, none, 16"),
        ("colors = 17", "1: colors: '17' is not one of"),
        ("\nmouse = 1", "2: mouse: 1 is not on or off"),
        ('mouse = "maybe"', "1: mouse: 'maybe' is not on or off"),
        ("mouse = 1979-05-27", "1: mouse: 1979-05-27 is not on or off"),
        ('engine = ""', "1: engine: needs a printable text"),
        ('engine = "a\\u001b[m"', "1: engine: needs a printable text"),
        ("engine = 'A'\nprofiles = 3", "2: profiles: is a table: [profiles]"),
        ("[profiles]\na = 3", "2: profiles.a: is a table: [profiles.a]"),
        ('[profiles."\\n"]', "1: profiles. : needs a printable text"),
        ("keys = 3", "1: keys: is a table: [keys]"),
        ("[[keys]]", "1: keys: is a table: [keys]"),
        ("theme = 'dark'\n\ntheme =", "3: Invalid value"),
        ("a = 1\nb = [\n1,\n", "3: "),
        ("a = 1\nb = '", "2: "),
        ("theme = 'dark'\nmouse = true\ntheme = 'light'\n", "3: theme: is there already, on line 1"),
        ("[keys]\n'a.b' = 'x'\n\n'a.b' = 'y'", "4: keys.a.b: is there already, on line 2"),
        ("[keys]\nx.y = 'x'\n[keys]\n", "3: keys: is there already, on line 1"),
        ("[keys]\nx.y = 'x'\nx = 'y'\n", "3: keys.x: is there already"),
        ("mouse = " + "1" * 5000, "Exceeds the limit"),
        ("mouse = " + "1" * 200, "1: mouse: a number of so many digits is not on or off"),
        ("mouse = " + "[" * 5000 + "]" * 5000, "is nested too deep"),
        ("theme = '" + "x" * 500 + "'", "1: theme: 'xxxx"),
        ("\n" + "a." * 30_000 + "a = 1", "2: is nested too deep"),
        ("[keys]\n" + "'a' . " * 10_000 + "a = 1", "2: is nested too deep"),
        ("a = {" + "a." * 30_000 + "a = 1}", "1: is nested too deep"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_with_its_place(text: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text, "c.toml")
    assert caught.value.message.startswith("c.toml:")
    assert says in caught.value.message
    assert len(caught.value.message) < 250
    assert caught.value.message.isprintable()
    assert caught.value.code == 2
    assert "--no-config" in caught.value.hint


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert read_file(str(path), must_exist=False) is None
    assert read_file(str(path / "x"), must_exist=False) is None

    def says(words: str, name: Path = path) -> None:
        for must in (True, False):
            with pytest.raises(UserError, match=words) as caught:
                read_file(str(name), must_exist=must)
            assert caught.value.code == 2

    with pytest.raises(UserError, match="No such file"):
        read_file(str(path))
    path.symlink_to(tmp_path / "gone")
    says("No such file")
    path.unlink()
    path.mkdir()
    says("is a folder")
    path.rmdir()
    os.mkfifo(path)
    says("is no regular file")
    path.unlink()
    says("is no regular file", Path("/dev/zero"))
    path.write_bytes(b"#" * (LARGEST_BYTES + 1))
    says("larger than 64 KiB")
    path.write_bytes(b"theme = 'dark'\n\n# \xff\n")
    says(r"config\.toml:3: is not UTF-8: byte 0xff")
    path.write_bytes(b"\xef\xbb\xbftheme = 'dark'\r\n")
    file = read_file(str(path))
    assert file is not None
    assert file.top.values["theme"].value == "dark"
    if os.getuid() != 0:
        path.chmod(0)
        says("Permission denied")


def test_no_command_is_taken_from_a_file_that_everybody_may_write(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("theme = 'dark'\n[profiles.p]\non-alarm = 'mail me'\n")
    path.chmod(0o664)
    file = read_file(str(path))
    assert file is not None
    assert file.profiles["p"].values["on-alarm"].value == "mail me"
    path.chmod(0o666)
    with pytest.raises(UserError, match=r"config\.toml:3: profiles\.p\.on-alarm: a command is not taken"):
        read_file(str(path))
    path.write_text("theme = 'dark'")
    assert read_file(str(path)) is not None


@given(st.text(st.sampled_from("thmeclorskyp=.[]{}'\"\n #1truef"), max_size=60))
def test_whatever_it_holds_it_is_read_or_refused(text: str) -> None:
    said: list[str] = []
    try:
        parse(text, "c.toml")
    except UserError as error:
        said = [error.message]
    assert all(re.match(r"c\.toml(:\d+)?: ", line) for line in said)


def test_the_usual_place_is_that_of_the_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert default_path({"XDG_CONFIG_HOME": "/etc/mine"}) == "/etc/mine/kvtop/config.toml"
    for relative in ({}, {"XDG_CONFIG_HOME": ""}, {"XDG_CONFIG_HOME": "here"}):
        assert default_path(relative) == "/home/me/.config/kvtop/config.toml"


def test_the_file_to_begin_with_sets_nothing_and_may_be_made_to_set_everything() -> None:
    file = parse(example(), "c.toml")
    assert (file.top.values, file.top.keys) == ({}, {})
    all_set = parse(re.sub(r"(?m)^# (?=[\w.-]+ = )", "", example()), "c.toml")
    assert set(all_set.top.values) == set(BY_NAME)
    for definition in DEFINITIONS:
        if definition.default is not None:
            assert all_set.top.values[definition.name].value == getattr(Settings(), definition.field)
