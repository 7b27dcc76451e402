"""Logits as a request wants them changed before a token is chosen: bias, penalties, tokens that must not come yet."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.model.draw import Draw

_Entries = tuple[int, Any, Any]
"""A row, ids of tokens in it (each once), and a number for each or for all of them."""

_HIGHEST = torch.finfo(torch.float32).max


def adjusted(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    """A copy of ``logits`` (``[rows, vocab]``, none NaN) in float32, changed in vLLM's order: bias, then the penalties for
    repetition, frequency and presence; and what must not come is out. Only the entries concerned are looked at."""
    logits = logits.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    asking = [(row, draw) for row, draw in enumerate(draws) if draw.params.adjusts]
    _add(logits, [(row, *_split(draw.params.logit_bias)) for row, draw in asking if draw.params.logit_bias])
    seen = {row: np.array(draw.history, np.int64) for row, draw in asking if draw.params.penalises}
    _repeat(
        logits, [(row, _distinct(seen[row])[0], draw.params.repetition_penalty) for row, draw in asking if row in seen]
    )
    _add(logits, [(row, *_used(seen[row][draw.prompt :], draw)) for row, draw in asking if row in seen])
    _ban(logits, [(row, np.array([*draw.banned], np.int64), 0.0) for row, draw in asking if draw.banned])
    return logits


def _split(pairs: Iterable[tuple[int, float]]) -> tuple[Any, Any]:
    ids, values = zip(*pairs, strict=True)
    return np.array(ids, np.int64), np.array(values, np.float32)


def _distinct(tokens: Any) -> tuple[Any, Any]:
    """Each of them once, and how often it is there. Without counts numpy hashes them, which takes four times as long."""
    ids, counts = np.unique(tokens, return_counts=True)
    return ids, counts


def _used(output: Any, draw: Draw) -> tuple[Any, Any]:
    ids, counts = _distinct(output)
    return ids, -(draw.params.frequency_penalty * counts + draw.params.presence_penalty).astype(np.float32)


def _flat(logits: Tensor, entries: Sequence[_Entries]) -> tuple[Tensor, Tensor] | None:
    """Where the entries lie in ``logits`` seen as one line, and their numbers. Ids beyond the vocabulary are left out."""
    vocab, places, numbers = logits.shape[-1], [], []
    for row, ids, values in entries:
        inside = ids < vocab
        places.append(row * vocab + ids[inside])
        numbers.append(np.broadcast_to(np.asarray(values, np.float32), ids.shape)[inside])
    if not places:
        return None
    put = [torch.from_numpy(np.concatenate(each)).to(logits.device) for each in (places, numbers)]
    return put[0], put[1]


def _add(logits: Tensor, entries: Sequence[_Entries]) -> None:
    if (found := _flat(logits, entries)) is not None:
        line, (places, amounts) = logits.view(-1), found
        line[places] = line[places] + amounts


def _repeat(logits: Tensor, entries: Sequence[_Entries]) -> None:
    if (found := _flat(logits, entries)) is not None:
        line, (places, penalties) = logits.view(-1), found
        values = line[places]
        changed = torch.where(values > 0, values / penalties, values * penalties)
        # A tiny penalty must not make a logit infinite; one that is so already stays.
        line[places] = torch.where(values.isinf(), values, changed.clamp(-_HIGHEST, _HIGHEST))


def _ban(logits: Tensor, entries: Sequence[_Entries]) -> None:
    if (found := _flat(logits, entries)) is not None:
        logits.view(-1)[found[0]] = -torch.inf
