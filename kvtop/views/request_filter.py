"""The filter of the requests table: ``state:waiting prompt>4000 | preempt>=2 !id~chat``, from its text to what it lets pass.

Words side by side must all hold, ``|`` stands between alternatives, ``!`` before what must not hold. A word without an
operator is looked for in id, class and state. What is unknown of a request matches neither a condition nor its opposite.
"""

import difflib
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf, nextafter

from kvtop.state import RequestRow
from kvtop.views.request_fields import COUNT, FIELDS, NAMED, SECONDS, STATE, STATES, Field

LONGEST = 1000
"""Characters of a filter at most."""

MOST_TERMS = 32
"""Conditions at most: each is asked of ten thousand requests while one types."""

_MOST = 1e15
_ROUNDED = 1e-5
"""Seconds by which sums of times may be rounded, more than for clocks of many years."""

_OPERATORS = (">=", "<=", "!=", "==", ">", "<", "=", ":", "~")
_CONDITION = re.compile(r"([^\W\d]\w*)\s*(>=|<=|!=|==|[><=:~])\s*")
_WORD = re.compile(r"[^\s|]+")
_ITEM = re.compile(r'[^\s|,"]+')
_NUMBER = re.compile(r"(-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)([a-z]*)", re.IGNORECASE)
_PLAIN = re.compile(r"[^\s|,!\"><=:~\\]+")
_UNITS = {
    COUNT: {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9},
    SECONDS: {"": 1.0, "s": 1.0, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0},
}
_TESTS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}
_OPPOSITE = {">": "<=", ">=": "<", "<": ">=", "<=": ">", "=": "!="}


