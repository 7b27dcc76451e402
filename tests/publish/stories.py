"""Random but possible histories of an engine, for property tests."""

from typing import Any

from hypothesis import strategies as st

from kvtop.protocol import Batch, Counters, Gauges, IterationFrame, Queue, RequestChange, TierLevel, Verdict
from tests.publish.fold import Fold
from tests.publish.kit import event

SMALL = st.integers(0, 9)


class Story:
    """Makes frames that follow from one another, and knows the truth after each."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self.truth = Fold(seq=0)
        self.events = 0
        self._forgotten: set[int] = set()

    def next(self) -> IterationFrame:
        draw = self._draw
        seq = (self.truth.seq or 0) + 1
        events = []
        for _ in range(draw(st.integers(0, 2))):
            self.events += 1
            events.append(event(self.events))
        alive = [num for num in range(10) if num not in self._forgotten]
        nums = draw(st.lists(st.sampled_from(alive), max_size=3, unique=True)) if alive else []
        forgotten = draw(st.lists(st.sampled_from(known), max_size=1)) if (known := sorted(self.truth.requests)) else []
        self._forgotten.update(forgotten)  # an engine never uses a num again
        made = IterationFrame(
            seq=seq,
            iteration=seq,
            wall=0.0,
            mono=float(seq),
            batch=draw(st.none() | st.builds(Batch, prefill_tokens=SMALL)),
            policy=draw(st.none() | st.just({"queue": f"p{seq}"})),
            blocks=[(s, c, state, -1, 0, seq, 0, 0) for s, c, state in draw(st.lists(st.tuples(SMALL, SMALL, SMALL)))],
            hashes=draw(st.lists(st.tuples(SMALL, st.none() | st.just(f"{seq:016x}")), max_size=3)),
            requests=[self._change(num) for num in nums],
            forgotten=forgotten,
            queue=draw(st.none() | st.builds(Queue, total=SMALL)),
            verdict=draw(st.none() | st.builds(Verdict, request=SMALL, code=st.just("needs_blocks"))),
            events=events,
            gauges=draw(st.none() | st.builds(Gauges, running=st.none() | SMALL, waiting=st.none() | SMALL)),
            counters=draw(st.none() | st.builds(Counters, iterations=st.just(seq), finished=st.none() | SMALL)),
            tiers=draw(st.lists(st.builds(TierLevel, tier=st.just("host"), blocks_free=SMALL), max_size=2)),
        )
        self.truth.apply(made)
        return made

    def _change(self, num: int) -> RequestChange:
        draw = self._draw
        length = len(self.truth.requests.get(num, {"table": []})["table"])
        return RequestChange(
            num=num,
            state=draw(st.sampled_from([None, "waiting", "decode"])),
            output_tokens=draw(st.none() | SMALL),
            table_at=(at := draw(st.none() | st.integers(0, length))),
            table=draw(st.none() | st.lists(SMALL, max_size=3)) if at is not None else None,
        )
