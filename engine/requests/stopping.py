"""What ends a request's output before its limit: stop tokens, stop strings, and the model's own end of sequence."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.requests.fields import MAX_TOKEN_ID, shown, whole

MAX_STOP_TOKENS = 64
MAX_STOP_STRINGS = 16
MAX_STOP_CHARACTERS = 256
"""Of one stop string. All three bound what a request can cost the batch it runs in, for each of its tokens."""


@dataclass(frozen=True, slots=True)
class StopRules:
    """A request's own: the output ends with a token of ``token_ids``, or before the first of ``strings`` in its text;
    and with the model's end of sequence unless ``ignore_eos``.

    Raises ValueError, naming the field, for too many or for what can never match.
    """

    token_ids: frozenset[int] = frozenset()
    strings: tuple[str, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_ids", _ids(self.token_ids))
        object.__setattr__(self, "strings", _strings(self.strings))
        if not isinstance(self.ignore_eos, bool):
            raise ValueError(f"ignore_eos: {shown(self.ignore_eos)} is neither true nor false")

    def stop_ids(self, eos_ids: frozenset[int]) -> frozenset[int]:
        """The tokens that end it, those of the model included where it does not ignore them."""
        return self.token_ids if self.ignore_eos else self.token_ids | eos_ids

    def name(self, token: int) -> str:
        """What ``token``, one of `stop_ids`, is called where it ended an output."""
        return f"stop token {token}" if token in self.token_ids else f"end-of-sequence token {token}"


def _ids(given: Iterable[int]) -> frozenset[int]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ValueError(f"stop_token_ids: {shown(given)} is not a list of token ids")
    found = frozenset(whole("stop_token_ids", token, 0, MAX_TOKEN_ID) for token in given)
    if len(found) > MAX_STOP_TOKENS:
        raise ValueError(f"stop_token_ids: {len(found)} token ids are too many; the most is {MAX_STOP_TOKENS}")
    return found


def _strings(given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise ValueError(f"stop: {shown(given)} is not a list of texts")
    found = [given] if isinstance(given, str) else list(given)
    if len(found) > MAX_STOP_STRINGS:
        raise ValueError(f"stop: {len(found)} strings are too many; the most is {MAX_STOP_STRINGS}")
    for string in found:
        if not isinstance(string, str) or not string:
            raise ValueError(f"stop: {shown(string)} is not a text of at least one character")
        if len(string) > MAX_STOP_CHARACTERS:
            raise ValueError(f"stop: a string has {len(string)} characters; the most is {MAX_STOP_CHARACTERS}")
        if any("\ud800" <= character <= "\udfff" for character in string):
            raise ValueError(f"stop: {shown(string)} has half of a surrogate pair, which no output can contain")
    return tuple(dict.fromkeys(found))
