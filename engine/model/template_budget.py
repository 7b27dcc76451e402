"""What one rendering of a chat template may use up, and the operators, filters and functions that keep to it.

What makes much of little is checked before it does; what is made is charged.
"""

import json
import operator
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jinja2 import pass_context
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.filters import FILTERS as ALL_FILTERS
from jinja2.filters import make_attrgetter
from jinja2.runtime import Context
from jinja2.utils import Namespace

MOST_TEXT = 8 * 1024 * 1024
"""Characters of any text that a template makes, its output among them."""

MOST_ROUNDS = 100_000
"""Rounds of loops, calls and outputs in one rendering."""

MOST_WORK = 4 * MOST_TEXT
"""Characters that are joined, copied or said in one rendering."""

MOST_SECONDS = 1.0
"""Processor time of one rendering."""

MOST_ITEMS = 10_000
"""Of a range, and of a list that is made by repeating one."""

MOST_PIECES = 100_000
"""Of a list or dictionary, counted through all that are in it."""

# fmt: off
_SAFE_FILTERS = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items", "last", "length", "list",
    "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select", "selectattr", "sort", "string", "title",
    "trim", "unique", "upper",
)
# fmt: on


class OverBudget(SecurityError):
    """The rendering has used up all that it may."""


@dataclass(slots=True)
class _Budget:
    """What one rendering may still use."""

    rounds: int = MOST_ROUNDS
    work: int = MOST_WORK
    until: float = field(default_factory=lambda: time.thread_time() + MOST_SECONDS)

    def spend(self, work: int = 0) -> None:
        """One round, and so many characters."""
        self.rounds -= 1
        self.work -= work
        if self.rounds < 0 or self.work < 0 or time.thread_time() > self.until:
            raise OverBudget("it goes on without end")


_BUDGET: ContextVar[_Budget] = ContextVar("budget")


@contextmanager
def budget() -> Iterator[None]:
    """One rendering."""
    token = _BUDGET.set(_Budget())
    try:
        yield
    finally:
        _BUDGET.reset(token)


def spend(work: int = 0) -> None:
    """Charge the rendering under way; what is computed while a template is compiled is as small as its source."""
    if (left := _BUDGET.get(None)) is not None:
        left.spend(work)


def fits(size: int, most: int = MOST_TEXT) -> None:
    if size > most:
        raise OverBudget(f"it makes something of {size} pieces; the most is {most}")
    spend(size)


def measured(value: Any) -> Any:
    """``value``, charged by all that is in it. A list can hold another twice, and be held twice: what is small in memory
    may have no end when it is said or compared."""
    pieces, characters, rest = 0, 0, [value]
    while rest:
        each = rest.pop()
        pieces += 1
        if isinstance(each, str):
            characters += len(each)
        elif isinstance(each, Mapping):
            rest += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple):
            rest += each
        elif isinstance(each, Namespace):
            raise SecurityError("it puts a namespace into something else")
        if pieces + len(rest) > MOST_PIECES or characters > MOST_TEXT:
            raise OverBudget("it makes something too big")
    spend(pieces + characters)
    return value


def texts_of(values: Iterable[Any]) -> list[str]:
    texts, size = [], 0
    for value in values:
        texts.append(str(measured(value)))
        size += len(texts[-1])
        if size > MOST_TEXT:
            fits(size)
    return texts


class _Namespace(Namespace):
    """Jinja's, whose values are measured, and which cannot be said."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*measured(args), **measured(kwargs))

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, measured(value))

    def __repr__(self) -> str:
        return "<namespace>"


def join_together(*values: Any) -> str:
    return "".join(texts_of(values))


def replaced(text: str, old: str, new: str, count: int = -1) -> str:
    times = text.count(old) if count < 0 else min(text.count(old), count)
    fits(len(text) + max(0, times * (len(new) - len(old))))
    return text.replace(old, new, count)


@pass_context
def _join(context: Context, value: Any, d: str = "", attribute: Any = None) -> str:
    items = value if attribute is None else map(make_attrgetter(context.environment, attribute), value)
    texts = texts_of(items)
    fits(sum(map(len, texts)) + len(str(d)) * len(texts))
    return str(d).join(texts)


@pass_context
def _replace(context: Context, s: Any, old: Any, new: Any, count: int | None = None) -> str:
    return replaced(str(s), str(old), str(new), -1 if count is None else count)


@pass_context
def _indent(context: Context, s: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    space = " " * min(width, 64) if isinstance(width, int) else width[:64]
    lines = str(s).splitlines()
    fits(sum(map(len, lines)) + len(space) * len(lines))
    indented = "\n".join(space + line if line or blank else line for line in lines)
    return indented if first else indented.removeprefix(space)


@pass_context
def _tojson(
    context: Context,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As transformers has it: characters stay as they are, and nothing is escaped for HTML."""
    if separators is not None:
        separators = (str(separators[0])[:16], str(separators[1])[:16])
    width = None if indent is None else min(indent, 16)
    measured(value)
    made = json.dumps(value, ensure_ascii=ensure_ascii, indent=width, separators=separators, sort_keys=sort_keys)
    fits(len(made))
    return made


def _raise_exception(message: Any) -> None:
    raise TemplateError(str(message))


def _strftime_now(form: Any) -> str:
    return datetime.now().strftime(str(form)[:64])


def _range(*bounds: int) -> range:
    made = range(*bounds)
    fits(len(made), MOST_ITEMS)
    return made


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        fits(len(left) + len(right))
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return measured(operator.add(left, right))
    return operator.add(left, right)


def _multiply(left: Any, right: Any) -> Any:
    for some, times in ((left, right), (right, left)):
        if isinstance(some, str | list | tuple) and isinstance(times, int):
            fits(len(some) * max(0, times), MOST_TEXT if isinstance(some, str) else MOST_ITEMS)
            return measured(operator.mul(left, right))
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > 256:
        raise SecurityError("it computes with numbers of more than 256 bits")
    return operator.mul(left, right)


def _power(left: Any, right: Any) -> Any:
    if abs(right) * max(1, int(left).bit_length()) > 256:
        raise SecurityError("it computes with numbers of more than 256 bits")
    return operator.pow(left, right)


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, str):
        if "%" in re.sub("%[sd%]", "", left):
            raise SecurityError("it formats with more than %s and %d")
        fits(len(left) + sum(map(len, texts_of(right if isinstance(right, tuple) else (right,)))))
    return operator.mod(left, right)


BINARY: dict[str, Callable[[Any, Any], Any]] = {"+": _add, "*": _multiply, "**": _power, "%": _remainder}

FILTERS: dict[str, Callable[..., Any]] = {name: ALL_FILTERS[name] for name in _SAFE_FILTERS}
FILTERS |= {"join": _join, "replace": _replace, "indent": _indent, "tojson": _tojson, "safe": str}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "dict": dict,
    "namespace": _Namespace,
    "range": _range,
    "raise_exception": _raise_exception,
    "strftime_now": _strftime_now,
}
