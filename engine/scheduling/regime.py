"""What is in force: the policies, and what of them has to wait for a transition to end."""

from dataclasses import dataclass

from engine.policies.capacity import CAPACITIES, CapacityRule
from engine.policies.policy_set import PolicySet
from engine.scheduling.kv_types import KVTypes


@dataclass(slots=True)
class Regime:
    """``capacity`` and ``kv_types`` are in force, whatever ``policies`` say; while they differ, a transition drains."""

    policies: PolicySet
    capacity: CapacityRule
    kv_types: KVTypes
    paused: bool = False
    """Nothing is planned; KV stays in place."""

    @property
    def draining(self) -> bool:
        """The policies' capacity rule is not in force yet: running requests are promised too much for it."""
        return self.capacity.name != self.policies.capacity

    @property
    def switching(self) -> bool:
        """The policies' element type of KV is not in force yet: nothing is admitted until it is."""
        return self.kv_types.in_force != self.policies.kv_dtype

    @property
    def wanted_capacity(self) -> CapacityRule:
        """The rule that the policies ask for."""
        return CAPACITIES[self.policies.capacity]
