import pytest

from kvtop.term.depth import ColourDepth, detect


@pytest.mark.parametrize(
    ("env", "depth"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, ColourDepth.TRUECOLOR),
        ({"TERM": "xterm-direct"}, ColourDepth.TRUECOLOR),
        ({"TERM": "xterm-256color"}, ColourDepth.INDEXED),
        ({"TERM": "tmux-256color"}, ColourDepth.INDEXED),
        ({"TERM": "xterm-ghostty"}, ColourDepth.INDEXED),
        ({"TERM": "alacritty"}, ColourDepth.INDEXED),
        ({"TERM": "screen"}, ColourDepth.ANSI16),
        ({"TERM": "linux"}, ColourDepth.ANSI16),
        ({"TERM": "vt100", "COLORTERM": "truecolor"}, ColourDepth.NONE),
        ({"TERM": "dumb"}, ColourDepth.NONE),
        ({}, ColourDepth.NONE),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, ColourDepth.NONE),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, ColourDepth.INDEXED),
    ],
)
def test_the_environment_tells_the_depth(env: dict[str, str], depth: ColourDepth) -> None:
    assert detect(env, isatty=True) is depth


def test_a_file_gets_no_colour() -> None:
    assert detect({"TERM": "xterm-256color"}, isatty=False) is ColourDepth.NONE
