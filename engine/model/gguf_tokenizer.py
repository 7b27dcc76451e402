"""The tokenizer in a GGUF file's metadata: byte-level BPE (GPT-2: Radford et al., 2019) or SentencePiece (Kudo and
Richardson, 2018), whose scores are turned into merges."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from engine.model.tokenizer import TURN_MARKS, TokenizerError
from engine.model.vocabulary_tokenizer import SPACE, VocabularyTokenizer, byte_level_text, sentencepiece_text

_Item = TypeVar("_Item", str, int, float)

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
"""`tokenizer.ggml.token_type` codes."""

_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
_END_NAMES = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<end_of_turn>")

_CONTRACTIONS = r"'(?i:[sdmt]|ll|ve|re)"


def _splits(*patterns: str) -> Any:
    """Byte-level, with each pattern's matches apart."""
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _words(digits: str) -> Any:
    """Words with the one character before them, so many digits, punctuation with the line breaks behind it, spaces."""
    return _splits(
        rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


_GPT2_SPLIT = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
_PRE_TOKENIZERS = {
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _GPT2_SPLIT]),
    "gpt-2": _GPT2_SPLIT,
    "llama-bpe": _words(r"\p{N}{1,3}"),
    "qwen2": _words(r"\p{N}"),
    "default": _splits(
        r"[\p{P}\$\+<=>\^~\|]+",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
        r"\p{N}+",
        r"[0-9][0-9][0-9]",
    ),
}
_WHOLE_WORDS_FIRST = ("llama-bpe",)
"""Where a word that is a token is taken as it is, whatever its merges would give."""

_BEGUN = ("llama-bpe",)
"""Where prompts begin with a token of their own unless the file says that they do not."""

_COMPOSED = ("qwen2",)
"""Where characters are composed (NFC) before they are split."""


def gguf_tokenizer(fields: Mapping[str, Any]) -> VocabularyTokenizer:
    """``fields``: the metadata of the file. Raises `TokenizerError` for a kind that is not built in, and for a field that
    makes no sense."""
    own = _Own(fields)
    model, tokens = own.text("model"), own.items("tokens", str)
    kinds = [
        _CONTROL if kind == _USER_DEFINED and token in TURN_MARKS else kind
        for token, kind in zip(tokens, own.beside_tokens("token_type", int, _NORMAL), strict=True)
    ]
    specials = {token: number for number, token in enumerate(tokens) if kinds[number] == _CONTROL}
    if model == "gpt2":
        backend, spelled = _byte_level(own), byte_level_text
    elif model == "llama":
        backend, spelled = _sentencepiece(own, kinds), sentencepiece_text
    else:
        raise TokenizerError(f"tokenizer model {model!r} is not built in; 'gpt2' (byte-level BPE) and 'llama' are")
    defined = {number: token for number, token in enumerate(tokens) if kinds[number] == _USER_DEFINED}
    backend.add_tokens([AddedToken(token, special=False, normalized=False) for token in defined.values()])
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    if model == "llama":
        defined = {number: token.replace(SPACE, " ") for number, token in defined.items()}

    def text(token: int) -> bytes:
        return defined[token].encode() if token in defined else spelled(tokens[token])

    bos, eos = own.token("bos_token_id"), own.token("eos_token_id")
    begins = own.flag("add_bos_token", model == "llama" or own.text("pre", "gpt-2") in _BEGUN)
    tokenizer = VocabularyTokenizer(
        backend,
        dict(enumerate(tokens)),
        specials,
        text,
        eos_ids=_end_ids(own, specials),
        start_ids=(bos,) if bos is not None and begins else (),
        strips_space=model == "llama" and own.flag("add_space_prefix", True),
    )
    template = fields.get("tokenizer.chat_template")
    bos_text, eos_text = ("" if each is None else tokens[each] for each in (bos, eos))
    tokenizer.use_template(template if isinstance(template, str) else None, bos_text, eos_text)
    return tokenizer


