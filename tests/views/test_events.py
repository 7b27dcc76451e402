"""Every event is a sentence that names who, why and the cost."""

from collections.abc import Iterator
from typing import Any

import pytest

from kvtop.protocol import Event, Gap
from kvtop.state import EngineState, LogEntry, Marker
from kvtop.state.engine_state import MAX_EVENTS
from kvtop.state.event_log import EventLog
from kvtop.views.events import event_role, event_rows, event_sentence, events_title, scrolled, shown_events, still_there
from kvtop.views.glyphs import ASCII
from kvtop.views.rows import Role
from tests.views.scene import LATER, MONO, check_rows, gauges_only, iteration, scene


def event(kind: str, **facts: Any) -> Event:
    return Event.model_validate({"id": 1, "kind": kind, "iteration": 7, "wall": 0.0} | facts)


PREEMPTION = event(
    "preempt", request=7, request_id="A-0007", by=11, by_id="B-0011", need_blocks=1, free_blocks=0, tokens=212,
    seconds=2.4, blocks=27,
)  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (
            PREEMPTION,
            "preempt A-0007 by B-0011: needed 1 block, 0 free → lost 212 tokens (2.4s), released 27 blocks",
        ),
        (
            event("preempt", request=7, cause="over-committed", uid=0, pid=9, tokens=1, blocks=1),
            "preempt #7 by uid 0 pid 9: over-committed → lost 1 token, released 1 block",
        ),
        (
            event("policy", axis="capacity", old="a", new="b", uid=1000, pid=42, cause="drained"),
            "policy capacity: a → b by uid 1000 pid 42; drained",
        ),
        (event("policy", axis="prefix_cache", old=True, new=False), "policy prefix_cache: on → off"),
        (
            event("admit", request_id="A-1", seconds=0.5, blocks=3, tokens=32),
            "admit A-1: waited 500ms, with 3 blocks, 32 tokens from the prefix cache",
        ),
        (
            event("finish", request_id="A-1", tokens=50, seconds=3, blocks=4, cause="stop"),
            "finish A-1: 50 output tokens, in 3.0s, released 4 blocks, stop",
        ),
        (event("abort", request_id="A-1", uid=5, blocks=4), "abort A-1 by uid 5: released 4 blocks"),
        (event("evict", blocks=3, by_id="A-1"), "evict 3 cached blocks for A-1"),
        (event("evict"), "evict cached blocks"),
        (event("ledger", severity="error", detail="block 3 twice"), "ledger: block 3 twice"),
        (event("prefix_reset", uid=1), "prefix reset by uid 1"),
        (event("warp", request=3, detail="engaged [bold]now"), "warp #3: engaged [bold]now"),
        (event("warp"), "warp"),
    ],
)
def test_sentences(entry: Event, sentence: str) -> None:
    assert event_sentence(entry) == sentence


def test_at_80_columns_a_preemption_still_names_victim_cause_and_cost() -> None:
    text = check_rows(event_rows(scene(), 80, 2), 80, 2).split("\n")
    assert text[0][9:] == "preempt A-0005 by B-0003: need 1, 0 free → lost 212 tok (2.4s), 27 blk "
    assert text[1][9:].startswith("policy capacity: guaranteed_no_evict → max_utilization by uid 1000")


def test_wide_rows_have_the_iteration_and_the_whole_sentence() -> None:
    text = check_rows(event_rows(scene(), 200, 2), 200, 2).split("\n")
    assert text[0][8:].startswith(" i12300 preempt A-0005 by B-0003: needed 1 block, 0 free")
    assert text[1].rstrip().endswith("by uid 1000 pid 4242")


def test_the_newest_is_last_and_scrolling_goes_back() -> None:
    state = scene()
    events = [event("notice", detail=f"n{i}").model_copy(update={"id": i}) for i in range(2, 20)]
    state.apply(iteration(15, MONO + 5, events=events), LATER)

    def details(**options: Any) -> list[str]:
        rows = check_rows(event_rows(state, 60, 3, **options), 60, 3).split("\n")
        return [row[9:].strip() for row in rows]

    assert details() == ["notice: n17", "notice: n18", "notice: n19"]
    at = scrolled(state, 3, True, None, 2)
    assert details(at=at) == ["notice: n15", "notice: n16", "notice: n17"]
    assert scrolled(state, 3, True, scrolled(state, 3, True, at, 1), -2) == scrolled(state, 3, True, None, 1)
    assert scrolled(state, 3, True, at, -2) is None
    assert details(at=scrolled(state, 3, True, at, 999))[0].startswith("preempt A-0005")


def test_what_one_reads_stays_where_it_is() -> None:
    """Evictions that come later are told as one with the last of those one reads, which would move or change them all."""
    state = scene()
    first = [event("notice", detail=f"n{i}").model_copy(update={"id": i}) for i in range(2, 12)]
    evictions = [event("evict", blocks=3, cause="room").model_copy(update={"id": i}) for i in range(12, 40)]
    state.apply(iteration(15, MONO + 5, events=[*first, *evictions[:2]]), LATER)
    at = scrolled(state, 3, True, None, 1)
    read = [row.text for row in event_rows(state, 60, 3, at=at)]
    last = [row.text for row in event_rows(state, 60, 3, at=state.events.newer(0))]
    assert "6 cached blocks" in last[-1]
    number = state.events.newer(0)
    for n, later in enumerate(evictions[2:], 1):
        state.apply(iteration(15 + n, MONO + 5 + n, events=[later]), LATER)
        assert [row.text for row in event_rows(state, 60, 3, at=at)] == read
        assert [row.text for row in event_rows(state, 60, 3, at=number)] == last
        assert state.events.newer(number) == n
    # One row on: all the evictions there are by now.
    assert scrolled(state, 3, True, at, -1) is None
    assert "84 cached blocks" in event_rows(state, 60, 3)[-1].text


