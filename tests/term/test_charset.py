"""What the locale says of the terminal, and ASCII of the same width for what it cannot show."""

import unicodedata
from pathlib import Path

import pytest

from kvtop.term.charset import NEAREST, first_environment, speaks_utf8


@pytest.mark.parametrize(
    ("env", "utf8"),
    [
        ({}, False),
        ({"LANG": ""}, False),
        ({"LANG": "C"}, False),
        ({"LANG": "C.UTF-8"}, True),
        ({"LANG": "de_DE.utf8"}, True),
        ({"LANG": "de_DE@euro"}, False),
        ({"LANG": "en_US.ISO-8859-1"}, False),
        ({"LC_CTYPE": "UTF-8"}, True),
        ({"LC_CTYPE": "C", "LANG": "en_US.UTF-8"}, False),
        ({"LC_ALL": "POSIX", "LC_CTYPE": "C.UTF-8", "LANG": "C.UTF-8"}, False),
        ({"LC_ALL": "", "LANG": "C.UTF-8"}, True),
        ({"LANG": "C", "PYTHONUTF8": "1"}, True),
        ({"LANG": "C.UTF-8", "PYTHONUTF8": "0"}, True),
        ({"LANG": "C", "PYTHONIOENCODING": "utf-8:replace"}, True),
        ({"LANG": "C.UTF-8", "PYTHONIOENCODING": "latin-1"}, False),
        ({"LANG": "C.UTF-8", "PYTHONIOENCODING": ":replace"}, True),
        ({"LANG": "\x00nonsense"}, False),
    ],
)
def test_what_the_environment_says_of_the_terminal(env: dict[str, str], utf8: bool) -> None:
    assert speaks_utf8(env) is utf8


def test_the_environment_is_that_of_the_start(tmp_path: Path) -> None:
    given = tmp_path / "environ"
    given.write_bytes(b"LANG=C\0EMPTY=\0ODD=\xff\0NO_EQUALS\0")
    env = first_environment(given)
    assert (env["LANG"], env["EMPTY"], env["NO_EQUALS"]) == ("C", "", "")
    assert "LC_CTYPE" not in env
    assert first_environment(tmp_path / "none")  # where the system does not tell: as it is now


def test_what_ascii_lacks_keeps_its_width() -> None:
    for text, ascii_text in (
        ("┌─┐│└┘├", "+-+|+++"),
        ("█▌▀░", "####"),
        ("3–5 ms · → x", "3-5 ms . > x"),
        ("naïve café", "naive cafe"),
        ("日本", "????"),
        ("e\u0301", "e"),
        ("\udcff", "?"),
        ("ﬁ", "?"),
    ):
        assert text.encode("ascii", NEAREST).decode() == ascii_text
    for code in range(0x80, 0x3000):
        char = chr(code)
        if unicodedata.category(char) not in ("Cc", "Cn", "Mn", "Me", "Cf"):
            width = 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
            assert len(char.encode("ascii", NEAREST)) == width, f"U+{code:04X}"
