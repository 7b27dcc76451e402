"""Tokens in the order of the model's logits, with their log-probabilities."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.requests.logprobs import TokenLogprob


def likeliest(logits: Tensor, counts: Sequence[int]) -> list[list[tuple[int, float]] | None]:
    """The likeliest next tokens of each row (``[rows, vocab]``), with their log-probabilities (nats, float32), before any
    temperature.

    ``counts`` for each row: how many (the whole vocabulary at most). Likeliest first, of equals the lower id. None for a
    row whose logits are no numbers.
    """
    if not counts:
        return []
    logits = logits.float()
    found = _ranked(logits, counts, torch.logsumexp(logits, dim=-1))
    # Where a number is missing, it or the sum of all is no number.
    return [row if row and all(value > -torch.inf for _, value in row) else None for row in found]


def logprobs(logits: Tensor, tokens: Sequence[int], counts: Sequence[int]) -> list[TokenLogprob]:
    """What each row says of its token, and of its likeliest ones, as many as ``counts`` says."""
    logits = logits.float()
    totals = torch.logsumexp(logits, dim=-1)
    ids = torch.tensor(tokens, device=logits.device)[:, None]
    own = logits.gather(1, ids)
    above = (logits > own).sum(dim=-1).tolist()
    # Of equals the lower id comes first; most tokens have none.
    equal = (logits == own).sum(dim=-1).tolist()
    before = [
        higher + (int((logits[row, :token] == own[row]).sum()) if same > 1 else 0)
        for row, (higher, same, token) in enumerate(zip(above, equal, tokens, strict=True))
    ]
    values = (own[:, 0] - totals).tolist()
    tops = _ranked(logits, counts, totals)
    return [
        TokenLogprob(token, value, place + 1, tuple(top))
        for token, value, place, top in zip(tokens, values, before, tops, strict=True)
    ]


def _ranked(logits: Tensor, counts: Sequence[int], totals: Tensor) -> list[list[tuple[int, float]]]:
    """Of each row the first ``counts``; ``totals``: the logarithm of the sum of its exponentials."""
    vocab = logits.shape[-1]
    counts = [min(count, vocab) for count in counts]
    if not (most := max(counts)):
        return [[] for _ in counts]
    values, ids = torch.topk(logits, most)
    places = torch.tensor([max(0, count - 1) for count in counts], device=logits.device)[:, None]
    lowest = values.gather(1, places)
    reached = (logits >= lowest).sum(dim=-1).tolist()
    found = []
    for row, (count, there) in enumerate(zip(counts, reached, strict=True)):
        row_ids, row_values = ids[row, :count], values[row, :count]
        if count and there > count:
            # Several are equal to the last: topk does not say which of them it takes.
            row_ids = torch.nonzero(logits[row] >= lowest[row]).flatten()
            row_values = logits[row, row_ids]
        pairs = zip(row_ids.tolist(), (row_values - totals[row]).tolist(), row_values.tolist(), strict=True)
        ranked = sorted(pairs, key=lambda each: (-each[2], each[0]))[:count]
        found.append([(token, value) for token, value, _ in ranked])
    return found
