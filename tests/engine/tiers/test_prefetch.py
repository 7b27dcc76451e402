"""Prefetching for the queue's head: what is brought ahead, what is not, and what becomes of it on the way."""

from typing import Any

import pytest

from engine.requests.request import RequestState
from engine.scheduling.lookahead import AT_ONCE
from engine.tiers.books import CACHED, TierBooks
from engine.tiers.report import moved_in_all
from engine.tiers.tiers import Tiers
from tests.engine.driving import Drive
from tests.engine.tiers.late import LateMover, Trouble

PREFIX = list(range(500, 512))
"""Three complete blocks."""


class Ahead:
    """An engine that runs one request at a time, and whose host tier alone holds the complete blocks of ``prefix``."""

    def __init__(self, blocks: int = 24, prefix: list[int] = PREFIX, **policies: Any) -> None:
        self.drive = Drive(
            blocks, max_running=1, **({"prefetch": "queue_head", "offload": "on_fill", "token_budget": 64} | policies)
        )
        self.pool = self.drive.pool
        self.scheduler = self.drive.scheduler
        self.mover = LateMover(self.drive.runner._memory, trouble=Trouble(late=0.0))
        self.books = TierBooks(1, "host", 40)
        self.tiers = self.scheduler.roster.tiers = Tiers(self.pool, [self.books], self.mover)
        self.level = self.tiers.levels[1]
        self.drive.add(1, prompt=[*prefix, 1], max_tokens=1)
        self.drive.run_out()
        while self.tiers.pending:
            self.drive.step()
        self.forget_the_device()
        self.scheduler.set_policies({"offload": "by_reuse"}, "drain", self.drive.now)
        self.mover.trouble = Trouble(late=1.0)

    def wait_behind(self, num: int = 3, prompt: list[int] = PREFIX) -> Any:
        """A request with the prefix that waits while another runs; what is brought for it is under way, and stays so."""
        self.drive.add(2, max_tokens=30)
        self.drive.step()
        request = self.drive.add(num, prompt=[*prompt, 2, 3], max_tokens=2)
        self.drive.step()
        return request

    def land(self, fail: float = 0.0) -> None:
        self.mover.trouble = Trouble(fail=fail, late=0.0)
        self.drive.step()

    def forget_the_device(self) -> None:
        self.pool.reset_hashes()
        for request in self.scheduler.running:
            request.chained = 0

    @property
    def coming(self) -> int:
        return len(self.tiers.prefetches.under_way)

    def end_the_running(self) -> None:
        self.scheduler.abort(self.drive.requests[2], self.drive.now)


def test_the_prefix_of_a_head_that_waits_is_in_the_cache_when_it_starts() -> None:
    ahead = Ahead()
    head = ahead.wait_behind()
    assert (ahead.coming, ahead.pool.transfer_blocks, ahead.pool.leaving) == (3, 3, 3)
    assert ahead.scheduler.verdict is not None
    assert ahead.scheduler.verdict.code == "max_running"
    assert all(ahead.pool.lookup(hash_) is None for hash_ in head.hashes[:3]), "found before it is there"
    ahead.land()
    assert (ahead.coming, ahead.pool.transfer_blocks, ahead.pool.leaving, ahead.pool.cached_blocks) == (0, 0, 0, 3)
    assert (ahead.level.prefetched_blocks, ahead.level.prefetch_used_blocks) == (3, 0)
    ahead.end_the_running()
    ahead.drive.step()
    assert head.state is not RequestState.LOADING
    assert head.cached == 12
    assert ahead.level.prefetch_used_blocks == 3
    ahead.drive.run_out()
    assert not ahead.tiers.news, "nothing is told of what went well"


@pytest.mark.parametrize("policies", [{"prefetch": "off"}, {"offload": "off"}, {"prefix_cache": False}])
def test_nothing_is_brought_where_a_policy_says_no(policies: dict[str, Any]) -> None:
    ahead = Ahead()
    ahead.scheduler.set_policies(policies, "drain", ahead.drive.now)
    ahead.wait_behind()
    assert ahead.coming == 0


