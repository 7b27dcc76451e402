"""Small words for sentences about numbers."""


def counted(count: int, noun: str, *, more: bool = False) -> str:
    """``1 block``, ``2 blocks``; with ``more``: ``1 more block``. For nouns whose plural takes an s."""
    return f"{count}{' more' if more else ''} {noun}{'' if count == 1 else 's'}"
