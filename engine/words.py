"""Small words for sentences about numbers and faults."""


def counted(count: int, noun: str, *, more: bool = False) -> str:
    """``1 block``, ``2 blocks``; with ``more``: ``1 more block``. For nouns whose plural takes an s."""
    return f"{count}{' more' if more else ''} {noun}{'' if count == 1 else 's'}"


def one_line(error: BaseException, most: int = 300) -> str:
    """Its kind and what it says, on one line that can be sent and shown."""
    said = " ".join(str(error).encode("utf-8", "replace").decode().split())
    said = "".join(character for character in said if character.isprintable())
    return (f"{type(error).__name__}: {said}" if said else type(error).__name__)[:most]
