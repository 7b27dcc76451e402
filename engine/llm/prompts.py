"""The forms in which prompts are given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.model.tokenizer import TextTokenizer
from engine.requests.fields import shown

Prompt = str | Mapping[str, Any] | Sequence[int]
"""A text, token ids, or a dictionary with ``prompt`` or ``prompt_token_ids``, and perhaps ``cache_salt``."""

_KEYS = {"prompt", "prompt_token_ids", "cache_salt"}


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """``text``: None where it was given as token ids."""

    token_ids: list[int]
    text: str | None = None
    cache_salt: str = ""


def read_prompts(given: Prompt | Sequence[Prompt], tokenizer: TextTokenizer) -> list[ReadPrompt]:
    """One or several. Raises ValueError, naming the place, for what is none."""
    if isinstance(given, str | Mapping) or _is_ids(given):
        return [_read(given, "prompts", tokenizer)]
    if isinstance(given, bytes) or not isinstance(given, Sequence):
        raise ValueError(f"prompts: {shown(given)} is neither a prompt nor a list of them")
    return [_read(each, f"prompts[{place}]", tokenizer) for place, each in enumerate(given)]


def _read(given: Any, place: str, tokenizer: TextTokenizer) -> ReadPrompt:
    if isinstance(given, str):
        return ReadPrompt(tokenizer.encode_prompt(_whole(given, place)), given)
    if _is_ids(given):
        return ReadPrompt([int(token) for token in given])
    if not isinstance(given, Mapping):
        raise ValueError(f"{place}: {shown(given)} is neither a text, nor token ids, nor a dictionary with one of them")
    for name in given.keys() - _KEYS:
        raise ValueError(f"{place}: {shown(name)} is not one of {', '.join(sorted(_KEYS))}")
    text, ids, salt = given.get("prompt"), given.get("prompt_token_ids"), given.get("cache_salt", "")
    if ids is not None:
        if not _is_ids(ids):
            raise ValueError(f"{place}.prompt_token_ids: {shown(ids)} is not a list of token ids")
        return ReadPrompt([int(token) for token in ids], text, salt)
    if not isinstance(text, str):
        raise ValueError(f"{place}.prompt: {shown(text)} is not a text")
    return ReadPrompt(tokenizer.encode_prompt(_whole(text, f"{place}.prompt")), text, salt)


def _is_ids(given: Any) -> bool:
    """Whether it is a list of numbers, or empty in a form that can be nothing else."""
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__iter__") or not hasattr(given, "__len__"):
        return False
    return len(given) > 0 and all(hasattr(token, "__index__") and not isinstance(token, bool) for token in given)


def _whole(text: str, place: str) -> str:
    """``text``, which a tokenizer would read with a question mark for each half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{place}: U+{ord(text[error.start]):04X} is half of a surrogate pair") from None
    return text
