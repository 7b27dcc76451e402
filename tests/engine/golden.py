"""The golden texts: what an independent implementation says on the same weights, and how sure it is of each token."""

import json
from dataclasses import dataclass
from pathlib import Path

MARGIN = 0.05
"""Where the best two logits are closer than this, rounding may choose otherwise, and all that follows differs."""


@dataclass(frozen=True)
class Case:
    prompt: str
    prompt_ids: list[int]
    token_ids: list[int]
    """The whole continuation, greedy."""

    required: list[int]
    """The tokens that must come: those before the first close choice."""


def _cases() -> list[Case]:
    data = json.loads((Path(__file__).parent / "data" / "smollm2-golden.json").read_text())
    cases = []
    for case in data["cases"]:
        close = (place for place, margin in enumerate(case["margins"]) if margin < MARGIN)
        certain = next(close, len(case["token_ids"]))
        cases.append(Case(case["prompt"], case["prompt_ids"], case["token_ids"], case["token_ids"][:certain]))
    return cases


CASES = _cases()
