"""Prompts of a given length in tokens, of plain words, the same for the same key, for any tokenizer.

A prompt is a tuple of `Segment`s. Segments with equal keys and lengths have equal text, so a prefix that is shared is a
segment that is shared.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

WORDS = (
    "river", "market", "window", "garden", "paper", "silver", "winter", "letter", "bridge", "number", "morning", "island",
    "music", "train", "doctor", "summer", "kitchen", "forest", "engine", "mountain", "picture", "school", "village",
    "water", "machine", "corner", "history", "season", "station", "evening", "captain", "library", "yellow", "simple",
    "early", "quiet", "heavy", "round", "green", "open", "small", "large", "often", "under", "before", "again", "between",
    "people", "thing", "and", "the", "of",
)  # fmt: skip
"""Common, and short in every vocabulary; fifty draws of two already tell 2,500 prompts apart."""

CHARACTERS_A_TOKEN = 4.0
"""Of English text, about; used where the server cannot be asked. The tokens that were really in a prompt are measured."""


@dataclass(frozen=True, slots=True)
class Segment:
    """``tokens`` of text that follow from ``key``."""

    key: str
    tokens: int


Prompt = tuple[Segment, ...]


def prompt_tokens(prompt: Prompt) -> int:
    return sum(segment.tokens for segment in prompt)


class Writer:
    """Writes segments as words, given what each word costs in tokens (with the blank before it)."""

    def __init__(self, costs: Mapping[str, float], *, exact: bool) -> None:
        if not costs or min(costs.values()) <= 0:
            raise ValueError("a writer needs words that cost tokens")
        self.exact = exact
        """Whether the costs come from the server's own tokenizer."""
        self._costs = costs
        self._words = sorted(costs)
        self._cheapest = [word for word in self._words if costs[word] == min(costs.values())]
        self._segment = lru_cache(maxsize=4096)(self._write)

    def text(self, prompt: Prompt) -> str:
        """It begins with a blank, as every word does, so that the first one costs what it costs elsewhere.

        Of what is shorter than any word it is one word all the same: servers refuse prompts of nothing.
        """
        text = "".join(self._segment(segment) for segment in prompt)
        if text or not prompt_tokens(prompt):
            return text
        return f" {random.Random(prompt[-1].key).choice(self._cheapest)}"

    def cost(self, text: str) -> float:
        """What `text` costs by the table."""
        return sum(self._costs[word] for word in text.split())

    def _write(self, segment: Segment) -> str:
        draw = random.Random(segment.key)
        words: list[str] = []
        left = float(segment.tokens)
        while left > 0:
            word = draw.choice(self._words)
            if self._costs[word] > left:
                word = draw.choice(self._cheapest)
                if self._costs[word] > left + 0.5 * self._costs[word]:
                    break  # only where costs are estimates: less than half a word is left
            words.append(word)
            left -= self._costs[word]
        return "".join(f" {word}" for word in words)


def estimated_costs(characters_a_token: float = CHARACTERS_A_TOKEN, words: Sequence[str] = WORDS) -> dict[str, float]:
    return {word: (len(word) + 1) / characters_a_token for word in words}
