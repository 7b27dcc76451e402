"""How many blocks the pool gets, and what of the memory that makes: pure arithmetic, in bytes."""

from dataclasses import dataclass

from engine.footprint.room import Room


class DoesNotFit(ValueError):
    """The text is the sum: what is needed, and what there is; ``hint``: what to do about it."""

    def __init__(self, sum_: str, hint: str = "give fewer blocks, or free memory") -> None:
        super().__init__(sum_)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Needs:
    """What else is taken. ``weights``: of the model; ``workspace``: at most, by what an iteration computes; ``host``: of the
    host tier, where that is in the same memory; ``block``: of one block of the pool, the KV that it holds; ``books``: of what
    is kept about it, where that is in the same memory; ``least``: blocks below which nothing can be served."""

    weights: int
    workspace: int
    block: int
    host: int = 0
    books: int = 0
    least: int = 1

    def beside(self, blocks: int) -> int:
        """What the process takes besides weights, KV and host tier, where its pool has so many blocks."""
        return self.workspace + blocks * self.books


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory by what takes it; all parts together are ``total``. ``runtime``: of this process beside the weights: libraries,
    code, workspace, the pool's books. ``others``: taken by the rest of the machine or container. ``headroom``: left for whatever comes."""

    total: int
    what: str
    weights: int
    runtime: int
    kv: int
    host: int
    others: int
    headroom: int

    def __str__(self) -> str:
        parts = [("weights", self.weights), ("runtime", self.runtime), ("KV", self.kv)]
        parts += [(name, size) for name, size in (("host tier", self.host), ("others", self.others)) if size]
        said = " + ".join(f"{name} {gib(size)}" for name, size in (*parts, ("headroom", self.headroom)))
        return f"{said} = {gib(self.total)} GiB, {self.what}"


def check_loading(room: Room, weights: int) -> None:
    """``weights`` are still to be loaded. Raises `DoesNotFit` where there is not so much."""
    if weights > room.available:
        raise DoesNotFit(
            f"needs {gib(weights + room.own)} GiB: weights {gib(weights)} + runtime {gib(room.own)}, {_of(room)}",
            "free memory, or give a smaller model",
        )


def blocks_for_fraction(room: Room, needs: Needs, fraction: float) -> int:
    """As many as make the whole process take ``fraction`` of the memory, but no more than that share of what is still there.

    Raises `DoesNotFit` where that is less than the least.
    """
    free = min(int(fraction * room.total) - room.own, int(fraction * room.available))
    blocks = (free - needs.workspace - needs.host) // (needs.block + needs.books)
    if blocks < needs.least:
        raise DoesNotFit(
            f"{_sum(room, needs, needs.least)}, of {fraction:g} of the {gib(room.total)} GiB of {room.what}, "
            f"{gib(room.available)} GiB free",
            "give a larger share, or free memory",
        )
    return blocks


def blocks_in(size: float, needs: Needs) -> int:
    """As many as ``size`` bytes have room for. Raises `DoesNotFit` where that is less than the least."""
    blocks = int(size) // needs.block
    if blocks < needs.least:
        raise DoesNotFit(
            f"{gib(size)} GiB of KV has room for {blocks} blocks of {needs.block} bytes; the least is {needs.least}",
            "give more",
        )
    return blocks


def footprint(room: Room, needs: Needs, blocks: int) -> Footprint:
    """What a pool of ``blocks`` makes of the memory; the weights are already loaded. Raises `DoesNotFit` with the sum."""
    kv, beside = blocks * needs.block, needs.beside(blocks)
    headroom = room.available - kv - beside - needs.host
    if headroom < 0:
        raise DoesNotFit(f"{_sum(room, needs, blocks)}, {_of(room)}")
    weights = min(needs.weights, room.own)
    others = max(0, room.total - room.available - room.own)
    # What is free and what is taken are measured one after the other, by different means: the sum has to come out.
    headroom = room.total - room.own - others - kv - beside - needs.host
    return Footprint(
        total=room.total,
        what=room.what,
        weights=weights,
        runtime=room.own - weights + beside,
        kv=kv,
        host=needs.host,
        others=others,
        headroom=max(0, headroom),
    )


def gib(size: float) -> str:
    """``2.3``, of less than one two digits: ``0.045``; what is there is never ``0``."""
    value = size / 2**30
    if value >= 0.95 or not size:
        return f"{value:.1f}" if size else "0"
    return "<0.001" if value < 0.001 else f"{value:.2g}"


def _of(room: Room) -> str:
    others = max(0, room.total - room.available - room.own)
    return f"of the {gib(room.total)} GiB of {room.what}, {gib(others)} of which others have"


def _sum(room: Room, needs: Needs, blocks: int) -> str:
    """``needs 3.1 GiB: weights 0.5 + runtime 0.3 + KV 2.3``."""
    weights = min(needs.weights, room.own)
    kv = blocks * needs.block
    parts = [("weights", weights), ("runtime", room.own - weights + needs.beside(blocks)), ("KV", kv)]
    parts += [("host tier", needs.host)] if needs.host else []
    said = " + ".join(f"{name} {gib(size)}" for name, size in parts)
    return f"needs {gib(sum(size for _, size in parts))} GiB: {said}"
