"""What the soak tells engines: everything there is, to requests that are there, and nothing that stays."""

import itertools
import random
from collections import Counter

import pytest

from engine.policies.policy_set import PolicySet, protocol_axes, validate
from kvtop.protocol import Abort, Command, Pause, Pin, PolicyAxis, Preempt, RequestChange, Resume, SetPolicy, Unpin
from kvtop.protocol.commands import COMMANDS
from kvtop.state import EngineState
from kvtop.state.request_table import RequestTable
from tests.perf.soak_commands import Deck, Sight, sight_of, values_of

AXES = protocol_axes()
BUSY = Sight(PolicySet().values(), running=[3, 4], live=[3, 4, 5], shown=[1, 3, 4, 5])


def drawn(deck: Deck, sight: Sight, count: int, does: bool = True) -> list[tuple[str, Command]]:
    found: list[tuple[str, Command]] = []
    for _ in range(count):
        card = deck.draw(sight)
        if card is None:
            break
        found.append(card)
        if does:
            deck.done(card[1])
    return found


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.name)
def test_every_axis_has_values_to_go_to(axis: PolicyAxis) -> None:
    values = values_of(axis)
    assert len(values) >= 2
    for value in values:
        validate(axis.name, value)


@pytest.mark.parametrize("seed", range(5))
def test_each_kind_has_its_turn_in_two_rounds(seed: int) -> None:
    deck = Deck(AXES, random.Random(seed))
    found = drawn(deck, BUSY, 2 * len(deck.kinds) + 2)
    assert {kind for kind, _ in found} == set(deck.kinds)
    assert {type(command) for _, command in found} == set(COMMANDS.values())
    assert max(Counter(kind for kind, _ in found).values()) <= 3


def test_it_names_requests_that_are_there_and_values_that_are_not_in_force() -> None:
    deck = Deck(AXES, random.Random(1))
    for _, command in drawn(deck, BUSY, 200):
        if isinstance(command, Preempt):
            assert command.request in BUSY.running
        elif isinstance(command, Abort):
            assert command.request in BUSY.live
        elif isinstance(command, Pin):
            assert command.request in BUSY.shown
        elif isinstance(command, SetPolicy):
            assert all(BUSY.policies[axis] != value for axis, value in command.changes.items())


def test_those_are_meant_who_will_be_there_when_it_comes() -> None:
    state = EngineState()
    state.requests = RequestTable()
    for num, (phase, left) in enumerate(
        [("decode", 5), ("decode", 500), ("waiting", 600), ("finished", 0), ("prefill", 90)]
    ):
        change = RequestChange(num=num, state=phase, max_tokens=600, output_tokens=600 - left, computed_tokens=10 * num)
        state.requests.apply(change, None, print)
    sight = sight_of(state)
    assert (sight.running, sight.live, sight.shown) == ([1, 4, 0], [2, 1, 4, 0], [4, 3, 2, 1, 0])


def test_what_cannot_be_done_waits_for_its_time() -> None:
    deck = Deck(AXES, random.Random(2))
    idle = Sight(BUSY.policies)
    assert not {"preempt", "abort", "pin", "unpin"} & {kind for kind, _ in drawn(deck, idle, 100)}
    assert {"preempt", "abort", "pin"} <= {kind for kind, _ in drawn(deck, BUSY, 60)}
    assert Deck([], random.Random(3)).draw(Sight()) is not None


def test_a_pause_is_followed_by_its_end_and_pins_are_undone() -> None:
    deck = Deck(AXES, random.Random(4))
    kinds = [kind for kind, _ in drawn(deck, BUSY, 300)]
    assert all(after == "resume" for kind, after in itertools.pairwise(kinds) if kind == "pause")
    deck = Deck(AXES, random.Random(4))
    deck.done(Pause(id="a"))
    deck.done(Pin(id="b", request=7))
    deck.done(Pin(id="c", request="x"))
    deck.done(Unpin(id="d", request="x"))
    assert [(type(command), getattr(command, "request", None)) for command in deck.undo()] == [
        (Resume, None),
        (Unpin, 7),
    ]


def test_what_was_refused_counts_as_not_done() -> None:
    deck = Deck(AXES, random.Random(5))
    kinds = [kind for kind, _ in drawn(deck, BUSY, 100, does=False)]
    assert kinds.count("pin") > 1
    assert "unpin" not in kinds
    assert deck.undo() == []
