"""The settings of single tables: blocks ``[[tables]]`` of the file, and properties of the table itself.

The most specific value wins: a table property, then the last block of the file that matches the table's name, then
what holds for all tables (flag, environment, file, default). A property that cannot be read is as if it were absent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from deltamirror.config.keys import Key, keys
from deltamirror.config.load import Loaded, origin_in_block
from deltamirror.config.settings import Settings

_PER_TABLE: Final = {key.path: key for key in keys(Settings) if key.per_table}
_OF_PROPERTY: Final = {key.table_property: key for key in _PER_TABLE.values()}
_ENABLED: Final = _PER_TABLE["mirror.enabled"]


def settings_for(settings: Settings, table: str, properties: Mapping[str, str]) -> Settings:
    """The settings as they hold for one table."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value, _ in _overriding(settings, table, properties):
        sections.setdefault(key.section, {})[key.name] = value
    if not sections:
        return settings
    changed = {name: msgspec.structs.replace(getattr(settings, name), **own) for name, own in sections.items()}
    return msgspec.structs.replace(settings, **changed)


def origins_for(loaded: Loaded, table: str, properties: Mapping[str, str]) -> dict[str, str]:
    """For each key path the place that its value for one table comes from."""
    origins = {key.path: loaded.origins[key.path] for key in keys(Settings)}
    for key, _, origin in _overriding(loaded.settings, table, properties):
        origins[key.path] = loaded.origins.get(origin, origin)
    return origins


def configured_values(settings: Settings, path: str) -> list[Any]:
    """The values that settings have for a key that tables may have their own of: for all tables, and in blocks."""
    key = _PER_TABLE[path]
    blocks = (dict(block.values) for block in settings.tables)
    return [getattr(getattr(settings, key.section), key.name), *(own[path] for own in blocks if path in own)]


def ignored_properties(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The properties of a table that are settings and cannot be read, each with what it has to be."""
    for name, key in _OF_PROPERTY.items():
        if name in properties and _read(key, properties) is None:
            yield name, key.kind


def switched_by(properties: Mapping[str, str]) -> bool | None:
    """Whether a table's own property switches its mirror on or off; None: it does neither."""
    value: bool | None = _read(_ENABLED, properties)
    return value


@dataclass(frozen=True, slots=True)
class Switch:
    """For which tables mirroring is on, unless a table's own property says otherwise."""

    default: bool = True
    patterns: tuple[tuple[str, bool], ...] = ()
    """Of those that match a name, the last one wins."""

    @classmethod
    def of(cls, settings: Settings) -> "Switch":
        """As settings say."""
        blocks = ((block.match, dict(block.values).get(_ENABLED.path)) for block in settings.tables)
        return cls(settings.mirror.enabled, tuple((match, on) for match, on in blocks if on is not None))


def _overriding(settings: Settings, table: str, properties: Mapping[str, str]) -> Iterator[tuple[Key, Any, str]]:
    """Values for one table, the weakest first, each with its origin, or the name of that."""
    for number, block in enumerate(settings.tables, 1):
        if fnmatchcase(table, block.match):
            for path, value in block.values:
                yield _PER_TABLE[path], value, origin_in_block(number, path)
    for name in _OF_PROPERTY.keys() & properties.keys():
        if (value := _read(_OF_PROPERTY[name], properties)) is not None:
            yield _OF_PROPERTY[name], value, f"table property {name}"


def _read(key: Key, properties: Mapping[str, str]) -> Any:
    text = properties.get(key.table_property)
    if text is None:
        return None
    try:
        return msgspec.convert(text.lower(), key.type, strict=False)
    except msgspec.ValidationError:
        return None
