"""The policy axes: what about scheduling can be changed while the engine serves, and the frozen set of their values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from engine.policies.capacity import CAPACITIES
from engine.policies.compaction import COMPACTIONS
from engine.policies.eviction import EVICTIONS
from engine.policies.free_order import FREE_ORDERS
from engine.policies.kv_dtype import KV_DTYPES
from engine.policies.offload import OFFLOADS, TIER_FULLS
from engine.policies.order import ORDERS
from engine.policies.partial_reuse import PARTIAL_REUSES
from engine.policies.preempt_action import PREEMPT_ACTIONS
from engine.policies.prefetch import PREFETCHES
from engine.policies.requeue import REQUEUES
from engine.policies.victim import VICTIMS
from kvtop.protocol import PolicyAxis, PolicyValue

_TRUE = ("on", "true", "yes", "1")
_FALSE = ("off", "false", "no", "0")

AXES: dict[str, PolicyAxis] = {
    axis.name: axis
    for axis in (
        PolicyAxis(
            name="capacity",
            kind="choice",
            help="When a request may start, and who yields when memory runs out.",
            choices={name: rule.help for name, rule in CAPACITIES.items()},
            transition=True,
            transition_values=[name for name, rule in CAPACITIES.items() if rule.reserves],
        ),
        PolicyAxis(
            name="order",
            kind="choice",
            help="In which order waiting requests are tried.",
            choices={name: order.help for name, order in ORDERS.items()},
        ),
        PolicyAxis(
            name="victim",
            kind="choice",
            help="Which running request is preempted when one must be.",
            choices={name: victim.help for name, victim in VICTIMS.items()},
        ),
        PolicyAxis(
            name="preempt_action",
            kind="choice",
            help="What becomes of a preempted request.",
            choices={name: action.help for name, action in PREEMPT_ACTIONS.items()},
        ),
        PolicyAxis(
            name="requeue",
            kind="choice",
            help="Where a preempted request stands among those the queue's order treats alike.",
            choices={name: requeue.help for name, requeue in REQUEUES.items()},
        ),
        PolicyAxis(
            name="resume_gate",
            kind="float",
            help="Share of the pool in use above which a preempted request is not admitted again while something runs. "
            "1: whenever it fits.",
            minimum=0.0,
            maximum=1.0,
            unit="of the pool",
        ),
        PolicyAxis(
            name="preempt_bound",
            kind="int",
            help="A request preempted so often is protected: no victim while any other runs. 0: nobody is protected.",
            minimum=0,
            maximum=1000000,
            unit="preemptions",
        ),
        PolicyAxis(
            name="eviction",
            kind="choice",
            help="Which cached block gives up its content when no block is free.",
            choices=EVICTIONS,
        ),
        PolicyAxis(
            name="free_order",
            kind="choice",
            help="In which order a request's blocks are released.",
            choices={name: order.help for name, order in FREE_ORDERS.items()},
        ),
        PolicyAxis(
            name="offload",
            kind="choice",
            help="Which blocks of the prefix cache are also stored in the tiers below the device, to be loaded from there "
            "when they are hit.",
            choices=OFFLOADS,
        ),
        PolicyAxis(
            name="prefetch",
            kind="choice",
            help="Whether blocks are brought back from lower tiers before the request that wants them is admitted.",
            choices=PREFETCHES,
        ),
        PolicyAxis(
            name="tier_full",
            kind="choice",
            help="What becomes of a request that is to be swapped out when its tier has no room.",
            choices=TIER_FULLS,
        ),
        PolicyAxis(
            name="pin_limit",
            kind="float",
            help="Share of the pool that may be pinned. Pinned blocks are never evicted, so nobody else can use them.",
            minimum=0.0,
            maximum=0.9,
            unit="of the pool",
            transition=True,
        ),
        PolicyAxis(
            name="compaction",
            kind="choice",
            help="Whether blocks are moved together, so that the upper part of the pool becomes free.",
            choices=COMPACTIONS,
        ),
        PolicyAxis(
            name="compaction_moves",
            kind="int",
            help="Blocks moved in one iteration at most, by the policy or by the command compact.",
            minimum=1,
            maximum=4096,
            unit="blocks",
        ),
        PolicyAxis(
            name="kv_dtype",
            kind="choice",
            help="Element type of the KV cache. A change takes effect once nothing runs, and forgets all that was cached.",
            choices=KV_DTYPES,
            transition=True,
        ),
        PolicyAxis(
            name="prefix_cache",
            kind="bool",
            help="Reuse blocks of equal prefixes. Off: nobody looks blocks up and no block gets a hash.",
        ),
        PolicyAxis(
            name="partial_reuse",
            kind="choice",
            help="Whether a prefix hit goes on into a block of which only the first tokens are the same.",
            choices=PARTIAL_REUSES,
        ),
        PolicyAxis(
            name="max_running",
            kind="int",
            help="Requests that run at the same time at most.",
            minimum=1,
            maximum=65536,
            unit="requests",
            transition=True,
        ),
        PolicyAxis(
            name="token_budget",
            kind="int",
            help="Tokens computed in one iteration at most, prefill and decode together. Running requests come first, "
            "in the order of their start; long prompts are computed in chunks.",
            minimum=1,
            maximum=1048576,
            unit="tokens",
        ),
        PolicyAxis(
            name="watermark",
            kind="float",
            help="Share of the pool that admissions leave free for running requests to grow into. "
            "Not held against the first request, when nothing runs.",
            minimum=0.0,
            maximum=0.9,
            unit="of the pool",
        ),
    )
}


def protocol_axes() -> list[PolicyAxis]:
    """The axes as the hello carries them: each says whether its transition matters."""
    return [axis.model_copy(update={"transition": bool(axis.transition)}) for axis in AXES.values()]


def validate(name: str, value: PolicyValue) -> PolicyValue:
    """``value`` in the axis's own type; strings are read as an operator writes them (``on``, ``16``, ``0.05``).

    Raises ValueError, in one sentence, for an unknown axis or a value it does not take.
    """
    axis = AXES.get(name)
    if axis is None:
        raise ValueError(f"there is no policy axis {_shown(name)}; the axes are {', '.join(AXES)}")
    if axis.kind == "choice":
        if isinstance(value, str) and value in axis.choices:
            return value
        raise ValueError(f"{name} cannot be {_shown(value)}; choose {_either(list(axis.choices))}")
    if axis.kind == "bool":
        text = value.lower() if isinstance(value, str) else value
        if text is True or text in _TRUE:
            return True
        if text is False or text in _FALSE:
            return False
        raise ValueError(f"{name} cannot be {_shown(value)}; choose on or off")
    return _number(axis, value)


def _number(axis: PolicyAxis, value: PolicyValue) -> int | float:
    kind = "a whole number" if axis.kind == "int" else "a number"
    wrong = f"{axis.name} cannot be {_shown(value)}; choose {kind} from {axis.minimum:g} to {axis.maximum:.8g}"
    if isinstance(value, bool):
        raise ValueError(wrong)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise ValueError(wrong) from None
    # Written so that NaN, which compares false with everything, is refused too.
    if not (axis.minimum is None or number >= axis.minimum) or not (axis.maximum is None or number <= axis.maximum):
        raise ValueError(wrong)
    if axis.kind == "int":
        if number != math.floor(number):
            raise ValueError(wrong)
        return int(number)
    return number


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"


def _either(choices: list[str]) -> str:
    return ", ".join(choices[:-1]) + " or " + choices[-1]


def spell(value: PolicyValue) -> str:
    """A value as it is written on a command line and on the screen."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class PolicySet:
    """A value for every axis. Make one with `of` or `changed`, which validate; ``version`` rises with each change."""

    capacity: str = "max_utilization"
    order: str = "fcfs"
    victim: str = "latest"
    preempt_action: str = "recompute"
    requeue: str = "front"
    resume_gate: float = 1.0
    preempt_bound: int = 0
    eviction: str = "lru"
    free_order: str = "tail_first"
    offload: str = "off"
    prefetch: str = "off"
    tier_full: str = "drop"
    pin_limit: float = 0.5
    compaction: str = "off"
    compaction_moves: int = 16
    kv_dtype: str = "float32"
    prefix_cache: bool = True
    partial_reuse: str = "off"
    max_running: int = 16
    token_budget: int = 512
    watermark: float = 0.0
    version: int = field(default=0, compare=False)

    @classmethod
    def of(cls, values: Mapping[str, PolicyValue]) -> "PolicySet":
        """The defaults with these values (own types or strings). Raises ValueError as `validate` does."""
        return replace(cls(), **_validated(values))

    def changed(self, changes: Mapping[str, PolicyValue]) -> "PolicySet":
        """With these values; itself when they are its own already. Raises ValueError as `validate` does."""
        new = replace(self, **_validated(changes), version=self.version + 1)
        return self if new == self else new

    def values(self) -> dict[str, PolicyValue]:
        """Value by axis."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name in AXES}

    def rule(self, axis: str) -> str:
        """``axis=value``, as verdicts and messages name a rule."""
        return f"{axis}={spell(getattr(self, axis))}"


def _validated(values: Mapping[str, PolicyValue]) -> dict[str, Any]:
    return {name: validate(name, value) for name, value in values.items()}
