"""What is known about a setting besides its value: for messages, ``config show`` and the reference page."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from deltamirror.config.secrets import Secret

__all__ = [
    "COUNTING",
    "ENVIRONMENT_PREFIX",
    "FACTOR",
    "MANY_BYTES",
    "NOT_NEGATIVE",
    "PERCENT",
    "POSITIVE",
    "Key",
    "Reload",
    "described",
    "keys",
]

ENVIRONMENT_PREFIX = "DELTAMIRROR_"

# What numbers may be. The upper ends are beyond every use, and within what databases and timers take.
POSITIVE = msgspec.Meta(gt=0, le=1_000_000_000)
COUNTING = msgspec.Meta(ge=1, le=1_000_000_000)
NOT_NEGATIVE = msgspec.Meta(ge=0, le=1_000_000_000)
MANY_BYTES = msgspec.Meta(ge=0, le=1_000_000_000_000_000)
FACTOR = msgspec.Meta(ge=1, le=1_000)
PERCENT = msgspec.Meta(ge=0, le=100)


class Reload(StrEnum):
    """When a changed value takes effect in a process that reloads its settings."""

    LIVE = "within `config.reload`"
    OPEN = "when a catalog is opened"
    START = "when the process starts"


def described(text: str, *, unit: str = "", reload: Reload, per_table: bool = False) -> msgspec.Meta:
    """The documentation of a key, kept in its type annotation; ``per_table``: single tables may have another value."""
    return msgspec.Meta(description=text, extra={"unit": unit, "reload": reload, "per_table": per_table})


@dataclass(frozen=True, slots=True)
class Key:
    """One setting: ``section.name``, its type, and what the reference page says about it."""

    section: str
    name: str
    type: Any
    default: object
    text: str
    unit: str
    reload: Reload
    per_table: bool

    @property
    def path(self) -> str:
        """The key as people write it: ``catalog.url``."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable: section and key joined by a double underscore."""
        return f"{ENVIRONMENT_PREFIX}{self.section}__{self.name}".upper()

    @property
    def table_property(self) -> str:
        """The table property that goes before the setting, where single tables may have another value."""
        if self.path == "checkpoint.interval":
            return "delta.checkpointInterval"
        first, *others = f"{self.section}_{self.name}".split("_")
        return "deltamirror." + first + "".join(map(str.capitalize, others))

    @property
    def kind(self) -> str:
        """What a value has to be, in words."""
        return _words(self.type)

    @property
    def secret(self) -> bool:
        """Whether the value is never shown."""
        return _is_secret(self.type)


def keys(settings: type[msgspec.Struct]) -> tuple[Key, ...]:
    """Every key of every section of ``settings``, in the order of declaration."""
    sections = (field for field in msgspec.structs.fields(settings) if _is_section(field))
    return tuple(key for section in sections for key in _section_keys(section))


def _is_section(field: msgspec.structs.FieldInfo) -> bool:
    return isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)


def _section_keys(section: msgspec.structs.FieldInfo) -> Iterator[Key]:
    for field in msgspec.structs.fields(section.type):
        notes = _description(field.type)
        extra = notes.extra or {}
        yield Key(
            section=section.name,
            name=field.name,
            type=field.type,
            default=field.default,
            text=notes.description or "",
            unit=extra.get("unit", ""),
            reload=extra["reload"],
            per_table=extra["per_table"],
        )


def _description(annotation: Any) -> msgspec.Meta:
    for note in getattr(annotation, "__metadata__", ()):
        if isinstance(note, msgspec.Meta) and note.description:
            return note
    raise TypeError(f"a setting without documentation: {annotation!r}")


_WORDS = {str: "text", Secret: "text", int: "whole number", float: "number", bool: "true or false"}


def _words(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _words(get_args(annotation)[0])
    if origin is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(annotation))
    if origin in (Union, UnionType):
        return " or ".join(_words(part) for part in get_args(annotation) if part is not NoneType)
    return _WORDS[annotation]


def _is_secret(annotation: Any) -> bool:
    return annotation is Secret or any(map(_is_secret, get_args(annotation)))
