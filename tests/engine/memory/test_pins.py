"""Pinned prefixes: they outlive everybody, they are counted, they are limited, and nobody starves for them."""

import pytest

from engine.memory.blocks import ACTIVE, PINNED
from engine.memory.pool import BlockPool, PoolError
from engine.requests.request import FinishReason, Request
from tests.engine.driving import Drive


def with_pin(blocks: int = 12, **policies: object) -> tuple[Drive, Request]:
    """A finished request whose two complete blocks are pinned."""
    drive = Drive(blocks=blocks, **policies)
    request = drive.add(0, prompt=list(range(9)), max_tokens=1)
    drive.step()
    drive.scheduler.pin(request)
    return drive, request


def test_pinned_blocks_are_never_evicted_and_can_still_be_found() -> None:
    drive, _ = with_pin(blocks=6)
    assert (drive.pool.pinned_blocks, drive.pool.cached_blocks, drive.pool.available) == (2, 0, 4)
    for num in (1, 2, 3):
        drive.add(num, prompt=12, max_tokens=3)
        drive.run_out()
    hit = drive.add(4, prompt=[*range(8), 77], max_tokens=2)
    drive.step()
    assert hit.cached == 8


def test_a_pinned_block_in_use_is_active_and_pinned_again_when_released() -> None:
    drive, request = with_pin()
    blocks = list(drive.scheduler.pins.by_name["r0"].blocks)
    other = drive.add(1, prompt=[*range(8), 77], max_tokens=3)
    drive.step()
    assert other.block_table[:2] == blocks
    assert {int(drive.pool.state[block]) for block in blocks} == {ACTIVE}
    assert drive.pool.pinned_total == 2
    drive.run_out()
    assert {int(drive.pool.state[block]) for block in blocks} == {PINNED}
    drive.scheduler.unpin(request.id)
    assert (drive.pool.pinned_blocks, drive.pool.cached_blocks) == (0, 2)
    assert drive.scheduler.ledger_violations() == []


def test_a_running_request_can_be_pinned_and_pinned_again_for_what_it_computed_since() -> None:
    drive = Drive(blocks=16)
    request = drive.add(1, prompt=9, max_tokens=12)
    drive.step()
    assert len(drive.scheduler.pin(request).blocks) == 2
    drive.steps(6)
    assert len(drive.scheduler.pin(request).blocks) == 3
    assert drive.pool.pinned_total == 3
    assert drive.pool.pinned_blocks == 0
    drive.run_out()
    assert drive.pool.pinned_blocks == 3


def test_blocks_of_two_pins_stay_until_both_are_gone() -> None:
    drive, request = with_pin()
    drive.scheduler.pin_prefix("system prompt", list(range(4)))
    drive.scheduler.unpin(request.id)
    assert (drive.pool.pinned_blocks, drive.pool.cached_blocks) == (1, 1)
    drive.scheduler.unpin("system prompt")
    assert drive.pool.pinned_total == 0


def test_a_prefix_is_pinned_under_its_own_salt_only() -> None:
    drive, _ = with_pin()
    with pytest.raises(ValueError, match="no complete block of x is in the prefix cache"):
        drive.scheduler.pin_prefix("x", list(range(8)), cache_salt="tenant")


def test_the_limit_holds_and_says_so() -> None:
    drive, _ = with_pin(pin_limit=0.25)
    request = drive.add(1, prompt=9, max_tokens=1)
    drive.step()
    with pytest.raises(ValueError, match=r"pinning 2 blocks of r1 would make 4 pinned; pin_limit=0.25 allows 3 of 12"):
        drive.scheduler.pin(request)
    assert drive.pool.pinned_total == 2
    drive.scheduler.unpin("r0")
    drive.scheduler.pin(request)


def test_what_is_promised_to_running_requests_is_not_pinned_away() -> None:
    drive = Drive(blocks=8, capacity="guaranteed_no_evict")
    request = drive.add(0, prompt=9, max_tokens=1)
    drive.step()
    drive.add(1, prompt=5, max_tokens=20)
    drive.add(2, prompt=2, max_tokens=3)
    drive.step()
    assert drive.pool.available - drive.scheduler.reserved_blocks == 1
    with pytest.raises(ValueError, match="promised to running requests"):
        drive.scheduler.pin(request)
    drive.run_out()


def test_a_request_that_pins_leave_no_room_for_ends_with_the_reason() -> None:
    drive, _ = with_pin(blocks=6)
    request = drive.add(1, prompt=18, max_tokens=1)
    fits = drive.add(2, prompt=[*range(8), *range(50, 60)], max_tokens=1)
    drive.run_out()
    assert request.finish_reason is FinishReason.ERROR
    assert request.finish_detail == ("r1 cannot run: it needs 5 blocks, and 2 of the pool's 6 are pinned for others")
    assert fits.finish_reason is FinishReason.LENGTH
    assert fits.output_tokens == 1


def test_a_running_request_that_fills_what_pins_leave_keeps_its_output() -> None:
    drive, _ = with_pin(blocks=6)
    request = drive.add(1, prompt=5, max_tokens=40)
    drive.run_out()
    assert request.finish_reason is FinishReason.LENGTH
    assert request.finish_detail == (
        "r1 filled all 4 blocks that are not pinned for others, of 6; its output ends here"
    )
    assert request.output_tokens == 4 * 4 - 5 + 1


def test_a_lower_limit_undoes_the_latest_pins_or_waits() -> None:
    drive, _ = with_pin()
    other = drive.add(1, prompt=9, max_tokens=1)
    drive.step()
    drive.scheduler.pin(other)
    waits = drive.scheduler.preview({"pin_limit": 0.2}, "drain")
    assert waits == [
        "At most 2 blocks may be pinned, no more 6; 4 are now.",
        "Pins stay, and nothing more is pinned until r1 is unpinned.",
    ]
    change = drive.scheduler.set_policies({"pin_limit": 0.2}, "preempt", drive.now)
    assert change.effects[1] == "r1 is unpinned, the latest first."
    assert list(drive.scheduler.pins.by_name) == ["r0"]
    assert drive.scheduler.ledger_violations() == []


def test_a_reset_undoes_all_pins() -> None:
    drive, _ = with_pin()
    drive.scheduler.reset_prefix_cache()
    assert len(drive.scheduler.pins) == 0
    assert drive.pool.free_blocks == 12


def test_the_pool_refuses_what_makes_no_sense() -> None:
    pool = BlockPool(2, 4)
    with pytest.raises(PoolError, match="it has no hash"):
        pool.pin(pool.take(1, 1.0))
    with pytest.raises(PoolError, match="is not pinned"):
        pool.unpin(0)
    drive, _ = with_pin()
    with pytest.raises(PoolError, match="2 pinned blocks"):
        drive.pool.reset_hashes()


def test_unpinning_what_is_not_pinned_is_refused() -> None:
    with pytest.raises(ValueError, match="nobody is not pinned"):
        Drive().scheduler.unpin("nobody")


def test_the_ledger_names_a_pin_without_its_content_and_a_wrong_count() -> None:
    drive, _ = with_pin()
    block = drive.scheduler.pins.by_name["r0"].blocks[0]
    drive.pool.pins[block] += 1
    assert any(f"block {block} counts 2 pins, but 1 hold it" in said for said in drive.scheduler.ledger_violations())
    drive.pool.pins[block] -= 1
    drive.scheduler.pins.by_name["r0"].hashes[0] ^= 1
    assert any(f"block {block} is pinned for r0, but" in said for said in drive.scheduler.ledger_violations())
