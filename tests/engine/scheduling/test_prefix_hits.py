"""What requests that begin alike share, what outlives its owner, and what is evicted first."""

from typing import Any

import pytest

from tests.engine.driving import Drive, parts

PREFIX = list(range(8))


def test_a_later_request_shares_the_full_blocks_of_its_prefix() -> None:
    drive = Drive()
    first = drive.add(1, prompt=[*PREFIX, 91, 92], max_tokens=5)
    drive.step()
    second = drive.add(2, prompt=[*PREFIX, 81], max_tokens=5)
    plan = drive.step()
    assert second.block_table[:2] == first.block_table[:2]
    assert plan.admitted[0].cached == second.cached == 8
    assert ("r2", 8, 1, True) in parts(plan.items)
    assert drive.pool.shared_blocks == 2


def test_the_last_token_is_always_computed() -> None:
    drive = Drive()
    drive.add(1, prompt=PREFIX, max_tokens=5)
    drive.step()
    second = drive.add(2, prompt=PREFIX, max_tokens=5)
    drive.step()
    assert second.cached == 4


def test_content_outlives_its_owner() -> None:
    drive = Drive()
    drive.add(1, prompt=[*PREFIX, 91], max_tokens=1)
    drive.step()
    assert drive.pool.cached_blocks == 2
    second = drive.add(2, prompt=[*PREFIX, 81], max_tokens=5)
    drive.step()
    assert second.cached == 8
    assert drive.scheduler.totals.prefix_hit_tokens == 8
    assert drive.scheduler.totals.prefix_query_tokens == 18


def test_output_is_cached_like_a_prompt() -> None:
    drive = Drive()
    first = drive.add(1, prompt=PREFIX, max_tokens=6)
    drive.run_out()
    again = drive.add(2, prompt=first.token_ids, max_tokens=1)
    drive.step()
    assert again.cached == 12


@pytest.mark.parametrize(
    ("policies", "salt"), [({"prefix_cache": False}, ""), ({"prefix_cache": True}, "another tenant")]
)
def test_nothing_is_shared_with_the_cache_off_or_under_another_salt(policies: dict[str, Any], salt: str) -> None:
    drive = Drive(**policies)
    drive.add(1, prompt=[*PREFIX, 91])
    drive.step()
    second = drive.add(2, prompt=[*PREFIX, 81], cache_salt=salt)
    drive.step()
    assert second.cached == 0
    assert drive.pool.shared_blocks == 0


def test_after_a_reset_nothing_old_is_found_not_even_what_grew_out_of_it() -> None:
    drive = Drive()
    first = drive.add(1, prompt=PREFIX, max_tokens=20)
    drive.step()
    assert drive.scheduler.reset_prefix_cache() == 2
    drive.steps(6)
    second = drive.add(2, prompt=first.token_ids[:9], max_tokens=2)
    drive.step()
    assert second.cached == 0
    # What the second computed afresh is found; what the first went on to compute after that beginning is not.
    third = drive.add(3, prompt=first.token_ids[:14], max_tokens=2)
    drive.step()
    assert third.cached == 8


def test_the_end_of_a_released_prefix_is_evicted_before_its_beginning() -> None:
    drive = Drive(blocks=4, capacity="max_utilization")
    drive.add(1, prompt=[*PREFIX, 91], max_tokens=1)
    drive.step()
    plan = None
    drive.add(2, prompt=10, max_tokens=1)
    plan = drive.step()
    assert plan.evicted == 1
    third = drive.add(3, prompt=[*PREFIX, 81], max_tokens=1)
    drive.step()
    assert third.cached == 4
