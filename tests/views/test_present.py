"""What stands under a number's definition is what the number is: the same as in a snapshot, for every number of the help."""

import pytest

from kvtop.protocol import TierLevel
from kvtop.snapshot.document import snapshot_document
from kvtop.views.definition import Number
from kvtop.views.format import UNKNOWN, count, percent, rate, seconds, serial
from kvtop.views.numbers import HEADER, SECTIONS
from kvtop.views.present import NO_REQUEST, present
from tests.views.scene import LATER, WALL, gauges_only, hello, scene
from tests.views.test_memory import MEMORY

NUMBERS = {entry.name: entry for section in SECTIONS for entry in section.entries if isinstance(entry, Number)}
TIERS = [
    TierLevel(tier="device", blocks_total=64, blocks_free=48, blocks_cached=5, hit_tokens=10, miss_tokens=30),
    TierLevel(tier="host", blocks_total=32, blocks_free=20, blocks_cached=9, blocks_held=3, stalls=2, stall_ms=50.0),
]
SPELLED = {"iteration": serial, "wait": seconds, "score": lambda v: UNKNOWN if v is None else f"{v:.3f}"}


@pytest.mark.parametrize("number", [n for n in NUMBERS.values() if n.file], ids=lambda n: n.name)
def test_it_is_what_a_snapshot_holds(number: Number) -> None:
    state = scene(tiers=TIERS)
    document = snapshot_document(state, WALL, LATER)
    part, _, field = number.file.rpartition(".")
    row = state.request(2)
    shown = present(number, state, LATER, row)
    if part == "tiers":
        value = [level[field] for level in document["tiers"]]
        assert shown.count("device ") == shown.count("host ") == 1
        spell = percent if field == "hit_share" else count
        assert all(spell(one) in shown for one in value)
    elif part == "requests":
        (told,) = [request for request in document["requests"] if request["num"] == 2]
        assert shown == SPELLED.get(number.name, count)(told[field])
    elif part == "latencies":
        assert shown.startswith(seconds(document["latencies"][field]["p50"]))
    elif part == "iteration_ms":
        assert shown == UNKNOWN, "this engine exposes no durations"
    else:
        told = document[part][field] if part else document[field]
        assert shown == SPELLED.get(number.name, rate if part == "rates" else count)(told)


def test_of_several_facts_each_is_told() -> None:
    state = scene(tiers=TIERS)
    shown = {name: present(number, state, LATER, state.request(1)) for name, number in NUMBERS.items()}
    assert shown["KV used"] == "11 of 64, 17%"
    assert shown["hit"] == "30%; ever 25%"
    assert shown["weights + runtime + KV + headroom"] == "memory: not exposed by kvtop"
    told = present(NUMBERS["weights + runtime + KV + headroom"], scene(hello(memory=MEMORY)), LATER, None)
    assert told == "513 MiB + 310 MiB + 180 MiB + 3.0 GiB of 4.0 GiB"
    assert shown["prefill, decode"] == "850ms / 6.5s"
    assert shown["most blocks"] == "6 of A-0001"
    assert shown["oldest"] == "16.4s"
    assert shown["batch"] == "52"
    assert shown["filled"] == "device 16/64, host 12/32"
    assert shown["stalls"] == "device –, host 2 50ms"


def test_what_is_not_known_is_not_zero() -> None:
    state = gauges_only()
    for number in NUMBERS.values():
        assert present(number, state, LATER, None) in (
            UNKNOWN,
            "requests: not exposed by vllm",
            "memory: not exposed by vllm",
            f"{UNKNOWN}; ever {UNKNOWN}",
        )
    assert present(NUMBERS["pri"], scene(), LATER, None) == NO_REQUEST
    assert all(isinstance(entry, Number) or entry.meaning for entry in HEADER.entries)
