"""How large the KV pool becomes, and what all of the engine takes of the device's memory."""

from dataclasses import dataclass

import torch

from engine.config import MOST_BLOCKS, EngineConfig
from engine.footprint.plan import DoesNotFit, Footprint, Needs, blocks_for_fraction, blocks_in, check_loading, footprint
from engine.footprint.room import Room, host_room
from engine.model.config import ModelConfig
from engine.model.decoder import Decoder
from engine.model.weights import Weights
from engine.policies.policy_set import PolicySet
from kvtop.protocol import MemoryFacts

GROWTH = 32 * 2**20
"""Bytes by which frames kept for viewers, the log of events and the interpreter's own books grow as it serves."""

BOOKS = 320
"""Bytes that are kept about one block beside its KV: its entries in the pool's arrays, in the copy of them that keyframes are
made of, and in the prefix index once its content has a name. Of a slot of a lower tier they are fewer."""


@dataclass(frozen=True, slots=True)
class PoolSize:
    """``footprint``: None where the system does not say how much memory there is."""

    blocks: int
    footprint: Footprint | None

    def most_bytes_per_token(self, tokens: int) -> int | None:
        """What a token may take where memory has to hold so many; None where nobody knows."""
        if (known := self.footprint) is None:
            return None
        return (known.kv + known.host + known.headroom) // max(1, tokens)


def size_pool(
    config: EngineConfig, decoder: Decoder, policies: PolicySet, *, default: int, block_size: int, block_bytes: int
) -> PoolSize:
    """The blocks that ``config`` asks for, or ``default``. The model is loaded, nothing else is.

    Raises `DoesNotFit`, with the sum, where there is not so much memory.
    """
    device = decoder.device.type
    groups = len(decoder.groups)
    workspace = workspace_bytes(decoder.config, policies, decoder.dtype.itemsize)
    in_host_memory = device == "cpu"  # as books and the host tier always are
    needs = Needs(
        weights=weights_bytes(decoder.weights),
        workspace=workspace + (BOOKS * (config.host_blocks + config.disk_blocks) if in_host_memory else 0),
        block=block_bytes,
        host=config.host_blocks * block_bytes if in_host_memory else 0,
        books=BOOKS if in_host_memory else 0,
        least=groups * -(-2 // block_size),
    )
    room = device_room(decoder.device)
    if config.memory_fraction:
        if room is None:
            raise DoesNotFit(f"nothing here says how much memory {device} has, so a fraction of it is of nothing")
        blocks = min(MOST_BLOCKS, blocks_for_fraction(room, needs, config.memory_fraction))
    elif config.kv_gib:
        blocks = min(MOST_BLOCKS, blocks_in(config.kv_gib * 2**30, needs))
    else:
        blocks = config.blocks or default
    return PoolSize(blocks, None if room is None else footprint(room, needs, blocks))


def device_room(device: torch.device) -> Room | None:
    """Memory of the device that the model is on; None where nothing tells."""
    if device.type == "cpu":
        return host_room()
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        # What torch has reserved and does not use at the moment it gives out again.
        own, unused = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
        return Room(total, free + unused - own, own, torch.cuda.get_device_name(device))
    return None


def check_weights(device: torch.device, model: ModelConfig, dtype: torch.dtype) -> None:
    """Raises `DoesNotFit`, with the sum, where the weights alone are more than there is: before any is read, since the system
    ends a process that takes too much without a word."""
    if (room := device_room(device)) is not None:
        check_loading(room, least_parameters(model) * dtype.itemsize)


def least_parameters(model: ModelConfig) -> int:
    """Weights of its matrices, one of embedding and head counted, which may be tied: no model of this shape has fewer."""
    attention = 2 * model.hidden * model.head_size * (model.query_heads + model.kv_heads)
    return model.layers * (attention + 3 * model.hidden * model.feed_forward) + model.vocab * model.hidden


def weights_bytes(weights: Weights) -> int:
    """Of all tensors; tied ones count once."""
    return sum(tensor.numel() * tensor.element_size() for tensor in weights.tensors())


def workspace_bytes(model: ModelConfig, policies: PolicySet, element: int) -> int:
    """What one iteration computes with at most, roughly: activations of a full batch, the KV that one sequence as long as the
    context gathers, its mask, and the logits with what sampling makes of them. ``element``: bytes of a number."""
    rows, heads = policies.token_budget, model.query_heads + 2 * model.kv_heads
    activations = rows * (6 * model.hidden + 2 * heads * model.head_size + 4 * model.feed_forward)
    gathered = 2 * model.context * (model.query_heads + model.kv_heads) * model.head_size
    logits = 16 * policies.max_running * model.vocab
    return element * (activations + gathered + rows * model.context) + logits + GROWTH


def facts_of(sum_: Footprint | None) -> MemoryFacts | None:
    """In the protocol's terms."""
    if sum_ is None:
        return None
    return MemoryFacts(
        what=sum_.what[:128],
        total_bytes=sum_.total,
        weights_bytes=sum_.weights,
        runtime_bytes=sum_.runtime,
        kv_bytes=sum_.kv,
        host_tier_bytes=sum_.host,
        others_bytes=sum_.others,
        headroom_bytes=sum_.headroom,
    )
