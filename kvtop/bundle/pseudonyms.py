"""Other names for what could say who it was: ids of requests, classes and tenants, hosts, processes, users."""

import hashlib
import re
import secrets
from typing import Any

from pydantic_core import from_json, to_json

from kvtop.protocol.codec import AnyFrame
from kvtop.protocol.reading import read_frame

_IDS = frozenset({"id", "request_id", "by_id"})
_NAMED = {"label": "class", "host": "host", "name": "engine"}
_GONE = frozenset({"pid", "uid", "http", "workload", "notice"})
_FREE = frozenset({"cause", "detail", "warning", "reason", "rule", "message", "text"})
"""Sentences, in which names of the others may stand."""

MAX_KNOWN = 100_000
"""Names that are looked for in sentences; beyond, sentences are left out."""


MAX_ODD = 2_000
"""The same of those that are no single word, each of which is looked for in every sentence."""


class Pseudonyms:
    """The same name for the same thing throughout one bundle, and another in the next: they are hashed with a secret that
    is forgotten. A word of a sentence that is a name becomes the same."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(16)
        self._known: dict[str, str] = {}
        self._of_several_words: dict[str, str] = {}

    def of(self, kind: str, name: str) -> str:
        """What ``name`` is called instead."""
        other = self._known.get(name)
        if other is None:
            other = self._hashed(kind, name)
            if kind != "class" and len(self._known) <= MAX_KNOWN:  # classes are words like others
                self._known[name] = other
                if _WORD.fullmatch(name) is None and name:
                    self._of_several_words[name] = other
        return other

    def _hashed(self, kind: str, name: str) -> str:
        digest = hashlib.blake2b(name.encode(errors="replace"), key=self._secret, digest_size=5).hexdigest()
        return f"{kind}-{digest}"

    def line(self, line: bytes, frame: AnyFrame) -> tuple[bytes, AnyFrame]:
        """A line of the protocol with other names, and what it says then."""
        raw = from_json(line)
        self._rename(raw, top=True)
        self._retell(raw)
        renamed = to_json(raw, inf_nan_mode="constants") + b"\n"
        told = read_frame(renamed).frame
        assert told is not None  # a type that was known
        return renamed, told

    def _rename(self, value: Any, top: bool = False, inside: str = "") -> None:
        """Names first, everywhere, so that a sentence before them knows them too."""
        if isinstance(value, list):
            for item in value:
                self._rename(item, inside=inside)
        elif isinstance(value, dict):
            for name, item in list(value.items()):
                if name in _GONE:
                    del value[name]
                elif isinstance(item, str) and name in _IDS and not (top and name == "id"):
                    value[name] = self.of("r", item)
                elif isinstance(item, str) and name in _NAMED and (name != "name" or inside == "engine"):
                    value[name] = self.of(_NAMED[name], item)
                else:
                    self._rename(item, inside=name)

    def _retell(self, value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                self._retell(item)
        elif isinstance(value, dict):
            for name, item in value.items():
                if isinstance(item, str):
                    value[name] = self.sentence(item) if name in _FREE else without_places(item)
                else:
                    self._retell(item)

    def sentence(self, text: str) -> str:
        """``text`` with every name that has been met replaced; all of it left out where there were too many to know."""
        if len(self._known) > MAX_KNOWN or len(self._of_several_words) > MAX_ODD:
            return "(left out)"
        for name, other in self._of_several_words.items():
            text = text.replace(name, other)
        text = without_places(text)
        return _WORD.sub(lambda word: self._known.get(word[0], word[0]), text)


def without_places(text: str) -> str:
    """``text`` without addresses, paths (home folders have names), and numbers of processes and users."""
    return _COMMANDER.sub(r"\1 –", _PATH.sub("(path)", _ADDRESS.sub("(address)", text)))


_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s,;]+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.<])~?/(?:[^\s/,;:]+/)+[^\s,;:]*")
_COMMANDER = re.compile(r"\b(uid|pid) \d+")
_WORD = re.compile(r"[^\s,;:()=\"']+")
