"""The tokenizer in a GGUF file's metadata: byte-level BPE (GPT-2: Radford et al., 2019) or SentencePiece (Kudo and
Richardson, 2018), whose scores are turned into merges."""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from engine.model.tokenizer import TURN_MARKS, TokenizerError
from engine.model.vocabulary_tokenizer import SPACE, VocabularyTokenizer, byte_level_text, sentencepiece_text

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

_COMPOSED = ("qwen2",)
"""Where characters are composed (NFC) before they are split."""


def gguf_tokenizer(fields: Mapping[str, Any]) -> VocabularyTokenizer:
    """``fields``: the metadata of the file. Raises `TokenizerError` for a kind that is not built in."""
    own = _Own(fields)
    tokens: Sequence[str] = own.need("tokens")
    kinds: Sequence[int] = own.get("token_type") or [_NORMAL] * len(tokens)
    if len(kinds) != len(tokens):
        raise TokenizerError(f"tokenizer.ggml.token_type tells of {len(kinds)} tokens, there are {len(tokens)}")
    model = own.need("model")
    kinds = [
        _CONTROL if kind == _USER_DEFINED and token in TURN_MARKS else kind
        for token, kind in zip(tokens, kinds, strict=True)
    ]
    specials = {token: number for number, token in enumerate(tokens) if kinds[number] == _CONTROL}
    if model == "gpt2":
        backend, text = _byte_level(own, tokens), byte_level_text
    elif model == "llama":
        backend, text = _sentencepiece(own, tokens, kinds), sentencepiece_text
    else:
        raise TokenizerError(f"tokenizer model {model!r} is not built in; 'gpt2' (byte-level BPE) and 'llama' are")
    defined = [token for number, token in enumerate(tokens) if kinds[number] == _USER_DEFINED]
    backend.add_tokens([AddedToken(token, special=False, normalized=False) for token in defined])
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    as_they_are = frozenset(number for number in range(len(tokens)) if kinds[number] == _USER_DEFINED)
    bos = own.get("bos_token_id")
    starts = own.get("add_bos_token")
    if starts is None:
        starts = model == "llama"
    tokenizer = VocabularyTokenizer(
        backend,
        dict(enumerate(tokens)),
        specials,
        lambda token: (
            tokens[token].replace(SPACE, " ").encode()
            if token in as_they_are and model == "llama"
            else tokens[token].encode()
            if token in as_they_are
            else text(tokens[token])
        ),
        eos_ids=_end_ids(own, specials),
        start_ids=(bos,) if starts and isinstance(bos, int) and 0 <= bos < len(tokens) else (),
        strips_space=model == "llama" and _adds_space(own),
    )
    template = fields.get("tokenizer.chat_template")
    spelled = (own.get(f"{name}_token_id") for name in ("bos", "eos"))
    bos_text, eos_text = (tokens[each] if isinstance(each, int) and 0 <= each < len(tokens) else "" for each in spelled)
    tokenizer.use_template(template if isinstance(template, str) else None, bos_text, eos_text)
    return tokenizer


class _Own:
    """The tokenizer's part of a file's metadata."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def get(self, name: str) -> Any:
        return self._fields.get(f"tokenizer.ggml.{name}")

    def need(self, name: str) -> Any:
        if (value := self.get(name)) is None:
            raise TokenizerError(f"the file's tokenizer lacks tokenizer.ggml.{name}")
        return value


def _end_ids(own: _Own, specials: Mapping[str, int]) -> frozenset[int]:
    ids = {int(each) for key in _END_KEYS if (each := own.get(key)) is not None}
    return frozenset(ids | {specials[name] for name in _END_NAMES if name in specials})


def _byte_level(own: _Own, tokens: Sequence[str]) -> Tokenizer:
    merges, pre = own.need("merges"), own.get("pre") or "gpt-2"
    if pre not in _PRE_TOKENIZERS:
        raise TokenizerError(f"pre-tokeniser {pre!r} is not one of {', '.join(sorted(_PRE_TOKENIZERS))}")
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    backend = _bpe(tokens, pairs, ignore_merges=pre in _WHOLE_WORDS_FIRST)
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


def _adds_space(own: _Own) -> bool:
    return own.get("add_space_prefix") is not False


def _sentencepiece(own: _Own, tokens: Sequence[str], kinds: Sequence[int]) -> Tokenizer:
    scores: Sequence[float] = own.need("scores")
    if len(scores) != len(tokens):
        raise TokenizerError(f"tokenizer.ggml.scores tells of {len(scores)} tokens, there are {len(tokens)}")
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
    spaces = [normalizers.Prepend(SPACE)] if _adds_space(own) else []
    backend.normalizer = normalizers.Sequence([*spaces, normalizers.Replace(" ", SPACE)])
    return backend
