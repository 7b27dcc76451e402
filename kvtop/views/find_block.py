"""The block that a typed number means."""

from kvtop.state import EngineState
from kvtop.views.format import short


def found_block(text: str, state: EngineState) -> int | str:
    """``4711``, ``4,711`` or ``0x1267``; a sentence where that is no block of this engine."""
    total = 0 if state.blocks is None else state.blocks.total
    plain = text.strip().replace(",", "").replace("_", "").lower()
    digits, base = (plain[2:], 16) if plain.startswith("0x") else (plain, 10)
    try:
        # int() takes digits of any script, and signs; ASCII alone is typed.
        number = int(digits, base) if digits.isascii() and digits.isalnum() else -1
    except ValueError:
        number = -1
    if number < 0:
        return f"{short(text.strip(), 24)!r} is no block number: 4711, 4,711 or 0x1267"
    if number >= total:
        return f"there is no block {number}: they go from 0 to {total - 1}"
    return number