def test_nothing_is_brought_for_a_paused_engine() -> None:
    ahead = Ahead()
    ahead.scheduler.pause()
    ahead.wait_behind()
    assert ahead.coming == 0


def test_a_head_that_could_start_waits_for_what_is_on_its_way() -> None:
    ahead = Ahead()
    head = ahead.wait_behind()
    ahead.end_the_running()
    ahead.drive.step()
    verdict = ahead.scheduler.verdict
    assert verdict is not None
    assert (verdict.code, verdict.rule) == ("transfer", "prefetch=queue_head")
    assert verdict.detail == "3 blocks of its prefix are on the way to the device ahead of its start"
    assert head.state is RequestState.WAITING
    assert ahead.scheduler.waits_for_copies
    ahead.land()
    assert head.cached == 12
    assert moved_in_all(ahead.tiers).host_promotions == 3, "a block was loaded twice"


def test_another_head_with_the_same_prefix_waits_for_it_too() -> None:
    ahead = Ahead()
    head = ahead.wait_behind()
    ahead.scheduler.abort(head, ahead.drive.now)
    other = ahead.drive.add(4, prompt=[*PREFIX, 9], max_tokens=2)
    ahead.end_the_running()
    ahead.drive.step()
    assert ahead.scheduler.verdict is not None
    assert ahead.scheduler.verdict.code == "transfer"
    ahead.land()
    assert other.cached == 12
    assert ahead.level.prefetch_used_blocks == 3


def test_a_head_with_another_prefix_does_not_wait() -> None:
    ahead = Ahead()
    head = ahead.wait_behind()
    ahead.scheduler.abort(head, ahead.drive.now)
    ahead.end_the_running()
    ahead.drive.add(4, max_tokens=2)
    ahead.drive.step()
    assert ahead.drive.running == ["r4"]
    ahead.land()
    assert (ahead.level.prefetched_blocks, ahead.level.prefetch_used_blocks) == (3, 0), "brought for nothing"


def test_what_fails_leaves_a_free_block_and_is_told() -> None:
    ahead = Ahead()
    head = ahead.wait_behind()
    free = ahead.pool.free_blocks
    ahead.land(fail=1.0)
    assert ahead.coming == ahead.pool.cached_blocks == ahead.pool.transfer_blocks == 0
    assert ahead.pool.free_blocks == free + 3
    assert ahead.level.prefetched_blocks == 0
    assert ahead.level.failures == 3
    assert [news.kind for news in ahead.tiers.news] == ["load_failed"] * 3
    assert "did not come ahead of its request" in ahead.tiers.news[0].detail
    assert ahead.books.counts[CACHED] == 0, "what cannot be read can still be found"
    ahead.land()
    ahead.end_the_running()
    ahead.drive.step()
    assert head.cached == 0
    ahead.drive.run_out()


@pytest.mark.parametrize("how", ["reset", "prefix_cache", "reset while it is held back"])
def test_what_is_to_be_forgotten_on_the_way_is_found_by_nobody(how: str) -> None:
    ahead = Ahead()
    head = ahead.wait_behind()
    if how == "reset while it is held back":
        ahead.end_the_running()
        ahead.drive.step()
        assert head.state is RequestState.WAITING
    if how == "prefix_cache":
        (_, said) = ahead.scheduler.set_policies({"prefix_cache": False}, "drain", ahead.drive.now).effects
        assert said == "3 blocks on the way to the prefix cache will be free when they have come."
        ahead.scheduler.set_policies({"prefix_cache": True}, "drain", ahead.drive.now)
    else:
        ahead.scheduler.reset_prefix_cache()
    hashes = list(head.hashes[:3])
    ahead.land()
    assert [ahead.pool.lookup(hash_) for hash_ in hashes] == [None] * 3 or head.state is not RequestState.WAITING
    assert ahead.level.prefetched_blocks == 0
    assert head.cached == 0
    assert ahead.pool.leaving == ahead.coming


