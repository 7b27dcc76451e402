"""KV groups: layers that share their blocks.

Layers with the same window form a type. A model of one type has one group, and nothing here makes a difference to it.
Otherwise the types are cut into groups of equally many layers, as many as the rarest type has; the last group of a type
may have fewer, and is padded. So all groups draw blocks of one size from one pool, and each gives up what slides out of
its window whatever the others see. After vLLM's hybrid KV cache manager.
"""

from dataclasses import dataclass

from engine.memory.window import Windows

ALIKE = 1.25
"""Where the commonest type has less than so many times the layers of the rarest, groups are as large as the commonest:
a little padding, and one group a type instead of two."""


@dataclass(frozen=True, slots=True)
class KVGroups:
    """``windows`` and ``layers``: by group, what its layers see (None: all) and which they are. A block holds the
    tokens of ``planes`` layers, one a *plane*; a group of fewer layers leaves the rest of its blocks unused."""

    windows: Windows
    layers: tuple[tuple[int, ...], ...]
    planes: int

    @staticmethod
    def of(windows: Windows, layers: int) -> "KVGroups":
        """The groups of a model of so many layers with these windows by layer (empty: all see all)."""
        types: dict[int | None, list[int]] = {}
        for layer in range(layers):
            types.setdefault(windows[layer] if windows else None, []).append(layer)
        counts = [len(members) for members in types.values()]
        size = max(counts) if max(counts) < ALIKE * min(counts) else min(counts)
        by_group: list[tuple[int | None, tuple[int, ...]]] = []
        for window, members in types.items():
            parts = -(-len(members) // size)
            by_group += [(window, tuple(members[part::parts])) for part in range(parts)]
        return KVGroups(tuple(window for window, _ in by_group), tuple(members for _, members in by_group), size)

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def padding(self) -> int:
        """Planes, over a block of each group, that hold nothing."""
        return len(self) * self.planes - sum(map(len, self.layers))

    @property
    def padding_share(self) -> float:
        """What of the memory of a token that all groups hold is padding."""
        return self.padding / (len(self) * self.planes)

    @property
    def by_layer(self) -> dict[int, tuple[int, int]]:
        """By layer: its group, and its plane in that group's blocks."""
        return {layer: (group, plane) for group, of in enumerate(self.layers) for plane, layer in enumerate(of)}
