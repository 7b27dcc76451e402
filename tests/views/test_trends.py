"""Sparklines: what they show of the past, and that they say so where it is not known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.protocol import Counters, Gauges, Queue
from kvtop.state import EngineState
from kvtop.views.glyphs import ASCII, UNICODE
from kvtop.views.spark import braille, folded, spark, top_of
from kvtop.views.trends import trend_row
from tests.views.scene import MONO, NOW, check_rows, gauges_only, iteration, keyframe, scene

NAN = float("nan")


def seen(seconds: int) -> EngineState:
    """An engine that was watched for so long: KV fills up, the queue grows, and preemptions begin half-way."""
    state = scene(blocks=None, requests=None)
    for step in range(5, seconds):
        late = step > seconds // 2
        state.apply(
            iteration(
                10 + step,
                MONO + step,
                gauges=Gauges(kv_blocks_active=min(52, step), kv_blocks_shared=0, kv_blocks_free=60 - min(52, step)),
                queue=Queue(order=[], total=step),
                counters=Counters(decode_tokens=5_000 + 20 * step, preemptions=3 + (step if late else 0)),
            ),
            NOW + step,
        )
    return state


@pytest.mark.parametrize(("width", "window"), [(60, "2m"), (80, "2m"), (120, "5m"), (200, "10m")])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_all_trends_stand_in_a_row_at_every_width(width: int, window: str, glyphs: object) -> None:
    text = check_rows([trend_row(seen(400), width, NOW + 399, glyphs)], width, 1)  # type: ignore[arg-type]
    assert text.startswith(f"{window} KV ")
    assert text.index("KV") < text.index("q") < text.index("/s") < text.index("pre")
    if width >= 80:
        assert "queue" in text
        assert " 398 " in text, "the top of the queue"
        assert " 20.0 " in text, "tokens a second"
    assert glyphs is UNICODE or text.isascii()


def test_a_line_climbs_as_what_it_shows_does() -> None:
    queue = trend_row(seen(121), 80, NOW + 120).text.split("queue ")[1][:8]
    assert queue == "".join(sorted(queue, key=UNICODE.ramp.index)), queue
    assert queue[-1] == "█"


def test_less_seen_is_a_shorter_window() -> None:
    assert trend_row(seen(60), 200, NOW + 59).text.startswith("2m")
    assert trend_row(seen(200), 200, NOW + 199).text.startswith("5m")


def test_what_is_not_exposed_or_not_seen_is_no_zero() -> None:
    state = gauges_only()
    text = trend_row(state, 80, NOW + 60).text
    assert "–" in text.split("pre/min")[1]
    assert "_" not in text, "nothing was ever told of a second"
    assert "_" not in trend_row(EngineState(), 80, NOW).text


def test_an_idle_engine_that_is_silent_goes_on_at_nothing() -> None:
    state = scene(status=keyframe().status.model_copy(update={"state": "idle"}), blocks=None, requests=None)
    text = trend_row(state, 80, NOW + 124).text
    assert text.split("tok/s ")[1].startswith("_______"), text
    assert trend_row(scene(blocks=None), 80, NOW + 124).text.split("tok/s ")[1].startswith("       ")


@given(st.lists(st.one_of(st.just(NAN), st.floats(0, 1e18)), max_size=50), st.floats(1e-6, 1e18), st.integers(1, 9))
def test_cells_are_as_many_as_values_and_nothing_is_told_apart_from_unknown(
    values: list[float], top: float, each: int
) -> None:
    array = np.array(values)
    text = spark(array, top, UNICODE)
    assert len(text) == len(values)
    for cell, value in zip(text, values, strict=True):
        assert (cell == " ") == (value != value)
        assert (cell == UNICODE.ramp[0]) == (value == 0)
    assert len(braille(array, top)) == (len(values) + 1) // 2
    for fold in ("most", "mean"):
        groups = folded(array, each, fold)  # type: ignore[arg-type]
        assert len(groups) == -(-len(values) // each)
        known = top_of(array)
        assert known is None or top_of(groups) is not None
        assert known is None or top_of(groups) <= known * (1 + 1e-9)  # type: ignore[operator]


def test_braille_has_two_values_in_a_cell() -> None:
    assert braille(np.array([1.0, 1.0, 0.0, 0.0, NAN, NAN, 0.5, NAN]), 1.0) == "⣿_ ⡄"
