"""What can be set: this one list is all that a new setting is entered in.

A setting is a field of `Settings`. From its definition come its option and what that takes, its environment variable, the
check of the file, ``kvtop config``, the shells' completion and ``docs/config.md``.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Value = bool | int | float | str | tuple[str, ...] | None

LONGEST_TEXT = 1000
MOST_TEXTS = 100

_ON, _OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")


@dataclass(frozen=True, slots=True)
class Definition:
    """One setting.

    Attributes:
        name: As it is written in the file.
        kind: ``switch`` (on or off), ``choice``, ``whole`` and ``number`` (within ``bounds``), ``text``, ``texts`` (several).
        default: What holds where nothing sets it; None: see ``unset``.
        meaning: In a sentence, for help and pages.
        unset: What is done where nothing sets it and there is no default.
        choices: All values of a ``choice``.
        aliases: Other words for some of them.
        bounds: The least and the most of a number, both allowed.
        variable: The environment variable; empty: none.
        option: The option of commands with a screen; empty: none. ``metavar``: what it takes.
        flag: The option is a pair without a value: ``--ascii`` and ``--no-ascii``.
        shorthands: Options that stand for one value each.
        overruled: Variables of others that, when not empty, set a value.
        command: It is run: not taken from a file that everybody may write.
    """

    name: str
    kind: Literal["switch", "choice", "whole", "number", "text", "texts"]
    default: Value
    meaning: str
    unset: str = ""
    choices: tuple[str, ...] = ()
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    variable: str = ""
    option: str = ""
    metavar: str = ""
    flag: bool = False
    shorthands: Mapping[str, str] = dataclasses.field(default_factory=dict)
    overruled: Mapping[str, str] = dataclasses.field(default_factory=dict)
    command: bool = False

    @property
    def field(self) -> str:
        """The field of `Settings`."""
        return self.name.replace("-", "_")

    @property
    def words(self) -> tuple[str, ...]:
        """All that it may be, where those are few words."""
        return ("on", "off") if self.kind == "switch" else self.choices

    @property
    def takes(self) -> str:
        """What it may be, in words."""
        if self.kind == "switch":
            return "on or off"
        if self.kind == "choice":
            return ", ".join(self.choices)
        if self.kind in ("whole", "number"):
            what = "a whole number" if self.kind == "whole" else "a number"
            return (
                what if self.bounds is None else f"{what} from {_digits(self.bounds[0])} to {_digits(self.bounds[1])}"
            )
        return "a text" if self.kind == "text" else "texts"

    def typed(self, text: str) -> Value:
        """The value that ``text`` is: of a variable, or of an option.

        Raises:
            ValueError: It is none; the message says what it should have been.
        """
        text = text.strip()
        if self.kind == "switch":
            if text.lower() in _ON + _OFF:
                return text.lower() in _ON
            raise self._wrong(text)
        if self.kind in ("whole", "number"):
            try:
                return self._number(int(text) if self.kind == "whole" else float(text), text)
            except ValueError:
                raise self._wrong(text) from None
        return self._texts([text]) if self.kind == "texts" else self._text(text)

    def written(self, value: object) -> Value:
        """The value that a file gives, from TOML. Raises ValueError, as `typed`."""
        if self.kind == "switch":
            if isinstance(value, bool):
                return value
            if isinstance(value, str) and value.lower() in ("on", "off"):
                return value.lower() == "on"
        elif self.kind == "texts":
            return self._texts([value] if isinstance(value, str) else value)
        elif self.kind in ("whole", "number"):
            if isinstance(value, int if self.kind == "whole" else int | float) and not isinstance(value, bool):
                return self._number(value, value)
        elif isinstance(value, str) or (self.kind == "choice" and type(value) is int):
            return self._text(str(value))  # 256 colours may be written as the number
        raise self._wrong(value)

    def _number(self, value: int | float, given: object) -> Value:
        least, most = self.bounds or (-1e300, 1e300)
        if not least <= value <= most:
            raise self._wrong(given)
        return value

    def _text(self, text: str) -> str:
        if self.kind == "choice":
            word = text.lower()
            word = self.aliases.get(word, word)
            if word not in self.choices:
                raise self._wrong(text)
            return word
        if not text or not text.isprintable() or len(text) > LONGEST_TEXT:
            raise ValueError(f"needs a printable text, of {LONGEST_TEXT:,} characters at most")
        return text

    def _texts(self, values: object) -> tuple[str, ...]:
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise ValueError(f"{_shown(values)} is no list of texts")
        if len(values) > MOST_TEXTS:
            raise ValueError(f"holds more than {MOST_TEXTS} texts")
        return tuple(map(self._text, values))

    def _wrong(self, value: object) -> ValueError:
        return ValueError(f"{_shown(value)} is not {'one of ' if self.kind == 'choice' else ''}{self.takes}")

    def spoken(self, value: Value) -> str:
        """``value`` as an option takes it."""
        if isinstance(value, bool):
            return "on" if value else "off"
        return value if isinstance(value, str) else self.shown(value)

    def shown(self, value: Value) -> str:
        """``value`` as it is written in the file."""
        if value is None:
            return "–"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return f"[{', '.join(map(quoted, value))}]"
        return quoted(value) if isinstance(value, str) else f"{value}"


def quoted(text: str) -> str:
    """``text`` as a string of TOML."""
    escaped = "".join(
        f"\\{c}"
        if c in '"\\'
        else c
        if c.isprintable()
        else f"\\u{ord(c):04x}"
        if ord(c) < 0x10000
        else f"\\U{ord(c):08x}"
        for c in text
    )
    return f'"{escaped}"'


def _digits(number: float) -> str:
    return f"{int(number):,}" if number == int(number) else f"{number:g}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and value.bit_length() > 100:
        return "a number of so many digits"
    text = str(value) if not isinstance(value, str) else repr(value)
    return text if len(text) <= 48 else f"{text[:47]}…"


def _set(kind: str, default: Value, meaning: str, **more: Any) -> Any:
    """A field of `Settings`: its default, and with it the rest of its `Definition`."""
    return dataclasses.field(default=default, metadata={"kind": kind, "meaning": meaning, **more})


@dataclass(frozen=True)
class Settings:
    """What holds. ``keys``: those of actions that are others than the default, by the action's id; a key or several."""

    profile: str | None = _set(
        "text",
        None,
        "the profile whose settings go before those of the file's top",
        unset="none",
        variable="KVTOP_PROFILE",
        option="--profile",
        metavar="NAME",
    )
    theme: str = _set(
        "choice",
        "auto",
        "colours: for a dark or a light background, or for the one that the terminal says it has (auto); high-contrast "
        "ones for text that is hard to read",
        choices=("auto", "dark", "light", "high-contrast", "high-contrast-dark", "high-contrast-light"),
        variable="KVTOP_THEME",
        option="--theme",
        metavar="THEME",
        shorthands={"--dark": "dark", "--light": "light"},
    )
    colors: str = _set(
        "choice",
        "auto",
        "how many colours are used; auto: as TERM and COLORTERM say",
        choices=("auto", "none", "16", "256", "truecolor"),
        aliases={"24bit": "truecolor", "indexed": "256", "ansi": "16"},
        variable="KVTOP_COLOR",
        option="--colors",
        metavar="N",
        overruled={"NO_COLOR": "none"},
    )
    ascii: bool | None = _set(
        "switch",
        None,
        "keep to characters of ASCII",
        unset="unless the locale has UTF-8",
        variable="KVTOP_ASCII",
        option="--ascii",
        flag=True,
    )
    mouse: bool = _set(
        "switch",
        True,
        "let clicks select; off leaves the mouse to the terminal, which selects and copies text with it",
        variable="KVTOP_MOUSE",
        option="--mouse",
        metavar="on|off",
    )
    engine: str | None = _set(
        "text",
        None,
        "the engine, by its name or socket, that `kvtop` and `kvtop attach` show where none is named",
        unset="the only live one",
        variable="KVTOP_ENGINE",
    )
    columns: tuple[str, ...] | None = _set(
        "texts",
        None,
        "the columns of the requests table, in their order: `state,prompt,wait`; a name that is none is told with all that are",
        unset="all of them",
        option="--columns",
        metavar="A,B,C",
    )
    slo: str | None = _set(
        "text",
        None,
        "the service level that goodput is counted against, in seconds: `ttft=1,tpot=0.1`; queue and latency too",
        unset="none",
        option="--slo",
        metavar="B",
    )
    snapshot_folder: str | None = _set(
        "text", None, "where the key for snapshots writes them; `~` is the home folder", unset="the current folder"
    )
    alarm: tuple[str, ...] | None = _set(
        "texts",
        None,
        "thresholds of alarms, and which are off: `preemption_storm.window_s=30`, `tier_thrash=off`; docs/alarms.md lists them",
        unset="those of docs/alarms.md",
        option="--alarm",
        metavar="NAME.THRESHOLD=VALUE",
    )
    bell: bool = _set(
        "switch", False, "ring the terminal's bell when a critical alarm begins", option="--bell", flag=True
    )
    on_alarm: str | None = _set(
        "text",
        None,
        "a command, run by sh when an alarm begins and when it is over, with the alarm as a line of JSON on its standard input",
        unset="nothing is run",
        option="--on-alarm",
        metavar="COMMAND",
        command=True,
    )
    keys: Mapping[str, object] = dataclasses.field(default_factory=dict)


def _definition(field: "dataclasses.Field[Any]") -> Definition:
    default: Any = field.default
    return Definition(field.name.replace("_", "-"), default=default, **field.metadata)


DEFINITIONS: tuple[Definition, ...] = tuple(map(_definition, (f for f in dataclasses.fields(Settings) if f.metadata)))
"""In the order of the help and of the pages."""

BY_NAME: Mapping[str, Definition] = {definition.name: definition for definition in DEFINITIONS}

PROFILE = BY_NAME["profile"]
