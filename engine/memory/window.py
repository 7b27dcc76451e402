"""Sliding windows: how far back each layer looks, and so from which position on it still needs its KV.

A token at position p sees the window's length of positions that end with p, its own included, as in Mistral 7B (Jiang
et al., 2023). Layers may differ (hybrid models: Gemma 2 and others mix full and sliding layers).
"""

Windows = tuple[int | None, ...]
"""By layer: tokens that it sees, None for all. Empty: all layers see all."""

FULL = "full"


LONGEST = 2**31
"""Tokens; more than any model's context."""


def read_windows(text: str) -> Windows:
    """``"64"`` or ``"64,full"``: one pattern of layers, which repeats. Raises ValueError in a sentence."""
    pattern: list[int | None] = []
    for word in text.split(","):
        word = word.strip()
        if word == FULL:
            pattern.append(None)
        elif word.isascii() and word.isdecimal() and len(word) <= 10 and 0 < int(word) <= LONGEST:
            pattern.append(int(word))
        else:
            shown = repr(word if len(word) <= 20 else word[:20] + "…")
            raise ValueError(f"window {shown} is neither a number of tokens above 0 nor {FULL}")
    return tuple(pattern)


def parse_windows(text: str, layers: int) -> Windows:
    """``"64"``: every layer; ``"64,full"``: alternating; repeated over the layers. Raises ValueError in a sentence."""
    pattern = read_windows(text)
    if len(pattern) > layers:
        raise ValueError(f"windows for {len(pattern)} layers, but the model has {layers}")
    windows = tuple(pattern[layer % len(pattern)] for layer in range(layers))
    return windows if any(window is not None for window in windows) else ()


def describe_windows(windows: Windows) -> str:
    """``"sliding window of 64 tokens in 15 of 30 layers"``."""
    sliding = sorted({window for window in windows if window is not None})
    if not sliding:
        return "no sliding window"
    count = sum(window is not None for window in windows)
    where = "all layers" if count == len(windows) else f"{count} of {len(windows)} layers"
    return f"sliding window of {' and '.join(map(str, sliding))} tokens in {where}"


def first_seen(window: int | None, position: int) -> int:
    """The first position that a token at ``position`` sees through this window. It never falls as a request grows."""
    return 0 if window is None else max(0, position - window + 1)