class _Own:
    """The tokenizer's part of a file's metadata. Refuses by name what is not of the type that is asked for."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def has(self, name: str) -> bool:
        return self._get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        value = self._get(name)
        if value is None:
            value = default
        if value is None:
            self._lacks(name)
        if not isinstance(value, str):
            self._refuse(name, "is no text")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._get(name)
        if value is not None and not isinstance(value, bool):
            self._refuse(name, "is neither true nor false")
        return default if value is None else value

    def token(self, name: str) -> int | None:
        """A token's number, None where the file names none."""
        value = self._get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(self.items("tokens", str)):
            self._refuse(name, "is no token's number")
        return value

    def items(self, name: str, of: type[_Item]) -> list[_Item]:
        value = self._get(name)
        if value is None:
            self._lacks(name)
        if not isinstance(value, list) or not all(isinstance(each, of) for each in value):
            self._refuse(name, f"is no list of {of.__name__}")
        return value

    def beside_tokens(self, name: str, of: type[_Item], default: _Item | None = None) -> list[_Item]:
        """A list with an entry for each token; of ``default`` where there is none."""
        count = len(self.items("tokens", str))
        if default is not None and not self.has(name):
            return [default] * count
        if len(found := self.items(name, of)) != count:
            self._refuse(name, f"tells of {len(found)} tokens, there are {count}")
        return found

    def _get(self, name: str) -> Any:
        return self._fields.get(f"tokenizer.ggml.{name}")

    def _lacks(self, name: str) -> NoReturn:
        raise TokenizerError(f"the file's tokenizer lacks tokenizer.ggml.{name}")

    def _refuse(self, name: str, why: str) -> NoReturn:
        raise TokenizerError(f"tokenizer.ggml.{name} {why}")


def _end_ids(own: _Own, specials: Mapping[str, int]) -> frozenset[int]:
    ids = {each for key in _END_KEYS if (each := own.token(key)) is not None}
    return frozenset(ids | {specials[name] for name in _END_NAMES if name in specials})


def _byte_level(own: _Own) -> Tokenizer:
    merges, pre = own.items("merges", str), own.text("pre", "gpt-2")
    if pre not in _PRE_TOKENIZERS:
        raise TokenizerError(f"pre-tokeniser {pre!r} is not one of {', '.join(sorted(_PRE_TOKENIZERS))}")
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    backend = _bpe(own.items("tokens", str), pairs, ignore_merges=pre in _WHOLE_WORDS_FIRST)
    backend.pre_tokenizer = _PRE_TOKENIZERS[pre]
    if pre in _COMPOSED:
        backend.normalizer = normalizers.NFC()
    return backend


def _bpe(tokens: Sequence[str], merges: list[tuple[str, str]], **more: Any) -> Tokenizer:
    vocab = {token: number for number, token in enumerate(tokens)}
    try:
        return Tokenizer(models.BPE(vocab=vocab, merges=merges, **more))
    except Exception as error:  # the library raises plain Exception for a merge outside the vocabulary
        raise TokenizerError(f"the file's merges do not fit its vocabulary: {error}") from None


def _sentencepiece(own: _Own, kinds: Sequence[int]) -> Tokenizer:
    tokens, scores = own.items("tokens", str), own.beside_tokens("scores", float)
    pieces = {token: number for number, token in enumerate(tokens) if kinds[number] in (_NORMAL, _USER_DEFINED)}
    ranked = sorted((token for token in pieces if len(token) > 1), key=lambda token: -scores[pieces[token]])
    merges = [
        (token[:cut], token[cut:])
        for token in ranked
        for cut in range(1, len(token))
        if token[:cut] in pieces and token[cut:] in pieces
    ]
    unknown = next((token for number, token in enumerate(tokens) if kinds[number] == _UNKNOWN), None)
    backend = _bpe(tokens, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    spaces = [normalizers.Prepend(SPACE)] if own.flag("add_space_prefix", True) else []
    backend.normalizer = normalizers.Sequence([*spaces, normalizers.Replace(" ", SPACE)])
    return backend
