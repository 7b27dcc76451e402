"""Faults planted into pool and scheduler, to see that the ledger or the machine that drives them finds them."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.engine import pool_faults, sharing_faults

FAULTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    fault.__name__: fault
    for fault in (
        pool_faults.leaked_reference,
        pool_faults.double_free,
        pool_faults.aliased_block,
        pool_faults.dropped_too_early,
        pool_faults.dropped_without_a_release,
        pool_faults.stale_hash,
        pool_faults.missing_dirty_mark,
        pool_faults.stale_order_entry,
        pool_faults.outdated_rank,
        pool_faults.forgotten_table,
        pool_faults.moved_without_content,
        pool_faults.stale_place_after_a_move,
        pool_faults.forgotten_pin,
        pool_faults.evicted_pin,
        sharing_faults.write_to_shared_block,
        sharing_faults.forgotten_copy,
        sharing_faults.copy_too_late,
        sharing_faults.overlong_part,
        sharing_faults.part_of_another_prefix,
        sharing_faults.beam_writes_a_shared_block,
        sharing_faults.beams_release_before_they_share,
        sharing_faults.stale_tail_of_a_beam,
        sharing_faults.beam_wakes_with_too_much,
        sharing_faults.hash_left_behind,
        sharing_faults.taken_over_in_use,
        pool_faults.groups_confused,
        pool_faults.group_left_behind,
        pool_faults.hit_without_its_window,
        pool_faults.chain_after_a_reset,
    )
}
