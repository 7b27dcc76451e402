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
        ({"TERM": "dumb", "KVTOP_COLOR": "256"}, ColourDepth.INDEXED),
        ({"TERM": "xterm-256color", "NO_COLOR": "1", "KVTOP_COLOR": "16"}, ColourDepth.ANSI16),
        ({"TERM": "screen", "KVTOP_COLOR": "24bit"}, ColourDepth.TRUECOLOR),
        ({"TERM": "screen", "KVTOP_COLOR": "auto"}, ColourDepth.ANSI16),
        ({"TERM": "screen", "KVTOP_COLOR": "none"}, ColourDepth.NONE),
    ],
)
def test_the_environment_tells_the_depth(env: dict[str, str], depth: ColourDepth) -> None:
    assert detect(env, isatty=True) is depth


def test_a_file_gets_no_colour() -> None:
    assert detect({"TERM": "xterm-256color"}, isatty=False) is ColourDepth.NONE


def test_a_misspelt_depth_is_named_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="KVTOP_COLOR must be auto, truecolor, 256, 16 or none, not lots"):
        detect({"KVTOP_COLOR": "lots"}, isatty=True)
