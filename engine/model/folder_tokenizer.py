"""The tokenizer in a Hugging Face folder: ``tokenizer.json``, and what else says how texts begin and end."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from engine.model.errors import ModelError
from engine.model.files.folder import CONFIG, has, read_json, read_text
from engine.model.tokenizer import TURN_MARKS
from engine.model.vocabulary_tokenizer import (
    VocabularyTokenizer,
    byte_level_text,
    sentencepiece_text,
)

_FILE, _SETTINGS, _GENERATION = "tokenizer.json", "tokenizer_config.json", "generation_config.json"
_BYTE_LEVEL, _SENTENCEPIECE = {"ByteLevel"}, {"ByteFallback", "Metaspace", "Replace"}


def folder_tokenizer(folder: Path) -> VocabularyTokenizer:
    """Raises `ModelError`, naming the file, for a tokenizer that is missing, damaged or of a kind that is not built in."""
    path = folder / _FILE
    source = read_text(folder, _FILE)
    try:
        parts = json.loads(source)
        plain_marks = [each for each in parts["added_tokens"] or () if each["content"] in TURN_MARKS]
        if not all(each["special"] for each in plain_marks):
            for each in plain_marks:
                each["special"] = True
            source = json.dumps(parts)
        backend = Tokenizer.from_str(source)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the library is no Exception
        raise ModelError(f"{path} is no tokenizer: {str(error)[:200]}") from None
    settings = read_json(folder, _SETTINGS) if has(folder, _SETTINGS) else {}
    added = backend.get_added_tokens_decoder()
    specials = {token.content: number for number, token in added.items() if token.special}
    names = {number: name for name, number in backend.get_vocab(with_added_tokens=True).items()}
    piece = _token_text(parts, path)
    written = {number: token.content.encode() for number, token in added.items()}

    def text(token: int) -> bytes:
        return written[token] if token in written else piece(names[token])

    bos, eos = (_spelling(settings.get(name)) for name in ("bos_token", "eos_token"))
    ends = _ids_named(folder, "eos_token_id") | ({specials[eos]} if eos in specials else set())
    tokenizer = VocabularyTokenizer(
        backend,
        names,
        specials,
        text,
        eos_ids=frozenset(ends),
        start_ids=_start(backend, settings, specials.get(bos)),
        strips_space=_strips_space(parts),
        continued=_continued(parts),
    )
    tokenizer.use_template(_template(folder, settings), bos, eos)
    return tokenizer


def _token_text(parts: Mapping[str, Any], path: Path) -> Callable[[str], bytes]:
    kinds = {str(part.get("type")) for part in _within(parts.get("decoder"))}
    if kinds & _BYTE_LEVEL:
        return byte_level_text
    if kinds & _SENTENCEPIECE:
        return sentencepiece_text
    shown = ", ".join(sorted(kinds)) or "none"
    raise ModelError(f"{path}: decoder is {shown}, which is not built in; byte-level and SentencePiece-like ones are")


def _within(part: Any) -> Iterator[dict[str, Any]]:
    """A part of the file and those in it."""
    if isinstance(part, dict):
        yield part
        for name in ("decoders", "normalizers", "pretokenizers"):
            for each in part.get(name) or ():
                yield from _within(each)


def _strips_space(parts: Mapping[str, Any]) -> bool:
    """Whether texts get a space put before them."""
    prepended = any(part.get("type") == "Prepend" for part in _within(parts.get("normalizer")))
    return prepended or any(
        part.get("type") == "Metaspace" and part.get("prepend_scheme", "always") != "never"
        for part in _within(parts.get("pre_tokenizer"))
    )


def _continued(parts: dict[str, Any]) -> Tokenizer | None:
    """The same without the space before the text, where only what a text begins with gets one."""
    first = [part for part in _within(parts.get("pre_tokenizer")) if part.get("prepend_scheme") == "first"]
    if not first:
        return None
    for part in first:
        part["prepend_scheme"] = "never"
    return Tokenizer.from_str(json.dumps(parts))


def _start(backend: Tokenizer, settings: Mapping[str, Any], bos: int | None) -> tuple[int, ...]:
    """What every prompt begins with: as the settings say, else as ``tokenizer.json`` does it."""
    adds = settings.get("add_bos_token")
    if adds is False:
        return ()
    if adds is True and bos is not None:
        return (bos,)
    plain, full = (backend.encode("a", add_special_tokens=adds).ids for adds in (False, True))
    places = range(len(full) - len(plain) + 1)
    return next((tuple(full[:place]) for place in places if full[place : place + len(plain)] == plain), ())


def _spelling(token: Any) -> str:
    """Settings name a token by its text, or by that among other things."""
    text = token.get("content") if isinstance(token, Mapping) else token
    return text if isinstance(text, str) else ""


def _ids_named(folder: Path, field: str) -> set[int]:
    """One id or several, out of two files."""
    ids: set[int] = set()
    for name in (CONFIG, _GENERATION):
        if not has(folder, name):
            continue
        value = read_json(folder, name).get(field)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, int) and not isinstance(each, bool) and each >= 0:
                ids.add(each)
            elif each is not None:
                raise ModelError(f"{folder / name}: {field} is {str(each)[:60]!r}, which is no token's number")
    return ids


def _template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """A file of its own comes first; of several the one called default."""
    if has(folder, "chat_template.jinja"):
        return read_text(folder, "chat_template.jinja")
    source = settings.get("chat_template")
    if has(folder, "chat_template.json"):
        source = read_json(folder, "chat_template.json").get("chat_template", source)
    if isinstance(source, list):
        named = {each.get("name"): each.get("template") for each in source if isinstance(each, Mapping)}
        source = named.get("default")
    return source if isinstance(source, str) else None
