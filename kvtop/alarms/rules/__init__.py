"""All rules: this one list is all that a new one is entered in, with its thresholds in `kvtop.alarms.settings`."""

from typing import Any

from kvtop.alarms.rule import Rule
from kvtop.alarms.rules.hit_collapse import HitCollapse
from kvtop.alarms.rules.ledger_violation import LedgerViolation
from kvtop.alarms.rules.never_fits import NeverFits
from kvtop.alarms.rules.no_progress import NoProgress
from kvtop.alarms.rules.orphan_blocks import OrphanBlocks
from kvtop.alarms.rules.preemption_storm import PreemptionStorm
from kvtop.alarms.rules.stale_data import StaleData
from kvtop.alarms.rules.tier_thrash import TierThrash

RULES: tuple[type[Rule[Any]], ...] = (
    StaleData,
    NoProgress,
    LedgerViolation,
    OrphanBlocks,
    NeverFits,
    PreemptionStorm,
    TierThrash,
    HitCollapse,
)
"""The gravest first."""