class FilterError(ValueError):
    """A text that is no filter. ``at``: the character, from 0, at which it went wrong; ``begun``: the first of its term."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at, self.message = at, message
        self.begun = at


@dataclass(frozen=True)
class Term:
    """One condition. ``field`` "": the text is looked for in id, class and state.

    ``value``: small letters to look for, several of which one must be the whole (``:``), or the number to compare with, in
    tokens, blocks, times or seconds."""

    field: str
    operator: str
    value: tuple[str, ...] | float
    negated: bool = False

    @property
    def printed(self) -> str:
        mark = "!" if self.negated else ""
        if isinstance(self.value, tuple):
            return f"{mark}{self.field}{self.operator}{','.join(_quoted(text) for text in self.value)}"
        unit = "s" if NAMED[self.field].kind == SECONDS else ""
        number = str(int(self.value)) if self.value == int(self.value) else repr(self.value)
        return f"{mark}{self.field}{self.operator}{number}{unit}"


@dataclass(frozen=True)
class RequestFilter:
    """``alternatives``: of each all terms must hold; none at all lets everything pass. ``text``: as it was typed."""

    alternatives: tuple[tuple[Term, ...], ...] = ()
    text: str = field(default="", compare=False)

    def __bool__(self) -> bool:
        return bool(self.alternatives)

    @property
    def printed(self) -> str:
        """The same filter in one spelling of many."""
        return " | ".join(" ".join(term.printed for term in terms) for terms in self.alternatives)

    @property
    def moves(self) -> bool:
        """Whether time alone can change who passes."""
        return any(NAMED[term.field].moving for terms in self.alternatives for term in terms if term.field)


EVERYTHING = RequestFilter()


# -- from text ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def parse(text: str) -> RequestFilter:
    """Raises `FilterError`, which names the place."""
    if len(text) > LONGEST:
        raise FilterError(LONGEST, f"a filter has {LONGEST:,} characters at most")
    alternatives: list[tuple[Term, ...]] = []
    terms: list[Term] = []
    at, bar, count = 0, None, 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text) or text[at] == "|":
            if not terms and (at < len(text) or alternatives):
                raise FilterError(
                    at if bar is None else bar, "nothing stands " + ("before" if bar is None else "after") + " this |"
                )
            alternatives += [tuple(terms)] if terms else []
            if at == len(text):
                return RequestFilter(tuple(alternatives), text)
            terms, bar, at = [], at, at + 1
            continue
        count += 1
        if count > MOST_TERMS:
            raise FilterError(at, f"a filter has {MOST_TERMS} conditions at most")
        try:
            term, at = _term(text, at)
        except FilterError as error:
            error.begun = at
            raise
        terms.append(term)


def _term(text: str, at: int) -> tuple[Term, int]:
    """The condition that begins at ``at``, and where it ends."""
    negated = False
    while text.startswith("!", at):
        negated, at = not negated, at + 1
    if at == len(text) or text[at].isspace() or text[at] == "|":
        raise FilterError(at - 1, "nothing stands after this !")
    if text[at] == '"':
        said, end = _string(text, at)
        _closed(text, end)
        return Term("", "", (said,), negated), end
    begun = _CONDITION.match(text, at)
    if begun is None:
        if text[at] in "><=:~":
            raise FilterError(at, f"no field stands before {text[at]}")
        end = _end(_WORD, text, at)
        return Term("", "", (_printable(text[at:end], at).lower(),), negated), end
    name, sign = begun[1].lower(), begun[2]
    known = NAMED.get(name)
    if known is None:
        raise FilterError(at, _no_field(name, text[at : _end(_WORD, text, at)]))
    if sign == "!=":
        negated, sign = not negated, "="
    sign = "=" if sign == "==" or (sign == ":" and known.compared) else sign
    sign = ":" if sign == "=" and not known.compared else sign
    if sign not in known.operators:
        raise FilterError(begun.start(2), f"{known.name} takes {' '.join(known.operators)}, not {begun[2]}")
    value, end = (_number if known.compared else _texts)(known, sign, text, begun.end())
    return Term(known.name, sign, value, negated), end


def _no_field(name: str, word: str) -> str:
    near = difflib.get_close_matches(name, NAMED, 1)
    if near:
        return f"no field {name[:24]}; did you mean {near[0]}?"
    return f'no field {name[:24]}; as a text: "{word[:32]}"'


def _number(known: Field, _sign: str, text: str, at: int) -> tuple[float, int]:
    end = _end(_WORD, text, at)
    units = _UNITS[known.kind]
    if at == end:
        raise FilterError(at, f"a number is missing: {known.meaning}")
    found = _NUMBER.fullmatch(text, at, end)
    unit = found[2].lower() if found else ""
    if found is None or not found[1].isascii() or unit not in units:
        raise FilterError(at, f"{text[at:end][:24]} is no number; units: {' '.join(u for u in units if u)}")
    value = float(found[1]) * units[unit]
    if abs(value) > _MOST:
        raise FilterError(at, f"{text[at:end][:24]} is beyond all measure")
    return value + 0.0, end  # -0 is 0


def _texts(known: Field, sign: str, text: str, at: int) -> tuple[tuple[str, ...], int]:
    values: list[str] = []
    while True:
        start = at
        if text.startswith('"', at):
            said, at = _string(text, at)
        else:
            at = _end(_ITEM if sign == ":" else _WORD, text, at)
            said = _printable(text[start:at], start).lower()
        if not said:
            raise FilterError(start, f"a text is missing: {known.meaning}")
        if known.kind == STATE and said not in STATES:
            raise FilterError(start, f"no state {said[:24]}: {', '.join(STATES)}")
        values.append(said)
        if sign != ":" or not text.startswith(",", at):
            break
        at += 1
    _closed(text, at)
    return tuple(values), at


def _closed(text: str, at: int) -> None:
    if at < len(text) and not text[at].isspace() and text[at] != "|":
        raise FilterError(at, "a blank is missing here")


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _string(text: str, at: int) -> tuple[str, int]:
    """What stands between two quotes, of which the first is at ``at``; ``\\"`` is one of it."""
    said: list[str] = []
    place = at + 1
    while place < len(text) and text[place] != '"':
        place += text[place] == "\\"
        said.append(text[place : place + 1])
        place += 1
    if place >= len(text):
        raise FilterError(at, "this quote is not closed")
    if not said:
        raise FilterError(at, "nothing stands between these quotes")
    return _printable("".join(said), at).lower(), place + 1


def _printable(text: str, at: int) -> str:
    for place, character in enumerate(text):
        if not character.isprintable():
            raise FilterError(at + place, f"U+{ord(character):04X} cannot be part of a filter")
    return text


def _quoted(text: str) -> str:
    """As a filter spells it."""
    if _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# -- who passes ---------------------------------------------------------------------------------------------------

Keep = Callable[[RequestRow, float], bool]
"""Whether a request passes at that time of the engine's clock."""


def keeper(chosen: RequestFilter) -> Keep:
    """The filter as a function, made once for thousands of requests."""
    ways = [[_test(term) for term in terms] for terms in chosen.alternatives]
    if not ways:
        return lambda _row, _clock: True
    if len(ways) == 1 and len(ways[0]) == 1:
        return ways[0][0]
    if len(ways) == 1:
        return _all(ways[0])
    alternatives = [_all(tests) if len(tests) > 1 else tests[0] for tests in ways]

    def keep(row: RequestRow, clock: float) -> bool:
        for alternative in alternatives:  # noqa: SIM110 - as below
            if alternative(row, clock):
                return True
        return False

    return keep


