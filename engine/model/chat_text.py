"""What a chat template said: text in which the special tokens that it named itself are told from what people wrote.

A special token is marked by a number between two noncharacters of Unicode, which nobody's text has while a template is
rendered. So a message that spells ``<|im_end|>`` stays text, whatever the template does with it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
_STAND_INS = range(0xFDD2, 0xFDF0)
"""Noncharacters that stand for the first characters of special tokens, see `SpecialWords.hide`."""

_FOREIGN = re.compile("[\ufdd0-\ufdef]")


class ChatText(str):
    """A rendered prompt. As a text it is what a person would read; ``parts`` are its pieces in order, and of each whether it
    is a special token."""

    parts: tuple[tuple[str, bool], ...]

    def __new__(cls, parts: Iterable[tuple[str, bool]]) -> "ChatText":
        kept = tuple(part for part in parts if part[0])
        text = super().__new__(cls, "".join(piece for piece, _ in kept))
        text.parts = kept
        return text

    def ids(self, special: Mapping[str, int], encode: Callable[[str], list[int]]) -> list[int]:
        """Token ids: ``special`` has those of special tokens by their spelling, ``encode`` makes them of plain text. A
        special token that is unknown is plain text too."""
        ids: list[int] = []
        plain = ""
        for piece, is_special in self.parts:
            if is_special and (token := special.get(piece)) is not None:
                ids += [*encode(plain), token] if plain else [token]
                plain = ""
            else:
                plain += piece
        return [*ids, *encode(plain)] if plain else ids


class SpecialWords:
    """The spellings of a model's special tokens."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = sorted({word for word in words if word.strip()}, key=lambda word: (-len(word), word))
        self._places = {word: place for place, word in enumerate(self._words)}
        self._pattern = _any_of(self._words)
        self._pieced: re.Pattern[str] | None = None
        self._hidden: dict[int, str] = {}

    def mark(self, text: str) -> str:
        """``text``, which the template brought, with its special tokens marked."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"{_OPEN}{self._places[found.group()]}{_CLOSE}", text)

    def clean(self, text: str) -> str:
        """``text``, which somebody else brought: it can neither mark nor begin a special token."""
        return _FOREIGN.sub("\ufffd", text).translate(self._hidden)

    def split(self, rendered: str) -> ChatText:
        """What was rendered, in parts."""
        parts: list[tuple[str, bool]] = []
        for place, piece in enumerate(re.split(f"{_OPEN}([0-9]+){_CLOSE}", rendered)):
            if place % 2:
                parts.append((self._words[int(piece)], True))
                continue
            words = [piece] if self._pieced is None else self._pieced.split(piece)
            parts += [(self._shown(word), bool(odd % 2)) for odd, word in enumerate(words)]
        return ChatText(parts)

    def learn(self, rendered: ChatText) -> None:
        """``rendered``: a conversation of words without special tokens. Any that is spelled in its plain parts was put
        together from pieces, such as ``'<|' + role + '|>'``, and counts from now on wherever it is spelled; so that people
        cannot spell it, the characters that such tokens begin with have stand-ins in what they wrote."""
        plain = [piece for piece, is_special in rendered.parts if not is_special]
        found = {word for word in self._words for piece in plain if word in piece}
        firsts = sorted({word[0] for word in found if not word[0].isalnum() and not word[0].isspace()})
        if not firsts or len(firsts) > len(_STAND_INS):
            return
        self._hidden = {ord(first): chr(stand_in) for first, stand_in in zip(firsts, _STAND_INS, strict=False)}
        pattern = _any_of([word for word in self._words if word[0] in firsts])
        assert pattern is not None
        self._pieced = re.compile(f"({pattern.pattern})")

    def _shown(self, text: str) -> str:
        if not self._hidden:
            return text
        return text.translate({ord(stand_in): chr(first) for first, stand_in in self._hidden.items()})


def _any_of(words: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(re.escape, words))) if words else None


def cleaned(value: Any, clean: Callable[[str], str], place: str, depth: int = 32) -> Any:
    """A copy of ``value``, which is what JSON can say, with all texts in it ``clean``. Raises ValueError, beginning with
    ``place``, for anything else and for what is nested deeper than ``depth``."""
    if isinstance(value, str):
        return clean(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth == 0:
        raise ValueError(f"{place}: nested too deeply for a chat template")
    if isinstance(value, Mapping):
        return {
            clean(str(key)): cleaned(each, clean, f"{place}.{str(key)[:32]}", depth - 1) for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [cleaned(each, clean, f"{place}[{number}]", depth - 1) for number, each in enumerate(value)]
    raise ValueError(f"{place}: a {type(value).__name__} is nothing that a chat template can be given")
