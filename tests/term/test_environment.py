import os
import subprocess
import sys

from kvtop.term.environment import DEFAULTS, prepare_environment


def test_what_the_user_set_stays() -> None:
    environ = {"TEXTUAL_FPS": "30"}
    prepare_environment(environ)
    assert environ["TEXTUAL_FPS"] == "30"
    assert environ["TEXTUAL_SMOOTH_SCROLL"] == DEFAULTS["TEXTUAL_SMOOTH_SCROLL"] == "0"


def test_switches_for_developers_are_without_effect() -> None:
    """One presses keys, which here might end an engine; another, mistaken, ended the screen with a KeyError."""
    code = (
        "from kvtop.term.environment import prepare_environment; prepare_environment();"
        "from textual import constants as c; from textual.app import App;"
        "print(repr((c.PRESS, c.SHOW_RETURN, c.LOG_FILE, c.DRIVER, c.SCREENSHOT_DELAY, c.FILTERS, c.DEBUG)),"
        "App().console.color_system or 'none')"
    )
    names = ("PRESS", "LOG", "DRIVER", "FILTERS", "COLOR_SYSTEM", "THEME")
    switches = {f"TEXTUAL_{name}": "q" for name in names} | {
        f"TEXTUAL_{name}": "1" for name in ("SHOW_RETURN", "SCREENSHOT", "DEBUG")
    }
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **switches, "TEXTUAL": "debug,devtools"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("('', False, None, None, -1, '', False)")


def test_depth_and_environment_can_be_asked_without_textual() -> None:
    code = (
        "import sys, kvtop.term.depth, kvtop.term.environment; print({'textual', 'rich', 'numpy'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "set()"


def test_textual_and_the_collector_take_the_settings() -> None:
    code = (
        "from kvtop.term.environment import prepare_environment, settle_gc; prepare_environment(); settle_gc();"
        "import gc; from textual import constants;"
        "print(constants.MAX_FPS, constants.SMOOTH_SCROLL, gc.get_freeze_count() > 0, gc.get_threshold()[0])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.split() == [DEFAULTS["TEXTUAL_FPS"], "False", "True", "100000"]
