"""Outputs as a stream that another thread reads, and requests that come from any thread."""

import gc
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from engine.requests.stopping import StopRules
from engine.requests.stream import Output, OutputStream, Usage
from engine.serving.inbox import EngineStopped
from tests.engine.serving.faulty import LETTERS, Served

PATIENCE = 60.0
"""Seconds until a test that waits for another thread gives up."""


def letters(tokens: tuple[int, ...]) -> str:
    assert LETTERS.token_bytes is not None
    return b"".join(map(LETTERS.token_bytes, tokens)).decode()


class Threaded(Served):
    """Served by a thread of its own until `close`."""

    def __init__(self, **policies: object) -> None:
        super().__init__(256, **policies)
        self.kept.wait = lambda seconds: time.sleep(0.001)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def close(self) -> None:
        self.server.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


@pytest.fixture
def serving() -> Iterator[Threaded]:
    it = Threaded(max_running=8)
    it.thread.start()
    yield it
    it.close()


def test_many_threads_submit_and_each_reads_its_own_outputs(serving: Threaded) -> None:
    alone = Served(256)
    wanted = {}
    for i in range(24):
        handle = alone.submit([i, i + 1, i + 2], 5 + i % 4)
        alone.run_out()
        wanted[i] = handle.result(0.0)[0].token_ids
    got: dict[int, list[Output]] = {}

    def client(first: int) -> None:
        for i in range(first, 24, 6):
            got[i] = list(serving.submit([i, i + 1, i + 2], 5 + i % 4, label=f"c{first}"))

    threads = [threading.Thread(target=client, args=(first,), daemon=True) for first in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(got) == list(range(24))
    for i, pieces in got.items():
        tokens = tuple(token for piece in pieces for token in piece.token_ids)
        assert tokens == wanted[i]
        assert "".join(piece.text for piece in pieces) == letters(tokens)
        assert [piece.finish_reason for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
        assert (pieces[-1].finish_reason, pieces[-1].usage) == ("length", Usage(3, 0, len(tokens)))


def test_the_engine_never_waits_for_a_reader_and_nothing_is_lost() -> None:
    it = Served(256)
    handle = it.submit([1, 2, 3], 50)
    it.run_out()
    assert len(it.server._outlets) == 0, "the engine has forgotten it"
    output = handle.get(0.0)
    assert output is not None
    assert (len(output.token_ids), output.finish_reason) == (50, "length")
    assert output.text == letters(output.token_ids)
    assert handle.get(0.0) is None
    assert list(handle) == []


def test_outputs_come_token_by_token_to_who_reads_them_in_time() -> None:
    it = Served()
    handle = it.submit([1, 2, 3], 4)
    seen = []
    for _ in range(4):
        it.turn()
        piece = handle.get(0.0)
        assert piece is not None
        seen.append((len(piece.token_ids), len(piece.text), piece.finish_reason))
    assert seen == [(1, 1, None)] * 3 + [(1, 1, "length")]
    with pytest.raises(TimeoutError, match=r"no output for 0.01 s"):
        it.submit([1], 1).get(0.01)


def test_each_sample_has_an_index_and_its_own_end() -> None:
    it = Served()
    handle = it.submit([1, 2, 3], 6, n=3)
    it.run_out()
    outputs = handle.result(0.0)
    assert [output.index for output in outputs] == [0, 1, 2]
    assert len({output.token_ids for output in outputs}) == 3
    for output in outputs:
        assert output.text == letters(output.token_ids)
        assert output.usage is not None
        assert output.usage.output_tokens == 6


def test_beams_come_when_the_search_is_over_best_first() -> None:
    it = Served()
    handle = it.submit([1, 2, 3], 6, beam=3)
    it.turn(3)
    with pytest.raises(TimeoutError):
        handle.get(0.0)
    it.run_out()
    outputs = handle.result(0.0)
    beam = handle.request.beam
    assert beam is not None
    assert [list(output.token_ids) for output in outputs] == [m.token_ids[3:] for m in beam.members]
    scores = [member.score or 0.0 for member in beam.members]
    assert scores == sorted(scores, reverse=True)
    assert [output.text for output in outputs] == [letters(output.token_ids) for output in outputs]


@pytest.mark.parametrize("group", [{}, {"n": 3}, {"beam": 3}], ids=str)
@pytest.mark.parametrize("turns", [0, 1, 3])
def test_who_cancels_gets_what_there_was_and_the_rest_goes_on(group: dict[str, int], turns: int) -> None:
    it = Served()
    handle, other = it.submit([1, 2, 3], 20, **group), it.submit([4, 5, 6], 20)
    it.turn(turns)
    handle.cancel()
    handle.cancel()
    it.turn()
    outputs = handle.result(0.0)
    assert [output.finish_reason for output in outputs] == ["abort"] * (group.get("n") or group.get("beam") or 1)
    assert {output.detail for output in outputs} == {"cancelled by its client"}
    assert {event.request for event in it.events("abort")} <= set(range(3))
    it.run_out()
    handle.cancel()
    it.turn()
    (output,) = other.result(0.0)
    assert output.finish_reason == "length"


def test_a_command_that_aborts_or_a_request_that_can_never_run_ends_the_stream_too() -> None:
    it = Served(8, capacity="guaranteed_no_evict")
    fitting, large = it.submit([1, 2, 3], 10), it.submit([1] * 8, 24, beam=4)
    it.turn(2)
    for output in large.result(0.0):
        assert output.finish_reason == "error"
        assert "can never run" in (output.detail or "")
    it.server.control.abort(fitting.request, "by command of uid 0 pid 1")
    it.turn()
    assert [o.finish_reason for o in fitting.result(0.0)] == ["abort"]


def test_a_stop_ends_all_streams_and_nobody_can_come_any_more(serving: Threaded) -> None:
    handle = serving.submit([1, 2, 3], 1 << 30)
    assert handle.get(PATIENCE) is not None
    waiting: list[Output] = []
    reader = threading.Thread(target=lambda: waiting.extend(handle), daemon=True)
    reader.start()
    serving.close()
    reader.join(PATIENCE)
    assert (waiting[-1].finish_reason, waiting[-1].detail) in (("abort", "the engine stopped"), ("length", None))
    with pytest.raises(EngineStopped, match="the engine stopped"):
        serving.submit([1], 1)
    handle.cancel()


def test_what_was_submitted_and_never_taken_up_ends_with_the_engine() -> None:
    it = Served()
    handle = it.submit([1, 2, 3], 5)
    it.server.close()
    (output,) = handle.result(0.0)
    assert (output.finish_reason, output.detail, output.token_ids) == ("abort", "the engine stopped", ())
    it.server.close()


def test_an_idle_engine_is_woken() -> None:
    it = Served()
    it.submit([1], 1).cancel()
    assert it.kept.nudges == 2


def test_numbers_rise_in_the_order_of_coming_and_the_arrival_is_that_of_the_call() -> None:
    it = Served()
    clock = it.engine.clock
    first = it.submit([1], 3)
    clock.now += 5.0  # type: ignore[attr-defined]
    second = it.submit([1], 3)
    clock.now += 5.0  # type: ignore[attr-defined]
    it.turn()
    assert (first.num, second.num) == (0, 1)
    assert (first.request.arrival, second.request.arrival) == (100.0, 105.0)
    assert first.request.ttft == 10.0


def test_a_stream_holds_no_more_than_the_outputs_however_late_it_is_read() -> None:
    stream = OutputStream(2)
    for token in range(1000):
        stream.put(token % 2, [token], "x")
    stream.end(0, "stop")
    stream.end(0, "error")
    stream.put(0, [1])
    assert len(stream._unread) == 2
    first = stream.get(0.0)
    assert first is not None
    assert (first.index, len(first.token_ids), first.text, first.finish_reason) == (0, 500, "x" * 500, "stop")
    stream.close("abort", "why")
    second = stream.get()
    assert second is not None
    assert (second.index, second.finish_reason, second.detail) == (1, "abort", "why")
    assert stream.get() is None


def test_what_may_begin_a_stop_string_is_held_back_from_the_reader() -> None:
    it = Served()
    free = it.submit([1, 2, 3], 12)
    it.run_out()
    (whole,) = free.result(0.0)
    stop = whole.text[5:8]
    cut = whole.text.index(stop)
    handle = it.submit([1, 2, 3], 12, stop=StopRules(strings=(stop,)))
    said = ""
    while it.engine.scheduler.requests or not said:
        it.turn()
        piece = handle.get(0.0)
        if piece is not None:
            said += piece.text
            assert whole.text[:cut].startswith(said), "what was said belongs to the stop string"
            last = piece
    assert said == whole.text[:cut]
    assert (last.finish_reason, last.detail) == ("stop", f"stop string {stop!r}")


def test_a_listener_is_called_at_every_piece_of_news_and_for_what_came_before_it() -> None:
    stream = OutputStream(2)
    calls: list[int] = []
    stream.put(0, [1])
    stream.listen(lambda: calls.append(1))
    assert len(calls) == 1
    stream.put(1, [2], "b")
    stream.put(0, [], "")  # nothing is no news
    stream.end(0, "length")
    stream.end(0, "stop")  # it has ended
    assert len(calls) == 3
    taken = {output.index: output for output in stream.take()}
    assert (taken[0].token_ids, taken[0].finish_reason, taken[1].text) == ((1,), "length", "b")
    assert stream.take() == []
    assert not stream.ended


def test_an_id_that_a_living_request_has_gets_a_number_and_is_free_when_that_has_ended() -> None:
    it = Served(256)
    first = it.server.submit([1], 3, request_id="mine", n=2)
    second, third = (it.server.submit([1], 3, request_id="mine") for _ in range(2))
    of_a_sample = it.server.submit([1], 3, request_id="mine.1")
    assert [each.id for each in (first, second, third, of_a_sample)] == ["mine", "mine-2", "mine-3", "mine.1-2"]
    it.run_out()
    assert it.server.submit([1], 3, request_id="mine").id == "mine"
    own = it.server.submit([1], 3).id
    assert it.server.submit([1], 3, request_id=own).id == f"{own}-2"


def test_ids_cost_nothing_when_their_requests_are_forgotten() -> None:
    it = Served(256)
    for number in range(50):
        it.server.submit([1], 1, request_id=f"of-{number}")
        it.run_out()
    it.engine.scheduler.requests.clear()
    gc.collect()
    assert len(it.server._names._named) < 50


@pytest.mark.parametrize("given", ["", " ", "a\nb", "\x1b[2J", "x" * 129, 7, "\ud800", "a\u2028b"])
def test_ids_that_cannot_be_shown_are_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="request_id: "):
        Served(256).server.submit([1], 1, request_id=given)


def test_who_goes_is_not_counted_among_those_who_wait() -> None:
    it = Served(256, max_running=1)
    handles = [it.submit([i], 4) for i in range(3)]
    assert it.server.queued == 3
    for handle in handles:
        handle.cancel()
    assert it.server.queued == 3, "they are let go when the engine gets to it"
    it.server.take_up()
    assert it.server.queued == 0
    for handle in handles:
        handle.cancel()
    assert it.server.queued == 0


def test_a_sample_is_not_called_as_another_request_that_lives() -> None:
    """Whoever names one of them, to abort it say, means no other."""
    it = Served(256)
    other = it.server.submit([1], 3, request_id="mine.2")
    several = it.server.submit([1], 3, request_id="mine", n=3)
    beams = it.server.submit([1], 3, request_id="mine", beam=3)
    names = [each.id for handle in (other, several, beams) for each in (handle.request, *handle.request.samples)]
    assert names == ["mine.2", "mine-2", "mine-2.1", "mine-2.2", "mine-3", "mine-3.1", "mine-3.2"]