def test_what_is_on_its_way_still_comes_when_the_policy_goes_off() -> None:
    ahead = Ahead()
    ahead.wait_behind()
    (said,) = ahead.scheduler.set_policies({"prefetch": "off"}, "drain", ahead.drive.now).effects
    assert (
        said
        == "Blocks of lower tiers come to the device only for requests that are admitted; 3 blocks under way still come."
    )
    ahead.land()
    assert ahead.level.prefetched_blocks == ahead.pool.cached_blocks == 3


def test_no_more_than_so_many_are_under_way_and_the_rest_follows() -> None:
    prefix = list(range(500, 548))
    ahead = Ahead(blocks=40, prefix=prefix)
    ahead.wait_behind(prompt=prefix)
    assert ahead.coming == AT_ONCE == 8
    ahead.drive.step()
    assert ahead.coming == 8
    ahead.land()
    assert ahead.coming == 4
    ahead.drive.step()
    assert ahead.level.prefetched_blocks == 12


def test_the_mover_keeps_half_of_its_room_for_others() -> None:
    ahead = Ahead()
    ahead.mover._limit = 5
    ahead.wait_behind()
    assert ahead.coming == 2


def test_only_what_continues_the_prefix_of_the_device_is_brought() -> None:
    ahead = Ahead()
    first = next(slot for slot in range(40) if ahead.books.state[slot] == CACHED)
    second = ahead.books.index[int(ahead.drive.requests[1].hashes[1])]
    assert first != second
    ahead.books.give_up(second, ahead.drive.now)
    ahead.wait_behind()
    assert ahead.coming == 1


def test_what_running_requests_were_promised_is_not_taken() -> None:
    ahead = Ahead(blocks=9, capacity="guaranteed_no_evict")
    ahead.drive.add(2, prompt=5, max_tokens=25)
    ahead.drive.step()
    spare = ahead.pool.available - ahead.scheduler.reserved_blocks - 1
    ahead.drive.add(3, prompt=[*PREFIX, 2, 3], max_tokens=2)
    ahead.drive.step()
    assert ahead.coming == spare == 0
    ahead = Ahead(blocks=11, capacity="guaranteed_no_evict")
    ahead.drive.add(2, prompt=5, max_tokens=25)
    ahead.drive.step()
    ahead.drive.add(3, prompt=[*PREFIX, 2, 3], max_tokens=2)
    ahead.drive.step()
    assert ahead.coming == 2
    assert ahead.pool.available >= ahead.scheduler.reserved_blocks


def test_what_was_given_up_again_is_not_brought_twice_for_the_same_head() -> None:
    ahead = Ahead()
    ahead.wait_behind()
    ahead.land()
    ahead.forget_the_device()
    ahead.drive.step()
    assert ahead.coming == 0
    assert ahead.level.prefetched_blocks == 3


def test_a_change_says_what_it_does() -> None:
    def said(drive: Drive, changes: dict[str, Any]) -> list[str]:
        return drive.scheduler.set_policies(changes, "drain", drive.now).effects

    assert said(Drive(), {"prefetch": "queue_head"}) == [
        "This engine has no tier to bring blocks from ahead of their request."
    ]
    drive = Ahead(prefetch="off").drive
    on = "While the head of the queue waits, its prefix is brought from lower tiers to the device"
    assert said(drive, {"prefetch": "queue_head"}) == [f"{on}."]
    assert said(drive, {"prefetch": "off"}) == [
        "Blocks of lower tiers come to the device only for requests that are admitted."
    ]
    assert f"{on}; nothing is, while prefix_cache or offload is off." in said(
        drive, {"prefetch": "queue_head", "prefix_cache": False}
    )
