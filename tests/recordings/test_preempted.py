"""Who was preempted, by the index alone: the same as the events say, up to the moment asked for, run by run."""

from collections import Counter

import pytest

from kvtop.protocol import Event, IterationFrame
from kvtop.record import Place, Recording
from kvtop.record.preempted import preempted
from kvtop.views.preempted import preempted_head, preempted_row, preempted_title
from tests.recordings.kit import recording, told


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    said = (*told(900, seed=9), *told(900, seed=9, run="run-2"))
    return Recording(recording(tmp_path_factory.mktemp("preempted") / "a.kvtop", said))


def events(until: int | None = None) -> list[Event]:
    frames = [frame for _, frame in told(900, seed=9) if isinstance(frame, IterationFrame)]
    return [e for f in frames if until is None or f.seq <= until for e in f.events if e.kind == "preempt"]


def test_it_is_what_the_events_say(tape: Recording) -> None:
    found, left_out = preempted(tape)
    assert left_out == 0
    assert len(events()) > 3
    for run in (0, 1):
        mine = {request.name: request for request in found if request.first.run == run}
        assert {name: request.times for name, request in mine.items()} == Counter(e.request_id for e in events())
        for name, request in mine.items():
            own = [event for event in events() if event.request_id == name]
            assert request.tokens == sum(event.tokens or 0 for event in own)
            assert request.by == Counter(event.by_id for event in own)
            assert (request.first_wall, request.last_wall) == (own[0].wall, own[-1].wall)
    assert [request.times for request in found] == sorted((r.times for r in found), reverse=True)


def test_only_up_to_the_moment(tape: Recording) -> None:
    frames = [frame.seq for _, frame in told(900, seed=9) if isinstance(frame, IterationFrame)]
    for seq in frames[::150]:
        found, _ = preempted(tape, Place(0, seq))
        assert sum(request.times for request in found) == len(events(seq))


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_rows_keep_their_width(tape: Recording, width: int) -> None:
    found, _ = preempted(tape)
    found[0].name = "[b]\x1b" * 30
    rows = [preempted_head(width), *(preempted_row(request, width, chosen=at == 1) for at, request in enumerate(found))]
    assert {len(row.text) for row in rows} == {len(row.roles) for row in rows} == {width}
    assert "\x1b" not in "".join(row.text for row in rows)
    assert "3 events not in the index" in preempted_title(found, 3)