def test_what_is_no_longer_kept_gives_way_to_the_oldest_that_is() -> None:
    state = scene(events=[])
    for n in range(1, MAX_EVENTS + 100):
        state.apply(
            iteration(15 + n, MONO + n, events=[event("notice", detail=f"n{n}").model_copy(update={"id": n})]), LATER
        )
    assert state.events.dropped()
    at = still_there(state, 3, True, 4)
    oldest = [row.text for row in event_rows(state, 60, 3, at=at)]
    assert f"n{state.events.newer(0) - MAX_EVENTS + 1} " in oldest[0] + " "
    assert scrolled(state, 3, True, at, 5) == at


def test_evictions_in_a_row_are_told_as_one_with_their_sum() -> None:
    state = scene(events=[])
    kinds = ("evict", "evict", "admit", "evict", "evict", "evict")
    events = [event(kind, blocks=i, cause="room").model_copy(update={"id": i}) for i, kind in enumerate(kinds)]
    state.apply(iteration(15, MONO + 5, events=events), LATER)
    sentences = [event_sentence(entry).split(" since")[0] for entry in shown_events(state)]
    assert sentences == [
        "evict 1 cached block: room; 2 times",
        "admit ?: with 2 blocks",
        "evict 12 cached blocks: room; 3 times",
    ]
    assert len(state.events) == 6


def test_without_routine_only_what_is_notable_is_left() -> None:
    kinds = ("admit", "preempt", "finish", "beam", "policy", "evict", "copy", "abort", "kv_switch", "ledger", "admit")
    state = scene(events=[event(kind).model_copy(update={"id": i}) for i, kind in enumerate(kinds)])
    left = [entry.kind for entry in shown_events(state, routine=False) if not isinstance(entry, Marker)]
    assert left == ["preempt", "policy", "abort", "kv_switch", "ledger"]


def test_rows_that_nothing_notable_needs_show_what_is_usual() -> None:
    kinds = ("admit", "preempt", "admit", "finish", "admit")
    state = scene(events=[event(kind, tokens=i).model_copy(update={"id": i}) for i, kind in enumerate(kinds)])
    shown = check_rows(event_rows(state, 80, 3, routine=False), 80, 3).split("\n")
    assert [row[9:].split()[0] for row in shown] == ["preempt", "finish", "admit"]
    shown = check_rows(event_rows(state, 80, 1, routine=False), 80, 1).split("\n")
    assert [row[9:].split()[0] for row in shown] == ["preempt"]


def test_frames_missed_stand_in_the_log_whatever_is_shown() -> None:
    state = scene()
    state.apply(Gap(first=15, last=24, events_lost=3), LATER)
    text = check_rows(event_rows(state, 100, 3, ASCII), 100, 3)
    assert "10 frames not shown (viewer too slow), 3 events lost" in text
    assert text.isascii()
    assert any(isinstance(entry, Marker) for entry in shown_events(state, routine=False))


def test_severity_shows() -> None:
    assert event_role(PREEMPTION) == Role.WARN
    assert event_role(event("ledger", severity="error")) == Role.BAD
    assert event_role(event("admit")) == Role.TEXT


def test_no_events_yet_is_not_the_same_as_not_exposed() -> None:
    assert check_rows(event_rows(scene(events=[]), 60, 2), 60, 2).startswith("no events yet")
    assert check_rows(event_rows(gauges_only(), 60, 2), 60, 2).startswith("events: not exposed by vllm")
    assert check_rows(event_rows(EngineState(), 60, 2), 60, 2).startswith("no events yet")


def test_the_title_counts_what_the_engine_counts() -> None:
    assert events_title(scene()) == "events: 3 preemptions, 7 evictions in all"
    assert events_title(gauges_only()) == "events"


def test_a_screen_of_events_reads_no_more_of_the_log_than_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    state = scene(events=[])
    kinds = ("admit", "preempt", "finish", "policy")
    events = [event(kinds[i % 4], tokens=i).model_copy(update={"id": i}) for i in range(4000)]
    state.apply(iteration(15, MONO + 5, events=events), LATER)
    read = 0
    numbered = EventLog.numbered

    def counted(self: EventLog, routine: bool = True, at: int | None = None) -> Iterator[tuple[int, LogEntry]]:
        nonlocal read
        for entry in numbered(self, routine, at):
            read += 1
            yield entry

    monkeypatch.setattr(EventLog, "numbered", counted)
    for routine in (True, False):
        for at in (None, scrolled(state, 10, routine, None, 7)):
            read = 0
            assert "preempt" in check_rows(event_rows(state, 80, 10, at=at, routine=routine), 80, 10)
            assert read <= 10 + 1