def _all(tests: list[Keep]) -> Keep:
    def keep(row: RequestRow, clock: float) -> bool:
        for test in tests:  # noqa: SIM110 - a generator costs more than the tests
            if not test(row, clock):
                return False
        return True

    return keep


def _test(term: Term) -> Keep:
    wanted = not term.negated
    if isinstance(term.value, float | int):
        return _comparison(NAMED[term.field], _OPPOSITE[term.operator] if term.negated else term.operator, term.value)
    if not term.field:
        (text,) = term.value
        return lambda row, _clock: (text in row.words) is wanted
    known = NAMED[term.field]
    value = known.value
    if term.operator == "~":
        (part,) = term.value
        return lambda row, _clock: (said := value(row)) is not None and (part in str(said).lower()) is wanted
    if known.kind == STATE:
        states = frozenset().union(*(STATES[name] for name in term.value))
        return lambda row, _clock: (said := row.state) is not None and (said in states) is wanted
    texts = frozenset(term.value)
    return lambda row, _clock: (said := value(row)) is not None and (str(said).lower() in texts) is wanted


def _comparison(known: Field, sign: str, number: float) -> Keep:
    test: Callable[[float, float], bool] = operator.ne if sign == "!=" else _TESTS[sign]
    value, moving = known.value, known.moving
    if moving is None:
        return lambda row, _clock: (now := value(row)) is not None and test(now, number)  # type: ignore[arg-type]

    def keep(row: RequestRow, clock: float) -> bool:
        behind = moving(row)
        if behind is not None:
            return test(behind + clock, number)
        now = value(row)
        return now is not None and test(now, number)  # type: ignore[arg-type]

    return keep


def turns(chosen: RequestFilter) -> Callable[[RequestRow, float], float | None]:
    """When it is to be asked again about a request at the latest, by the engine's clock; None: not until that changes."""
    times = [
        (moving, float(term.value))
        for terms in chosen.alternatives
        for term in terms
        if term.field and (moving := NAMED[term.field].moving) and isinstance(term.value, float | int)
    ]

    def due(row: RequestRow, clock: float) -> float | None:
        first = None
        for moving, number in times:
            behind = moving(row)
            if behind is None or (turn := number - behind) < clock - _ROUNDED:
                continue
            if turn <= clock:
                # It may not have been reached yet, by rounding: then the next time is as good as any.
                turn = nextafter(clock, inf)
            first = turn if first is None or turn < first else first
        return first

    return due


# -- while one types ----------------------------------------------------------------------------------------------


def while_typed(text: str, before: RequestFilter) -> tuple[RequestFilter, FilterError | None]:
    """The filter in force while ``text`` is in the field, and what is wrong with that. ``before``: the one in force so far,
    which stays where something is.

    A word that may become the name of a field is looked for only when it is complete: nothing has it in its id, and all
    rows would be gone until the operator follows.
    """
    try:
        chosen = parse(text)
    except FilterError as mistake:
        half = _last_word(before)
        return (_but_last(before) if half and text[mistake.begun :].lower().startswith(half) else before), mistake
    half = _last_word(chosen)
    if half and text.lower().endswith(half) and any(name.startswith(half) for name in NAMED):
        return _but_last(chosen), None
    return chosen, None


def _last_word(chosen: RequestFilter) -> str:
    """The word without an operator that stands last, if one does."""
    last = chosen.alternatives[-1][-1] if chosen else None
    return last.value[0] if last is not None and not last.field and isinstance(last.value, tuple) else ""


def _but_last(chosen: RequestFilter) -> RequestFilter:
    *others, terms = chosen.alternatives
    made = RequestFilter(tuple([*others, terms[:-1]] if len(terms) > 1 else others))
    return RequestFilter(made.alternatives, made.printed)


OVERVIEW = "a text, or: state:waiting prompt>4k wait>5s id~chat · ! not · | or · fields: "


def hint(text: str, cursor: int) -> str:
    """What could stand at the cursor: the names that begin so, or what the field that is being asked means."""
    word = re.split(r"[\s|!]", text[:cursor])[-1].lower()
    name = re.match(r"[^\W\d]\w*", word)
    known = NAMED.get(name[0]) if name else None
    if known is not None and name is not None and (name[0] != word or known.name == word):
        example = {COUNT: " · 4k = 4000", SECONDS: " · 500ms 5s 2m 1h"}.get(known.kind, "")
        return f"{known.name} {' '.join(known.operators)} {known.meaning}{example}"
    if not word:
        return OVERVIEW + " ".join(field.name for field in FIELDS)
    names = dict.fromkeys(known.name for name, known in NAMED.items() if name.startswith(word))
    return "fields: " + " ".join(names) if names else "a text in id, class or state"
