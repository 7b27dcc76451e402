"""Lower tiers for the make-believe engine: slots that fill with evicted blocks and with the KV of swapped requests."""

from collections import deque

from kvtop.protocol import BLOCK_STATES, BlockRun, PoolFacts, TierLevel

FREE, CACHED, TRANSFER, HELD = (BLOCK_STATES.index(name) for name in ("free", "cached", "transfer", "reserved"))


class Tier:
    """Slots ``first … first+slots-1`` among the blocks of all tiers. A copy takes one iteration."""

    def __init__(self, name: str, place: int, first: int, slots: int, block_bytes: int) -> None:
        self.name, self.place, self.first, self.slots, self.block_bytes = name, place, first, slots, block_bytes
        self.state = [FREE] * slots
        self.owner = [-1] * slots
        self.arriving: dict[int, int] = {}
        self.oldest: deque[int] = deque()
        self.dirty: set[int] = set()
        self.totals = dict.fromkeys(
            ("bytes_in", "bytes_out", "hit_tokens", "miss_tokens", "stalls", "drops", "failures"), 0
        )

    def put(self, state: int, owner: int = -1) -> None:
        """A copy of one block begins; a full tier gives up its oldest cached block, or drops this one."""
        if FREE in self.state:
            slot = self.state.index(FREE)
        elif self.oldest:
            slot = self.oldest.popleft()
            self.totals["drops"] += 1
        else:
            self.totals["drops"] += 1
            return
        self.state[slot], self.owner[slot] = TRANSFER, owner
        self.arriving[slot] = state
        self.dirty.add(slot)

    def tick(self) -> None:
        for slot, state in self.arriving.items():
            self.state[slot] = state
            self.totals["bytes_in"] += self.block_bytes
            if state == CACHED:
                self.oldest.append(slot)
            self.dirty.add(slot)
        self.arriving = {}

    def take_back(self, owner: int) -> int:
        """The KV of a swapped request goes back to the device; its slots are free. Returns how many there were."""
        slots = [slot for slot in range(self.slots) if self.owner[slot] == owner]
        for slot in slots:
            self.arriving.pop(slot, None)
            self.state[slot], self.owner[slot] = FREE, -1
            self.totals["bytes_out"] += self.block_bytes
            self.dirty.add(slot)
        return len(slots)

    def level(self) -> TierLevel:
        return TierLevel(
            tier=self.name,
            blocks_total=self.slots,
            blocks_free=self.state.count(FREE),
            blocks_cached=self.state.count(CACHED),
            blocks_held=self.state.count(HELD),
            blocks_transfer=self.state.count(TRANSFER),
            ms_per_block_in=0.4 * 10 ** (self.place - 1),
            ms_per_block_out=0.3 * 10 ** (self.place - 1),
            stall_ms=1.5 * self.totals["stalls"],
            **self.totals,
        )

    def runs(self, slots: set[int] | range) -> list[BlockRun]:
        return [
            (self.first + slot, 1, self.state[slot], self.owner[slot], 0, 16 if self.state[slot] else 0, self.place, 0)
            for slot in sorted(slots)
        ]


class LowerTiers:
    """``sizes``: slots by name, the nearest first. What is evicted goes into the nearest, what that drops is gone."""

    def __init__(self, device: int, sizes: dict[str, int], block_bytes: int) -> None:
        self.tiers: list[Tier] = []
        first = device
        for place, (name, slots) in enumerate(sizes.items(), 1):
            self.tiers.append(Tier(name, place, first, slots, block_bytes))
            first += slots

    def pools(self) -> list[PoolFacts]:
        return [PoolFacts(tier=tier.name, blocks=tier.slots) for tier in self.tiers]

    def levels(self) -> list[TierLevel]:
        return [tier.level() for tier in self.tiers]

    def store(self) -> None:
        """An evicted block; of every third there is a copy further down as well."""
        for tier in self.tiers:
            if tier.place == 1 or self.tiers[0].totals["bytes_in"] // tier.block_bytes % 3 == 0:
                tier.put(CACHED)

    def swap_out(self, num: int, blocks: int) -> str | None:
        """Holds the KV of a request in the nearest tier with room, and says in which."""
        for tier in self.tiers:
            if tier.state.count(FREE) + len(tier.oldest) >= blocks:
                for _ in range(blocks):
                    tier.put(HELD, num)
                return tier.name
        return None

    def swap_in(self, num: int) -> None:
        for tier in self.tiers:
            tier.totals["stalls"] += tier.take_back(num) > 0

    def looked_up(self, tokens: int) -> None:
        for tier in self.tiers:
            tier.totals["hit_tokens"] += tokens // (2 * tier.place)
            tier.totals["miss_tokens"] += tokens - tokens // (2 * tier.place)

    def tick(self) -> None:
        for tier in self.tiers:
            tier.tick()

    def all_runs(self) -> list[BlockRun]:
        return [run for tier in self.tiers for run in tier.runs(range(tier.slots))]

    def changed_runs(self) -> list[BlockRun]:
        runs = [run for tier in self.tiers for run in tier.runs(tier.dirty)]
        for tier in self.tiers:
            tier.dirty = set()
        return runs
