"""A tokenizer with a file's vocabulary: `tokenizers` does the splitting, this the special tokens and the bytes."""

from collections.abc import Callable, Iterable, Mapping

from tokenizers import Tokenizer

from engine.model.chat_template import CHATML, ChatTemplate
from engine.model.chat_text import ChatText
from engine.model.tokenizer import CHATML_END, CHATML_START

TokenText = Callable[[int], bytes]
"""UTF-8 bytes of a token that is not special, possibly part of a character."""


class VocabularyTokenizer:
    """One of the library's tokenizers, and what it does not say of a model."""

    def __init__(
        self,
        backend: Tokenizer,
        names: Mapping[int, str],
        specials: Mapping[str, int],
        text: TokenText,
        *,
        eos_ids: frozenset[int],
        start_ids: tuple[int, ...] = (),
        strips_space: bool = False,
        continued: Tokenizer | None = None,
    ) -> None:
        """``backend`` has the special tokens among its added ones. ``names``: all tokens as the file spells them.
        ``start_ids``: what every prompt begins with. ``strips_space``: a space is put before every text, and is not part
        of it. ``continued``: for what comes after a special token, where that is split otherwise."""
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        self._plain = backend
        self._finding: Tokenizer | None = None
        """The same, but that it finds special tokens in the text; made when it is asked for, because it takes a second where
        the vocabulary is large."""

        self._continued = self._plain if continued is None else continued
        self._continued.encode_special_tokens = True
        self._names, self._specials, self._text = names, specials, text
        self._special_ids = frozenset(specials.values())
        self._strips_space = strips_space
        self._bytes: dict[int, bytes] = {}
        self.eos_ids, self.start_ids = eos_ids, start_ids
        self.chat_template: ChatTemplate | None = None

    def use_template(self, source: str | None, bos: str = "", eos: str = "") -> None:
        """The file's chat template, if it has one; ``bos``, ``eos``: how those tokens are spelled."""
        if not source and {CHATML_START, CHATML_END} <= self._specials.keys():
            source = CHATML
        self.chat_template = ChatTemplate(source, bos, eos, self._specials) if source else None

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        if not special:
            return _ids(self._plain, text)
        if self._finding is None:
            self._finding = Tokenizer.from_str(self._plain.to_str())  # which forgets that it must not
        return _ids(self._finding, text)

    def encode_prompt(self, text: str) -> list[int]:
        return [*self.start_ids, *self.encode(text)]

    def encode_chat(self, text: ChatText) -> list[int]:
        begins_plain = bool(text.parts) and not text.parts[0][1]
        backends = iter((self._plain,) if begins_plain else ())
        return text.ids(self._specials, lambda piece: _ids(next(backends, self._continued), piece))

    def token_bytes(self, token: int) -> bytes:
        if token in self._special_ids or token not in self._names:
            return b""
        if (known := self._bytes.get(token)) is None:
            known = self._bytes[token] = self._text(token)
        return known

    def token_name(self, token: int) -> str:
        """The token as the vocabulary spells it, special ones included. Models have rows for more than it spells."""
        return self._names.get(token) or f"<token {token}>"

    def decode(self, ids: Iterable[int]) -> str:
        text = b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")
        return text.removeprefix(" ") if self._strips_space else text


def _ids(backend: Tokenizer, text: str) -> list[int]:
    ids: list[int] = backend.encode(text, add_special_tokens=False).ids
    return ids


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins: character -> byte. Printable Latin-1 stands for itself, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(256 + place): byte for place, byte in enumerate(hidden)})
    return alphabet


_ALPHABET = byte_alphabet()

SPACE = "▁"
"""What SentencePiece spells a space as."""


def byte_level_text(name: str) -> bytes:
    """Of a token of byte-level BPE."""
    return b"".join(bytes([_ALPHABET[char]]) if char in _ALPHABET else char.encode() for char in name)


def sentencepiece_text(name: str) -> bytes:
    """Of a token of SentencePiece: ``<0x0A>`` is a byte by itself."""
    if len(name) == 6 and name.startswith("<0x") and name.endswith(">"):
        try:
            return bytes([int(name[3:5], 16)])
        except ValueError:
            pass
    return name.replace(SPACE, " ").encode()
