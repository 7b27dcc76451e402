"""A crowd for `tests.engine.serving.recount.Town`: requests of many kinds under policies that make them meet, and somebody
who interferes, until all have ended."""

import random
from collections.abc import Callable

from engine.requests.sampling import Sampling
from engine.workload.arrivals import Arrival
from kvtop.protocol import Abort, Preempt, SetPolicy
from tests.engine.serving.recount import BEAMS, Town
from tests.engine.tiers.late import Trouble

CROWDED = {"capacity": "max_utilization", "max_running": 6, "token_budget": 24}
POLICIES = (
    CROWDED | {"preempt_action": "swap", "offload": "on_evict", "prefetch": "queue_head"},
    CROWDED | {"preempt_action": "swap_disk", "offload": "on_fill", "partial_reuse": "copy"},
    CROWDED | {"preempt_action": "recompute", "offload": "by_priority"},
    CROWDED | {"preempt_action": "swap", "offload": "on_evict"},
)
NAMES = ("swap", "swap_disk", "recompute", "beams")
SEARCHING = 3
"""Of these, the one whose requests are beam searches now and then."""


def arrivals(seed: int) -> list[Arrival]:
    """Three dozen, some with a prompt in common, some of several samples; between two looks of the loop at the clock."""
    draw = random.Random(seed)
    heads = [[draw.randrange(50) for _ in range(12)] for _ in range(3)]
    when = 0.0
    made = []
    for place in range(36):
        prompt = heads[place % 3] + [draw.randrange(50) for _ in range(draw.randint(1, 14))]
        samples = 4 if place % 5 == 2 else 1
        sampling = Sampling(temperature=1.0, seed=place) if samples > 1 else None
        longest = draw.randint(3, 18)
        if seed == SEARCHING and place % 4 == 1:
            made.append(Arrival(when, BEAMS, prompt, longest, 0, beam=3))
        else:
            made.append(Arrival(when, "t", prompt, longest, 0, n=samples, sampling=sampling))
        when += draw.choice([0.0, 0.1, 0.37])
    return made


def crowded(seed: int, look: Callable[[Town, int], None]) -> Town:
    """The town of `POLICIES` number ``seed`` after all have ended. ``look`` is called after each turn, with its number."""
    made = Town(arrivals(seed), seed=seed, trouble=Trouble(fail=0.05, late=0.6), **POLICIES[seed])
    draw = random.Random(seed)
    for turn in range(3000):
        if made.server._next is None and not made.scheduler.requests:
            break
        _interfere(made, draw, turn)
        made.turn()
        look(made, turn)
    else:
        raise AssertionError("requests are left that never end")
    # What evictions were not told yet goes out with the next event of their kind.
    made.recount.evicted += made.server.telemetry.log._evicted
    return made


def _interfere(town: Town, draw: random.Random, turn: int) -> None:
    """Now and then somebody aborts or preempts, or sends what can never run under the rule of the moment."""
    rows = town.recount.rows.values()
    live = [row for row in rows if row["state"] != "finished" and row["label"] != "large"]
    if turn % 23 == 11 and live:
        town.desk.ask(Abort(id="a", request=draw.choice(live)["id"]))
    if turn % 17 == 5 and (running := [row for row in live if row["state"] in ("prefill", "decode", "loading")]):
        town.desk.ask(Preempt(id="p", request=draw.choice(running)["id"]))
    if turn == 40:
        # Promised all that it may need, it can never fit; it ends with an error when its turn comes.
        town.server.submit([1] * 60, 90, label="large")
    if turn == 40 or (town.recount.events["error"] and town.scheduler.policies.capacity != "max_utilization"):
        rule = "guaranteed_no_evict" if turn == 40 else "max_utilization"
        town.desk.ask(SetPolicy(id="s", changes={"capacity": rule}, transition="preempt"))
