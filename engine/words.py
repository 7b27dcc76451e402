"""Small words for sentences about numbers and faults."""


def counted(count: int, noun: str, *, more: bool = False) -> str:
    """``1 block``, ``2 blocks``; with ``more``: ``1 more block``. For nouns whose plural takes an s."""
    return f"{count}{' more' if more else ''} {noun}{'' if count == 1 else 's'}"


def flat(text: str, most: int = 300) -> str:
    """``text`` on one line that can be sent and shown, of ``most`` characters."""
    words = " ".join(text.encode("utf-8", "replace").decode().split())
    shown = "".join(character for character in words if character.isprintable())
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def one_line(error: BaseException, most: int = 300) -> str:
    """Its kind and what it says, on one line that can be sent and shown."""
    said, kind = flat(str(error), most), type(error).__name__
    return flat(f"{kind}: {said}" if said else kind, most)
