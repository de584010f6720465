"""Where settings come from: a TOML file, the environment, the command line. Each yields values with origins."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Final

from deltamirror.config.keys import ENVIRONMENT_PREFIX, Key
from deltamirror.errors import InvalidSettings

CONFIG_VARIABLE: Final = f"{ENVIRONMENT_PREFIX}CONFIG"
_OTHERS: Final = (CONFIG_VARIABLE, f"{ENVIRONMENT_PREFIX}TOKEN")
"""Variables that are no settings: where the file is, and the token of Delta Lake jobs, which the JVM reads."""
FLAGS: Final = {
    "catalog.url": "--catalog",
    "mirror.runner": "--runner",
    "spark.master": "--master",
    "reconcile.interval": "--interval",
}
"""The options of the command line that are settings, by key path."""

_TEST_RIG: Final = f"{ENVIRONMENT_PREFIX}TEST_"
"""What the test rig sets for itself."""
_BLOCKS: Final = "tables"
_MATCH: Final = "match"
_PATTERN: Final = re.compile(r"[A-Za-z0-9_.\-*?]+")


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


@dataclass(frozen=True, slots=True)
class GivenBlock:
    """A block of the file with values for the tables whose names match; counted from 1."""

    number: int
    match: str
    values: tuple[Given, ...]


def from_file(file: Path, keys: Sequence[Key]) -> Iterator[Given | GivenBlock | InvalidSettings]:
    """The values of a TOML file, its blocks for tables, and what is wrong with its keys."""
    try:
        text = file.read_text(encoding="utf-8-sig")  # editors of Windows begin with a mark
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        yield _unreadable(file, error)
    except tomllib.TOMLDecodeError as error:
        yield _malformed(file, error)
    else:
        blocks = document.pop(_BLOCKS, [])
        yield from _values(document, keys, at=_Place(file, text))
        yield from _blocks(blocks, keys, at=_Place(file, text, (_BLOCKS,)))


def from_environment(environment: Mapping[str, str], keys: Sequence[Key]) -> Iterator[Given | InvalidSettings]:
    """The values of the variables ``DELTAMIRROR_<SECTION>__<KEY>``."""
    known = {key.variable: key for key in keys}
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX) or name in _OTHERS or name.startswith(_TEST_RIG):
            continue
        if name in known:
            yield Given(known[name], environment[name], origin=name, text=True)
        else:
            yield _unknown(name, known, source=name, what="variable")


def from_flags(flags: Mapping[str, str], keys: Sequence[Key]) -> Iterator[Given | InvalidSettings]:
    """The values that the command line gave, by key path."""
    for key in keys:
        if key.path in flags:
            yield Given(key, flags[key.path], origin=FLAGS[key.path], text=True)


@dataclass(frozen=True, slots=True)
class _Place:
    """A part of a file."""

    file: Path
    text: str
    path: tuple[str | int, ...] = ()

    def below(self, *names: str | int) -> "_Place":
        return _Place(self.file, self.text, (*self.path, *names))

    def __str__(self) -> str:
        return f"{self.file}:{line_of_key(self.text, self.path)}"


def _values(document: Mapping[str, object], keys: Sequence[Key], *, at: _Place) -> Iterator[Given | InvalidSettings]:
    known = {key.path: key for key in keys}
    sections = {key.section for key in keys}
    for section, content in document.items():
        if section not in sections:
            yield _unknown(section, [*sections, *known, _BLOCKS], source=str(at.below(section)), what="section")
        elif not isinstance(content, dict):
            where, hint = str(at.below(section)), f"write [{section}] on a line of its own, and its settings below"
            yield InvalidSettings(
                f"{where}: `{section}` is a section, not a value", hint=hint, key=section, source=where
            )
        else:
            for name, value in content.items():
                path, where = f"{section}.{name}", str(at.below(section, name))
                key = known.get(path)
                places = partial(_place_below, at.below(section, name))
                given = None if key is None else Given(key, value, origin=where, places=places)
                yield given or _unknown(path, known, source=where, what="setting")


def _blocks(blocks: object, keys: Sequence[Key], *, at: _Place) -> Iterator[GivenBlock | InvalidSettings]:
    """The blocks ``[[tables]]``, in order."""
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        hint = 'write [[tables]], and below it: match = "sales.*" and the settings, such as mirror.enabled = false'
        yield InvalidSettings(f"{at}: `tables` is a list of blocks", hint=hint, key=_BLOCKS, source=str(at))
        return
    for number, block in enumerate(blocks):
        yield from _block(block, keys, number=number + 1, at=at.below(number))


def _block(
    block: Mapping[str, object], keys: Sequence[Key], *, number: int, at: _Place
) -> Iterator[GivenBlock | InvalidSettings]:
    match, where = block.get(_MATCH), str(at)
    if not isinstance(match, str) or not _PATTERN.fullmatch(match):
        message = f"{where}: block {number} of [[tables]]: `match` has to be a pattern for names of tables"
        hint = 'letters, digits, `_`, `-`, `.`, and `*` for any text, `?` for one letter: match = "sales.*"'
        yield InvalidSettings(message, hint=hint, key=f"{_BLOCKS}.{_MATCH}", source=where)
    content = {section: values for section, values in block.items() if section != _MATCH}
    found = list(_values(content, keys, at=at))
    problems = [in_block(each, number) for each in found if isinstance(each, InvalidSettings)]
    given = tuple(each for each in found if isinstance(each, Given))
    problems += [_for_all_tables(each, number) for each in given if not each.key.per_table]
    yield from problems
    if isinstance(match, str) and not problems:
        yield GivenBlock(number, match, given)


def in_block(problem: InvalidSettings, number: int) -> InvalidSettings:
    """A problem, said of a block."""
    message = problem.message.removeprefix(f"{problem.source}: ")
    said = f"{problem.source}: block {number} of [[tables]]: {message}"
    return InvalidSettings(said, hint=problem.hint, key=problem.key, source=problem.source)


def _for_all_tables(given: Given, number: int) -> InvalidSettings:
    message = f"{given.origin}: block {number} of [[tables]]: `{given.key.path}` cannot differ between tables"
    hint = "set it outside of the blocks; the reference of settings marks those that can"
    return InvalidSettings(message, hint=hint, key=given.key.path, source=given.origin)


def _place_below(at: _Place, below: tuple[str | int, ...]) -> str:
    return str(at.below(*below))


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
    line = _line_of_error(error)
    where = f"{file}:{line}" if line else str(file)
    hint = 'write it like: [catalog], and below it: url = "sqlite:///lake.db"'
    return InvalidSettings(f"{where}: not valid TOML: {error}", hint=hint, source=where)


def line_of_key(text: str, path: Sequence[str | int]) -> int:
    """The 1-based line on which the key at ``path`` begins in ``text``, a valid document that holds it.

    A number in the path is the place in a list. ``tomllib`` does not say lines, so its parser is asked line by line.

    The shortest run of leading lines that is valid TOML and has the key ends where the value ends; the
    longest valid run before it ends just above. Every spelling of TOML is understood that way (headers,
    dotted and quoted keys, inline tables, values over several lines). Quadratic, and only for errors and
    ``config show``.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    above = 0
    for count in range(1, len(lines) + 1):
        document = _parsed("\n".join(lines[:count]))
        if document is None:
            continue
        if _holds(document, path):
            return above + 1
        above = count
    raise KeyError(".".join(map(str, path)))


def _line_of_error(error: tomllib.TOMLDecodeError) -> int | None:
    """The line that the parser complains about, if it names one."""
    found = re.search(r"at line (\d+)", str(error))
    return int(found[1]) if found else None


def _parsed(text: str) -> dict[str, object] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _holds(document: object, path: Sequence[str | int]) -> bool:
    for name in path:
        match document, name:
            case dict(), str() if name in document:
                document = document[name]
            case list(), int() if name < len(document):
                document = document[name]
            case _:
                return False
    return True
