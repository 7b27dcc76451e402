"""Merged frames have the effect of the single ones."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.protocol import Batch, Durations, RequestChange, decode_frame, encode, merge_frames, merge_request
from tests.publish.fold import Fold
from tests.publish.kit import frame
from tests.publish.stories import Story


@settings(max_examples=40)
@given(st.data())
def test_folding_merged_frames_equals_folding_single_ones(data: Any) -> None:
    story = Story(data.draw)
    single, merged = Fold(seq=0), Fold(seq=0)
    for _ in range(data.draw(st.integers(1, 3))):
        portion = [story.next() for _ in range(data.draw(st.integers(1, 4)))]
        for one in portion:
            single.apply(one)
        line = encode(merge_frames(portion))
        decoded = decode_frame(line)
        assert decoded is not None
        merged.apply(decoded)
        assert merged.facts() == single.facts()
    assert merged.events == single.events
    assert merged.prefill_tokens == single.prefill_tokens


@settings(max_examples=40)
@given(st.data())
def test_merging_in_two_steps_equals_merging_in_one(data: Any) -> None:
    story = Story(data.draw)
    frames = [story.next() for _ in range(data.draw(st.integers(2, 6)))]
    cut = data.draw(st.integers(1, len(frames) - 1))
    assert encode(merge_frames([merge_frames(frames[:cut]), merge_frames(frames[cut:])])) == encode(
        merge_frames(frames)
    )


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ((3, [7, 8]), (5, [9]), (3, [7, 8, 9])),  # appended twice
        ((3, [7, 8]), (4, [9]), (3, [7, 9])),  # cut within what was appended
        ((3, [7, 8]), (1, None), (1, [])),  # cut below it
        ((3, [7, 8]), (0, [1]), (0, [1])),  # begun anew
        ((3, [7, 8]), (None, None), (3, [7, 8])),  # untouched
        ((None, None), (2, [9]), (2, [9])),
    ],
)
def test_block_tables_of_two_changes(old: Any, new: Any, want: Any) -> None:
    merged = merge_request(
        RequestChange(num=1, table_at=old[0], table=old[1]), RequestChange(num=1, table_at=new[0], table=new[1])
    )
    assert (merged.table_at, merged.table) == want


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        (
            {"output_at": 3, "output_more": "ab"},
            {"output_at": 5, "output_more": "c"},
            {"output_at": 3, "output_more": "abc"},
        ),
        (
            {"output_at": 3, "output_more": "ab"},
            {"output_at": 4, "output_more": "c"},
            {"output_at": 3, "output_more": "ac"},
        ),
        (
            {"output_at": 3, "output_more": "ab"},
            {"output_at": 0, "output_more": "c"},
            {"output_at": 0, "output_more": "c"},
        ),
        ({"output_at": 3, "output_more": "ab"}, {"output_text": "new"}, {"output_text": "new"}),
        (
            {"output_text": "new"},
            {"output_at": 3, "output_more": "s"},
            {"output_text": "new", "output_at": 3, "output_more": "s"},
        ),
        (
            {"text_ends_at": 1, "text_ends": [7]},
            {"text_ends_at": 2, "text_ends": [9]},
            {"text_ends_at": 1, "text_ends": [7, 9]},
        ),
    ],
)
def test_texts_of_two_changes(old: Any, new: Any, want: Any) -> None:
    merged = merge_request(RequestChange(num=1, **old), RequestChange(num=1, **new))
    assert merged.model_dump(exclude_none=True) == {"num": 1, **want}


def test_durations_and_tokens_are_sums_and_requests_are_of_the_latest() -> None:
    merged = merge_frames(
        [
            frame(1, durations=Durations(forward=2.0), batch=Batch(decode_tokens=3, decode_requests=3)),
            frame(2, durations=Durations(forward=5.0), batch=Batch(decode_tokens=4, decode_requests=4)),
        ]
    )
    assert merged.merged == 2
    assert merged.durations.forward == 7.0
    assert merged.batch == Batch(decode_tokens=7, decode_requests=4)


def test_a_part_that_an_engine_does_not_tell_stays_untold() -> None:
    untold, told = (frame(n, durations=Durations(forward=1.0, prepare=p)) for n, p in ((1, None), (2, 0.5)))
    assert merge_frames([untold, untold.model_copy(update={"seq": 2})]).durations.prepare is None
    assert merge_frames([untold, told]).durations.prepare == 0.5
