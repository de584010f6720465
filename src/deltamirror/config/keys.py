"""What is known about a setting besides its value: for messages, ``config show`` and the reference page."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec

from deltamirror.config.secrets import Secret

ENVIRONMENT_PREFIX = "DELTAMIRROR_"

# What numbers may be. The upper ends are beyond every use, and within what databases and timers take.
POSITIVE = msgspec.Meta(gt=0, le=1_000_000_000)
COUNTING = msgspec.Meta(ge=1, le=1_000_000_000)
NOT_NEGATIVE = msgspec.Meta(ge=0, le=1_000_000_000)
MANY_BYTES = msgspec.Meta(ge=0, le=1_000_000_000_000_000)
FACTOR = msgspec.Meta(ge=1, le=1_000)
PERCENT = msgspec.Meta(ge=0, le=100)
SHARE = msgspec.Meta(ge=1, le=100)
FINITE = msgspec.Meta(ge=-1e15, le=1e15)


Blocks: TypeAlias = type[msgspec.Struct]
"""What the blocks of a list are."""


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
    def blocks(self) -> Blocks | None:
        """What one of its blocks is, where it is a list of blocks: ``[[section.name]]``."""
        return block_type(self.type)

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is msgspec.NODEFAULT

    @property
    def secret(self) -> bool:
        """Whether the value is never shown."""
        return is_secret(self.type)


@cache
def keys(settings: type[msgspec.Struct]) -> tuple[Key, ...]:
    """Every key of every section of ``settings``, in the order of declaration."""
    sections = (field for field in msgspec.structs.fields(settings) if _is_section(field))
    return tuple(key for section in sections for key in _keys_of(section.type, section.name))


def _is_section(field: msgspec.structs.FieldInfo) -> bool:
    return isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)


def block_keys(key: Key) -> tuple[Key, ...]:
    """Every key of the blocks of a list."""
    return () if key.blocks is None else tuple(_keys_of(key.blocks, key.path))


def _keys_of(struct: Blocks, section: str) -> Iterator[Key]:
    for field in msgspec.structs.fields(struct):
        notes = _description(field.type)
        extra = notes.extra or {}
        yield Key(
            section=section,
            name=field.encode_name,
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
    if origin is tuple:
        return "list of blocks" if block_type(annotation) else f"list of {_words(get_args(annotation)[0])}s"
    return _WORDS[annotation]


def expected(annotation: Any, error: msgspec.ValidationError) -> str:
    """What a value had to be, in the words of the reference page: the library names the types of Python."""
    bound = re.search(r"[<>]=? \S+$", str(error))
    of_length = "of length " if "of length" in str(error) else ""
    return f"expected {_words(annotation)}{f' {of_length}{bound[0]}' if bound else ''}"


def block_type(annotation: Any) -> Blocks | None:
    """The struct that a list of blocks consists of; None for any other type."""
    parts = get_args(annotation)
    if get_origin(annotation) is tuple:
        return parts[0] if isinstance(parts[0], type) and issubclass(parts[0], msgspec.Struct) else None
    if get_origin(annotation) in (Annotated, Union, UnionType):
        return next(filter(None, map(block_type, parts)), None)
    return None


def is_secret(annotation: Any) -> bool:
    """Whether a value of this type is never shown."""
    return annotation is Secret or any(map(is_secret, get_args(annotation)))
