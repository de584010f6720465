"""Where settings come from: a TOML file, the environment, the command line. Each yields values with origins."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Final

from deltamirror.config.keys import ENVIRONMENT_PREFIX, Key
from deltamirror.config.lines import line_of_error, line_of_key
from deltamirror.errors import InvalidSettings

__all__ = ["CONFIG_VARIABLE", "Given", "from_environment", "from_file", "from_flags"]

CONFIG_VARIABLE: Final = f"{ENVIRONMENT_PREFIX}CONFIG"

# Variables under our prefix that are not settings: the file to read, and what the test rig sets for itself.
_NOT_SETTINGS: Final = (CONFIG_VARIABLE, f"{ENVIRONMENT_PREFIX}TEST_")


@dataclass(frozen=True, slots=True)
class Given:
    """A value that a source gives for a key; ``text`` when it has yet to be read as the key's type."""

    key: Key
    value: object
    origin: str
    text: bool = False
    places: Callable[[tuple[str | int, ...]], str] | None = None
    """Where something stands that is below the key."""

    def place(self, below: tuple[str | int, ...]) -> str:
        """Where the value stands, or something below it."""
        return self.origin if self.places is None or not below else self.places(below)


def from_file(file: Path, keys: Sequence[Key]) -> Iterator[Given | InvalidSettings]:
    """The values of a TOML file, and what is wrong with its keys."""
    try:
        text = file.read_text(encoding="utf-8-sig")  # editors of Windows begin with a mark
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        yield _unreadable(file, error)
    except tomllib.TOMLDecodeError as error:
        yield _malformed(file, error)
    else:
        yield from _values(document, keys, text=text, file=file)


def from_environment(environment: Mapping[str, str], keys: Sequence[Key]) -> Iterator[Given | InvalidSettings]:
    """The values of the variables ``DELTAMIRROR_<SECTION>__<KEY>``."""
    known = {key.variable: key for key in keys}
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX) or name.startswith(_NOT_SETTINGS):
            continue
        if name in known:
            yield Given(known[name], environment[name], origin=name, text=True)
        else:
            yield _unknown(name, known, source=name, what="variable")


def from_flags(flags: Mapping[str, str], keys: Sequence[Key]) -> Iterator[Given | InvalidSettings]:
    """The values that the command line gave, by key path; the flag is named after the section (``--catalog``)."""
    for key in keys:
        if key.path in flags:
            yield Given(key, flags[key.path], origin=f"--{key.section}", text=True)


def _values(
    document: Mapping[str, object], keys: Sequence[Key], *, text: str, file: Path
) -> Iterator[Given | InvalidSettings]:
    known = {key.path: key for key in keys}
    sections = {key.section for key in keys}
    for section, content in document.items():
        if section not in sections:
            where = _place(file, text, (section,))
            yield _unknown(section, [*sections, *known], source=where, what="section")
        elif not isinstance(content, dict):
            where = _place(file, text, (section,))
            hint = f"write [{section}] on a line of its own, and its settings below"
            yield InvalidSettings(
                f"{where}: `{section}` is a section, not a value", hint=hint, key=section, source=where
            )
        else:
            for name, value in content.items():
                path, where = f"{section}.{name}", _place(file, text, (section, name))
                key = known.get(path)
                places = partial(_place_below, file, text, (section, name))
                given = None if key is None else Given(key, value, origin=where, places=places)
                yield given or _unknown(path, known, source=where, what="setting")


def _place(file: Path, text: str, path: tuple[str | int, ...]) -> str:
    return f"{file}:{line_of_key(text, path)}"


def _place_below(file: Path, text: str, path: tuple[str, ...], below: tuple[str | int, ...]) -> str:
    return _place(file, text, (*path, *below))


def _unknown(name: str, known: Mapping[str, Key] | Sequence[str], *, source: str, what: str) -> InvalidSettings:
    message = f"unknown {what} `{name}`" if source == name else f"{source}: unknown {what} `{name}`"
    near = get_close_matches(name, list(known), n=1, cutoff=0.75)
    hint = f"did you mean `{near[0]}`?" if near else "`deltamirror config show` lists the settings"
    return InvalidSettings(message, hint=hint, key=name, source=source)


def _unreadable(file: Path, error: OSError | UnicodeDecodeError) -> InvalidSettings:
    reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
    hint = "check the path and its rights; --config and DELTAMIRROR_CONFIG name the file"
    return InvalidSettings(f"{file}: cannot read the settings: {reason}", hint=hint, source=str(file))


def _malformed(file: Path, error: tomllib.TOMLDecodeError) -> InvalidSettings:
    line = line_of_error(error)
    where = f"{file}:{line}" if line else str(file)
    hint = 'write it like: [catalog], and below it: url = "sqlite:///lake.db"'
    return InvalidSettings(f"{where}: not valid TOML: {error}", hint=hint, source=where)
