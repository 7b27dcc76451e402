"""Text to token ids and back, chat prompts among it.

`BpeTokenizer` is built from a GGUF file's vocabulary and merges (byte-level BPE as in GPT-2: Radford et al., 2019).
`ByteTokenizer` serves random weights. Decoding works on bytes, so that a character cut between two tokens is shown when
it is complete.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from engine.model.chat_template import CHATML, ChatTemplate
from engine.model.chat_text import ChatText

_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4
"""`tokenizer.ggml.token_type` codes."""

_CHATML_START, _CHATML_END = "<|im_start|>", "<|im_end|>"


class TokenizerError(ValueError):
    """The file's tokenizer is not one that is understood; the text says which part."""


class TextTokenizer(Protocol):
    """What the engine needs of a tokenizer."""

    eos_ids: frozenset[int]
    chat_template: ChatTemplate | None
    """How a conversation becomes a prompt; None: the model was not made for conversations."""

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids. ``special``: whether the text may name special tokens; without it they are plain text."""
        ...

    def encode_chat(self, text: ChatText) -> list[int]:
        """Token ids of what ``chat_template`` rendered. What people wrote is plain text there and cannot forge a turn."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """UTF-8 bytes of one token, possibly part of a character; a special token's are empty."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Text without special tokens; bytes that are not UTF-8 become U+FFFD."""
        ...


def _decode(tokenizer: TextTokenizer, ids: Iterable[int]) -> str:
    return b"".join(tokenizer.token_bytes(token) for token in ids).decode("utf-8", errors="replace")


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins: character -> byte. Printable Latin-1 stands for itself, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(256 + place): byte for place, byte in enumerate(hidden)})
    return alphabet


_DIGITS = pre_tokenizers.Digits(individual_digits=True)
_GPT2_SPLIT = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
_PRE_TOKENIZERS = {
    "smollm": pre_tokenizers.Sequence([_DIGITS, _GPT2_SPLIT]),
    "gpt-2": _GPT2_SPLIT,
}


class BpeTokenizer:
    """Byte-level BPE with the vocabulary, merges and special tokens of a GGUF file."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        """``fields``: the metadata of the file. Raises `TokenizerError` for a kind that is not built in."""
        try:
            tokens: list[str] = fields["tokenizer.ggml.tokens"]
            kinds: list[int] = fields.get("tokenizer.ggml.token_type") or [_NORMAL] * len(tokens)
            merges: list[str] = fields["tokenizer.ggml.merges"]
            model, pre = fields["tokenizer.ggml.model"], fields.get("tokenizer.ggml.pre", "gpt-2")
        except KeyError as error:
            raise TokenizerError(f"the file's tokenizer lacks {error.args[0]}") from None
        if model != "gpt2":
            raise TokenizerError(f"tokenizer model {model!r} is not built in; byte-level BPE ('gpt2') is")
        if pre not in _PRE_TOKENIZERS:
            raise TokenizerError(f"pre-tokeniser {pre!r} is not one of {', '.join(sorted(_PRE_TOKENIZERS))}")
        self._tokens = tokens
        self._specials = {
            token: number
            for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
            if kind in (_CONTROL, _USER_DEFINED)
        }
        pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
        try:
            backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs))
        except Exception as error:  # the library raises plain Exception for a merge outside the vocabulary
            raise TokenizerError(f"the file's merges do not fit its vocabulary: {error}") from None
        backend.pre_tokenizer = _PRE_TOKENIZERS[pre]
        self._plain = backend
        self._with_specials = Tokenizer.from_str(backend.to_str())
        self._with_specials.add_special_tokens(
            [AddedToken(token, special=True, normalized=False) for token in self._specials]
        )
        self._alphabet = byte_alphabet()
        self._special_ids = frozenset(self._specials.values())
        self._bytes: dict[int, bytes] = {}
        self.eos_ids = self._end_ids(fields)
        self.chat_template = self._chat_template(fields)

    def _end_ids(self, fields: Mapping[str, Any]) -> frozenset[int]:
        ids = {int(fields[key]) for key in _END_KEYS if key in fields}
        return frozenset(ids | {self._specials[name] for name in _END_NAMES if name in self._specials})

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        backend = self._with_specials if special else self._plain
        ids: list[int] = backend.encode(text, add_special_tokens=False).ids
        return ids

    def _chat_template(self, fields: Mapping[str, Any]) -> ChatTemplate | None:
        source = fields.get("tokenizer.chat_template")
        if not source and {_CHATML_START, _CHATML_END} <= self._specials.keys():
            source = CHATML
        if not isinstance(source, str) or not source:
            return None
        bos, eos = (self._spelling(fields.get(f"tokenizer.ggml.{name}_token_id")) for name in ("bos", "eos"))
        return ChatTemplate(source, bos, eos, self._specials)

    def _spelling(self, token: Any) -> str:
        return self._tokens[token] if isinstance(token, int) and 0 <= token < len(self._tokens) else ""

    def encode_chat(self, text: ChatText) -> list[int]:
        return text.ids(self._specials, self.encode)

    def token_bytes(self, token: int) -> bytes:
        if token in self._special_ids or not 0 <= token < len(self._tokens):
            return b""
        if (known := self._bytes.get(token)) is None:
            known = b"".join(
                bytes([self._alphabet[char]]) if char in self._alphabet else char.encode()
                for char in self._tokens[token]
            )
            self._bytes[token] = known
        return known

    def token_name(self, token: int) -> str:
        """The token as the vocabulary spells it, special ones included."""
        return self._tokens[token]

    def decode(self, ids: Iterable[int]) -> str:
        return _decode(self, ids)


_END_KEYS = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
_END_NAMES = ("<|im_end|>", "<|endoftext|>")


class ByteTokenizer:
    """One token a byte, then the specials, which chats alone name; ids above, which random weights produce too: ``·``."""

    START, END, STOP = 256, 257, 258

    def __init__(self) -> None:
        self.eos_ids = frozenset({self.STOP})
        self.chat_template: ChatTemplate | None = ChatTemplate(CHATML, specials=(_CHATML_START, _CHATML_END))

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """UTF-8 bytes. Special tokens have no spelling here, so ``special`` changes nothing."""
        return list(text.encode("utf-8", errors="replace"))

    def encode_chat(self, text: ChatText) -> list[int]:
        return text.ids({_CHATML_START: self.START, _CHATML_END: self.END}, self.encode)

    def token_bytes(self, token: int) -> bytes:
        if 0 <= token < 256:
            return bytes([token])
        return b"" if token <= self.STOP else "·".encode()

    def decode(self, ids: Iterable[int]) -> str:
        return _decode(self, ids)
