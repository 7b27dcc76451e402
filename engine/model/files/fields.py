"""The settings in a model's files: read by name and type, with an account of what nobody has read."""

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

from engine.model.errors import ModelError


class Fields:
    """Settings by name. Null counts as absent. Every refusal is a `ModelError` that names the file and the field.

    Readers take a default; without one an absent field is refused.
    """

    def __init__(self, path: Path, values: Mapping[str, Any], prefix: str = "") -> None:
        """``prefix``: what stands before each name in the file."""
        self.path, self._values, self._prefix = path, values, prefix
        self._read: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether it is there; says nothing about whether it will be read."""
        return self._values.get(name) is not None

    def whole(self, name: str, default: int | None = None) -> int:
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(name, f"is {_shown(value)}, which is not a whole number")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Finite."""
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            self.refuse(name, f"is {_shown(value)}, which is not a finite number")
        return float(value)

    def above_zero(self, name: str) -> float:
        value = self.number(name)
        if value <= 0:
            self.refuse(name, f"is {_shown(value)}, must be above 0")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._take(name, default)
        if not isinstance(value, bool):
            self.refuse(name, f"is {_shown(value)}, which is neither true nor false")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self._take(name, default)
        if not isinstance(value, str):
            self.refuse(name, f"is {_shown(value)}, which is not a text")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self._take(name, None)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.refuse(name, f"is {_shown(value)}, which is not a list of texts")
        return tuple(value)

    def inner(self, name: str) -> "Fields":
        """The settings under ``name``, empty when it is absent."""
        value = self._take(name, {})
        if not isinstance(value, Mapping):
            self.refuse(name, f"is {_shown(value)}, which holds no settings")
        return Fields(self.path, value, f"{self._prefix}{name}.")

    def refuse(self, name: str, why: str) -> NoReturn:
        """``why`` follows the field's name."""
        raise ModelError(f"{self.path}: {self._prefix}{name} {why}")

    def refuse_unread(self, harmless: Collection[str] = ()) -> None:
        """For a field that nobody read, is not among these and does not say that something is off: it may change what the
        model computes."""
        for name, value in sorted(self._values.items(), key=lambda item: str(item[0])):
            if name in self._read or name in harmless or not value:
                continue
            self.refuse(str(name), f"is {_shown(value)}, which this engine does not know; the model may need it")

    def _take(self, name: str, default: Any) -> Any:
        self._read.add(name)
        value = self._values.get(name)
        if value is None:
            value = default
        if value is None:
            raise ModelError(f"{self.path}: {self._prefix}{name} is missing")
        return value


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
