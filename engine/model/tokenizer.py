"""Text to token ids and back, chat prompts among it.

`engine.model.vocabulary_tokenizer` has the one for models out of files, `ByteTokenizer` serves random weights. Decoding
works on bytes, so that a character cut between two tokens is shown when it is complete.
"""

from collections.abc import Iterable
from typing import Protocol

from engine.model.chat_template import CHATML, ChatTemplate
from engine.model.chat_text import ChatText

CHATML_START, CHATML_END = "<|im_start|>", "<|im_end|>"


TURN_MARKS = frozenset(
    {
        CHATML_START,
        CHATML_END,
        "<|endoftext|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<start_of_turn>",
        "<end_of_turn>",
    }
)
"""Tokens that separate turns. Some files list them among ordinary ones; nobody's text may spell them, and none is shown."""


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

    def encode_prompt(self, text: str) -> list[int]:
        """Token ids of a whole prompt in plain text: with what the model begins every text with."""
        ...

    def encode_chat(self, text: ChatText) -> list[int]:
        """Token ids of what ``chat_template`` rendered. What people wrote is plain text there and cannot forge a turn."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """UTF-8 bytes of one token, possibly part of a character; a special token's are empty."""
        ...

    def token_name(self, token: int) -> str:
        """One of the vocabulary as that spells it, special ones included."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Text without special tokens; bytes that are not UTF-8 become U+FFFD."""
        ...


class ByteTokenizer:
    """One token a byte, then the specials, which chats alone name; ids above, which random weights produce too: ``·``."""

    START, END, STOP = 256, 257, 258

    def __init__(self) -> None:
        self.eos_ids = frozenset({self.STOP})
        self.chat_template: ChatTemplate | None = ChatTemplate(CHATML, specials=(CHATML_START, CHATML_END))

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """UTF-8 bytes. Special tokens have no spelling here, so ``special`` changes nothing."""
        return list(text.encode("utf-8", errors="replace"))

    def encode_prompt(self, text: str) -> list[int]:
        return self.encode(text)

    def encode_chat(self, text: ChatText) -> list[int]:
        return text.ids({CHATML_START: self.START, CHATML_END: self.END}, self.encode)

    def token_bytes(self, token: int) -> bytes:
        if 0 <= token < 256:
            return bytes([token])
        return b"" if token <= self.STOP else "·".encode()

    def token_name(self, token: int) -> str:
        names = {self.START: CHATML_START, self.END: CHATML_END, self.STOP: "<|endoftext|>"}
        return names.get(token) or self.token_bytes(token).decode("latin-1" if token < 256 else "utf-8")

    def decode(self, ids: Iterable[int]) -> str:
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")
