"""Flag over environment over file over default; every value is checked where it stands, overridden or not."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from deltamirror.config.blocks import BlockProblem, read_blocks
from deltamirror.config.keys import Key, expected, keys
from deltamirror.config.ready_rules import READY_MADE_NAMES
from deltamirror.config.secrets import FILE_SCHEMES, MASK, Secret, redact_text, redact_url, unclear_url
from deltamirror.config.settings import Settings, TableBlock
from deltamirror.config.sources import (
    CONFIG_VARIABLE,
    Given,
    GivenBlock,
    from_environment,
    from_file,
    from_flags,
    in_block,
)
from deltamirror.errors import InvalidSettings

DEFAULT_FILE: Final = "deltamirror.toml"
DEFAULT_ORIGIN: Final = "default"
SCHEMES: Final = ("sqlite", "duckdb", "postgresql")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings in force, and for each key path the place that its value came from; those of blocks, too."""

    settings: Settings
    origins: Mapping[str, str]
    file: Path | None


def load(
    *,
    environment: Mapping[str, str],
    config: Path | None = None,
    folder: Path = Path(),
    flags: Mapping[str, str] | None = None,
) -> Loaded:
    """The settings in force; raises the first problem as ``InvalidSettings``.

    ``config`` names the file; without it, ``DELTAMIRROR_CONFIG`` does, or ``deltamirror.toml`` in
    ``folder`` is taken if it is there. ``flags`` are key paths with the text that the command line gave.
    """
    loaded, problems = examine(environment=environment, config=config, folder=folder, flags=flags)
    if problems:
        raise problems[0]
    return loaded


def examine(
    *,
    environment: Mapping[str, str],
    config: Path | None = None,
    folder: Path = Path(),
    flags: Mapping[str, str] | None = None,
) -> tuple[Loaded, list[InvalidSettings]]:
    """As :func:`load`, but every problem is returned; wrong settings keep their defaults."""
    known = keys(Settings)
    file = chosen_file(config, environment, folder)
    given: list[Given | GivenBlock | InvalidSettings] = [
        *(from_file(file, known) if file else ()),
        *from_environment(environment, known),
        *from_flags(flags or {}, known),
    ]
    problems = [item for item in given if isinstance(item, InvalidSettings)]
    values: dict[str, Any] = {}
    origins = {key.path: DEFAULT_ORIGIN for key in known}
    blocks: list[TableBlock] = []
    for item in given:
        if isinstance(item, Given):
            found, wrong = _all_checked([item])
            values |= found
            origins |= dict.fromkeys(found, item.origin)
            problems += wrong
        elif isinstance(item, GivenBlock):
            found, wrong = _all_checked(item.values)
            blocks.append(TableBlock(match=item.match, values=tuple(found.items())))
            origins |= {origin_in_block(len(blocks), each.key.path): each.origin for each in item.values}
            problems += [in_block(each, item.number) for each in wrong]
    settings = msgspec.structs.replace(_assembled(values, known), tables=tuple(blocks))
    problems += _contradictions(settings, origins)
    return Loaded(settings, origins, file), problems


def origin_in_block(number: int, path: str) -> str:
    """Under which name the origins have the value of a key in a block, counted from 1."""
    return f"tables.{number}.{path}"


def chosen_file(config: Path | None, environment: Mapping[str, str], folder: Path) -> Path | None:
    """The settings file: as it is named, or the one that is in the folder, if there is one."""
    if config is not None:
        return config
    if named := environment.get(CONFIG_VARIABLE):
        return Path(named)
    default = folder / DEFAULT_FILE
    return default if default.exists() else None


def _all_checked(given: Iterable[Given]) -> tuple[dict[str, Any], list[InvalidSettings]]:
    """The values by key path, and what is wrong with the others."""
    checked = {each.key.path: _checked(each) for each in given}
    problems = [value for value in checked.values() if isinstance(value, InvalidSettings)]
    return {path: value for path, value in checked.items() if not isinstance(value, InvalidSettings)}, problems


def _checked(given: Given) -> Any:
    key = given.key
    if key.blocks is not None:
        return _checked_blocks(given, key.blocks)
    try:
        value = msgspec.convert(given.value, key.type, strict=not given.text, dec_hook=_secret)
    except msgspec.ValidationError as error:
        return _wrong(given, f"{expected(key.type, error)}, found {_found(given)}")
    problem = _wrong_url(value) if key.path == "catalog.url" else ""
    return _wrong(given, problem) if problem else value


