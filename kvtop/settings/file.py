"""A file of settings: where it is, its text, and what it sets. Whatever is wrong in it is told with file and line."""

import difflib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kvtop.errors import UserError, one_line
from kvtop.settings.definitions import BY_NAME, PROFILE, Value
from kvtop.settings.lines import Lines, lines_of

LARGEST_BYTES = 64 << 10
KEYS, PROFILES = "keys", "profiles"
WITHOUT = "to go on without it: --no-config"

_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Given:
    """A value and the place it is from: ``FILE:LINE``."""

    value: Value
    place: str


@dataclass(frozen=True, slots=True)
class GivenKey:
    """The key or keys of an action as they are written, not checked, and the place."""

    keys: object
    place: str


@dataclass(frozen=True)
class Layer:
    """What one part of the file sets: its top, or a profile."""

    values: Mapping[str, Given] = field(default_factory=dict)
    keys: Mapping[str, GivenKey] = field(default_factory=dict)


@dataclass(frozen=True)
class SettingsFile:
    """A file that has been read and whose settings have been checked, but for the keys of actions."""

    path: str
    top: Layer = Layer()
    profiles: Mapping[str, Layer] = field(default_factory=dict)


def default_path(env: Mapping[str, str]) -> str | None:
    """``$XDG_CONFIG_HOME/kvtop/config.toml``; None where there is no home folder. A path that is not whole is not asked."""
    base = env.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            return None
        base = os.path.join(home, ".config")
    return os.path.join(base, "kvtop", "config.toml")


def read_file(path: str, *, must_exist: bool = True) -> SettingsFile | None:
    """Reads and checks it; None where it is not there and need not be. Raises `UserError`, exit code 2."""
    found = _text(path, must_exist)
    return None if found is None else parse(found[0], path, anybody=found[1])


def wrong(place: str, what: str, hint: str = WITHOUT) -> UserError:
    """A complaint about what stands at ``place``."""
    return UserError(f"{place}: {one_line(what)}", hint, code=2)


def _text(path: str, must_exist: bool) -> tuple[str, bool] | None:
    """The text, and whether everybody may write it."""
    try:
        # A pipe without a writer would be waited for.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        if must_exist or os.path.lexists(path):
            raise wrong(path, f"{error.strerror}") from None
        return None
    except (OSError, ValueError) as error:  # a path with a NUL in it is the latter
        raise wrong(path, getattr(error, "strerror", None) or str(error)) from None
    try:
        mode = os.fstat(number).st_mode
        if not stat.S_ISREG(mode):
            raise wrong(path, "is a folder, not a file" if stat.S_ISDIR(mode) else "is no regular file")
        data = b""
        while len(data) <= LARGEST_BYTES and (piece := os.read(number, LARGEST_BYTES + 1)):
            data += piece
    except OSError as error:
        raise wrong(path, f"{error.strerror}") from None
    finally:
        os.close(number)
    if len(data) > LARGEST_BYTES:
        raise wrong(path, f"is larger than {LARGEST_BYTES >> 10} KiB")
    try:
        return data.decode("utf-8-sig"), bool(mode & stat.S_IWOTH)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise wrong(f"{path}:{line}", f"is not UTF-8: byte 0x{data[error.start]:02x}") from None


def parse(text: str, path: str, *, anybody: bool = False) -> SettingsFile:
    """What a document of TOML sets; ``anybody``: everybody may have written it. Raises `UserError`, exit code 2."""
    import tomllib

    lines = lines_of(text)
    if lines.too_deep is not None:
        raise wrong(f"{path}:{lines.too_deep}", "is nested too deep")
    try:
        return _Reader(path, lines, anybody).file(tomllib.loads(text))
    except RecursionError:
        raise wrong(path, "is nested too deep") from None
    except ValueError as error:
        raise _syntax(error, text, path, lines) from None


def _syntax(error: ValueError, text: str, path: str, lines: Lines) -> UserError:
    match = _PLACE.search(str(error))
    if match is None:  # of a value that TOML allows and Python does not: a number of thousands of digits
        return wrong(path, str(error))
    line = int(match[1]) if match[1] else text.rstrip("\n").count("\n") + 1
    what = str(error)[: match.start()]
    last = lines.last_before(line)
    if last is not None and re.search(r"overwrite|twice|mutate|Cannot define", what):
        line, named = last
        first = next((at for at, other in lines.entries if other == named and at < line), None)
        what = f"{_dotted(named)}: is there already" + (f", on line {first}" if first else ", in another way")
    return wrong(f"{path}:{line}", what)


def _dotted(path: Iterable[str | int]) -> str:
    return ".".join(map(str, path))


class _Reader:
    def __init__(self, path: str, lines: Lines, anybody: bool) -> None:
        self.path, self.lines, self.anybody = path, lines, anybody

    def file(self, document: Mapping[str, object]) -> SettingsFile:
        profiles = self.table(document.get(PROFILES, {}), (PROFILES,))
        return SettingsFile(
            self.path,
            self.layer(document, ()),
            {
                self.profile_name(name): self.layer(self.table(profile, (PROFILES, name)), (PROFILES, name))
                for name, profile in profiles.items()
            },
        )

    def place(self, path: tuple[str, ...]) -> str:
        line = self.lines.line(*path)
        return self.path if line is None else f"{self.path}:{line}"

    def wrong(self, path: tuple[str, ...], what: str) -> UserError:
        return wrong(self.place(path), f"{_dotted(path)}: {what}")

    def table(self, value: object, path: tuple[str, ...]) -> Mapping[str, object]:
        if not isinstance(value, dict):
            raise self.wrong(path, f"is a table: [{_dotted(path)}]")
        return value

    def profile_name(self, name: str) -> str:
        try:
            PROFILE.typed(name)
        except ValueError as error:
            raise self.wrong((PROFILES, name), str(error)) from None
        return name

    def layer(self, table: Mapping[str, object], path: tuple[str, ...]) -> Layer:
        values: dict[str, Given] = {}
        keys: dict[str, GivenKey] = {}
        known = [KEYS, *BY_NAME] if path else [KEYS, PROFILES, *BY_NAME]
        if path:
            known.remove(PROFILE.name)
        for name, value in table.items():
            here = (*path, name)
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                raise self.wrong(here, "no such key" + (f"; did you mean {near[0]}?" if near else ""))
            if name == KEYS:
                keys = dict(self.keys(self.table(value, here), here))
            elif name != PROFILES:
                if BY_NAME[name].command and self.anybody:
                    raise self.wrong(here, "a command is not taken from a file that everybody may write: chmod o-w")
                try:
                    values[name] = Given(BY_NAME[name].written(value), self.place(here))
                except ValueError as error:
                    raise self.wrong(here, str(error)) from None
        return Layer(values, keys)

    def keys(self, table: Mapping[str, object], path: tuple[str, ...]) -> Iterable[tuple[str, GivenKey]]:
        """Actions by their ids, which may be quoted or made of tables: ``requests.abort`` is both."""
        for name, value in table.items():
            here = (*path, name)
            if isinstance(value, dict):
                yield from ((f"{name}.{id}", given) for id, given in self.keys(value, here))
            else:
                yield name, GivenKey(value, self.place(here))
