import subprocess
import sys

from kvtop.term.environment import DEFAULTS, prepare_environment


def test_what_the_user_set_stays() -> None:
    environ = {"TEXTUAL_FPS": "30"}
    prepare_environment(environ)
    assert environ["TEXTUAL_FPS"] == "30"
    assert environ["TEXTUAL_SMOOTH_SCROLL"] == DEFAULTS["TEXTUAL_SMOOTH_SCROLL"] == "0"


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