def _checked_blocks(given: Given, kind: type[msgspec.Struct]) -> Any:
    try:
        value = msgspec.json.decode(str(given.value)) if given.text else given.value
        return read_blocks(kind, value, _secret)
    except msgspec.DecodeError:
        return _wrong(given, "expected a JSON list of blocks")
    except BlockProblem as problem:
        key, origin = given.key, given.place(problem.path)
        where = problem.where(value)
        return InvalidSettings(
            f"{origin}: `{key.path}`{where}: {problem.reason}",
            hint=problem.hint or key.text,
            key=key.path,
            source=origin,
        )


def _secret(kind: type, value: object) -> Secret:
    if isinstance(value, Secret):
        return value
    if kind is Secret and isinstance(value, str) and value:
        return Secret(value)
    raise TypeError("expected a text that is not empty")


def _wrong_url(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    engine = scheme.partition("+")[0]
    if not separator or engine not in (*SCHEMES, "postgres"):
        expected = f"expected an address that begins with {' or '.join(f'`{s}://`' for s in SCHEMES)}"
        return f"{expected}, found {redact_url(url)!r}"
    if engine not in FILE_SCHEMES:
        return unclear_url(url)
    return f"expected a file without parameters, found {redact_url(url)!r}" if "?" in rest else ""


def _found(given: Given) -> str:
    if given.key.secret:
        return MASK
    # An address within a list or a table is no text that could be taken apart.
    return "a list or a table" if isinstance(given.value, list | dict) else redact_text(repr(given.value))


def _wrong(given: Given, reason: str) -> InvalidSettings:
    named = "" if given.text else f"`{given.key.path}`: "
    return InvalidSettings(
        f"{given.origin}: {named}{reason}", hint=given.key.text, key=given.key.path, source=given.origin
    )


def _assembled(values: Mapping[str, object], known: Iterable[Key]) -> Settings:
    sections: dict[str, dict[str, object]] = {}
    for key in known:
        if key.path in values:
            sections.setdefault(key.section, {})[key.name] = values[key.path]
    return msgspec.convert(sections, Settings, dec_hook=_secret)


def _contradictions(settings: Settings, origins: Mapping[str, str]) -> list[InvalidSettings]:
    return [
        *_retry_contradictions(settings, origins),
        *_storage_contradictions(settings, origins),
        *_alert_contradictions(settings, origins),
    ]


def _retry_contradictions(settings: Settings, origins: Mapping[str, str]) -> Iterator[InvalidSettings]:
    for section in ("writer", "mirror"):
        own = getattr(settings, section)
        if own.retry_base > own.retry_max:
            keys = f"{section}.retry_base", f"{section}.retry_max"
            origin = next(origins[key] for key in keys if origins[key] != DEFAULT_ORIGIN)
            what = f"`{keys[0]}` ({own.retry_base} s) exceeds `{keys[1]}` ({own.retry_max} s)"
            yield InvalidSettings(f"{origin}: {what}", key=keys[0], source=origin)


def _storage_contradictions(settings: Settings, origins: Mapping[str, str]) -> Iterator[InvalidSettings]:
    for name, what in settings.storage.contradictions():
        origin = origins[f"storage.{name}"]
        yield InvalidSettings(f"{origin}: {what}", key=f"storage.{name}", source=origin)


def _alert_contradictions(settings: Settings, origins: Mapping[str, str]) -> Iterator[InvalidSettings]:
    for name, what in settings.alerts.contradictions(READY_MADE_NAMES):
        origin = origins[f"alerts.{name}"]
        yield InvalidSettings(f"{origin}: {what}", key=f"alerts.{name}", source=origin)
    slo = settings.slo
    for lower, upper in (("p95", "p99"), ("lag_warning", "lag_critical")):
        if getattr(slo, lower) > getattr(slo, upper):
            keys = f"slo.{lower}", f"slo.{upper}"
            origin = next(origins[key] for key in keys if origins[key] != DEFAULT_ORIGIN)
            what = f"`{keys[0]}` ({getattr(slo, lower)} s) exceeds `{keys[1]}` ({getattr(slo, upper)} s)"
            yield InvalidSettings(f"{origin}: {what}", key=keys[0], source=origin)
