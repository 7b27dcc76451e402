"""What the engine takes of the memory there is: where an operator sees it, and what is said where an engine does not tell."""

import pytest

from kvtop.protocol import Hello, MemoryFacts
from kvtop.views.capacity import capacity_rows
from kvtop.views.definition import sent_meaning
from kvtop.views.glyphs import UNICODE
from kvtop.views.memory import memory_forms, shares
from panels.dialogs.help_text import help_rows
from tests.views.scene import check_rows, hello, scene

MIB = 2**20
MEMORY = MemoryFacts(
    what="the container's limit",
    total_bytes=4096 * MIB,
    weights_bytes=513 * MIB,
    runtime_bytes=310 * MIB,
    kv_bytes=180 * MIB,
    host_tier_bytes=0,
    others_bytes=0,
    headroom_bytes=3093 * MIB,
)
SUM = "weights 513 MiB + runtime 310 MiB + KV 180 MiB + headroom 3.0 GiB = 4.0 GiB, the container's limit"


def _help(hello: Hello | None) -> str:
    text = "\n".join(row.text.rstrip() for row in help_rows(150, hello, UNICODE, ()))
    return text.partition("Memory of this engine")[2].partition("\n\n")[0]


def test_a_wide_screen_has_the_sum_behind_the_pools_numbers() -> None:
    text = check_rows(capacity_rows(scene(hello(memory=MEMORY)), 200), 200, 2)
    assert text.rstrip().endswith(f"3.9 of 22.5 MiB · {SUM}")


@pytest.mark.parametrize("width", range(20, 220, 7))
def test_where_there_is_less_room_the_pools_own_numbers_stay_whole(width: int) -> None:
    plain = check_rows(capacity_rows(scene(hello()), width), width, 2).rstrip()
    text = check_rows(capacity_rows(scene(hello(memory=MEMORY)), width), width, 2).rstrip()
    added = text.removeprefix(plain)
    room = width - len(plain.split("\n")[1])
    told = [f" · {form}" for form in memory_forms(hello(memory=MEMORY))]
    assert added == next((form for form in told if len(form) <= room), "")


def test_what_there_is_none_of_is_left_out_and_what_is_unknown_is_not_nothing() -> None:
    more = MEMORY.model_copy(update={"host_tier_bytes": 64 * MIB, "others_bytes": None, "runtime_bytes": None})
    assert memory_forms(hello(memory=MEMORY)) == [SUM, SUM.partition(",")[0], "headroom 3.0 of 4.0 GiB"]
    assert "+ runtime – + KV 180 MiB + host tier 64.0 MiB + headroom" in memory_forms(hello(memory=more))[0]
    assert memory_forms(hello()) == memory_forms(None) == []
    assert {share.field for share in shares(more)} >= {"runtime_bytes", "host_tier_bytes"}


def test_the_help_tells_each_part_and_what_it_is() -> None:
    text = _help(hello(memory=MEMORY))
    for share in shares(MEMORY):
        assert f"{share.name.ljust(20)}" in text
        assert sent_meaning(f"memory.{share.field}") in text
    assert "4.0 GiB: the container's limit" in text


def test_the_help_says_where_it_is_not_exposed() -> None:
    assert _help(hello()).splitlines()[-1] == "not exposed"
    assert _help(None).splitlines()[-1] == "waiting for the engine"


def test_a_bound_from_elsewhere_is_shown_without_harm() -> None:
    bad = MEMORY.model_copy(update={"what": "a\x1b[31mb\n" + "x" * 100})
    assert "\x1b" not in memory_forms(hello(memory=bad))[0]
    check_rows(capacity_rows(scene(hello(memory=bad)), 200), 200, 2)
