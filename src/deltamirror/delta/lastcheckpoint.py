"""The pointer ``_last_checkpoint``: where readers find the newest checkpoint without listing the log.

The file is replaced in place, and some stores let a reader see half of it, so it carries a checksum over its content:
the MD5 of all ``path=value`` texts of the JSON, sorted as whole texts, which is not quite what the protocol says but
what the reference does.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import md5
from urllib.parse import quote

import msgspec
from msgspec.structs import asdict, replace

from deltamirror.delta.actions import Sidecar
from deltamirror.delta.lines import json_text

_LONGEST_SCHEMA = 20_000
_MOST_LISTED = 30
_VERSIONS = range(2**63)
_SCHEMAS = 64
_SCHEMA_PATH = '"checkpointSchema"+'

Json = dict[str, "Json"] | list["Json"] | str | bool | None
"""JSON whose numbers are ``_Number``, the text that they were written as."""


class _Number(str):
    __slots__ = ()


class V2Checkpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The top-level file of a V2 checkpoint. ``non_file_actions`` are lines of a log, without newlines."""

    path: str
    size_in_bytes: int
    modification_time: int
    non_file_actions: tuple[msgspec.Raw, ...] | None = None
    sidecar_files: tuple[Sidecar, ...] | None = None


class LastCheckpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The pointer. ``size`` counts rows; ``checkpoint_schema`` is the Spark schema of the file, as compact JSON."""

    version: int
    size: int | None = None
    parts: int | None = None
    size_in_bytes: int | None = None
    num_of_add_files: int | None = None
    checkpoint_schema: msgspec.Raw | None = None
    v2_checkpoint: V2Checkpoint | None = None

    def may_follow(self, current: "PointerReading") -> bool:
        """Whether it may replace what is there: a pointer never goes back. A damaged one may always be replaced."""
        return current.version is None or self.version >= current.version


class Trust(StrEnum):
    """How far a pointer can be believed."""

    VERIFIED = "verified"  # its checksum is right
    UNVERIFIED = "unverified"  # it has no checksum
    DAMAGED = "damaged"  # its checksum is wrong, or it is not a pointer at all


@dataclass(frozen=True, slots=True)
class PointerReading:
    """What a file says. ``pointer`` is ``None`` where nothing can be read; it may be there and be damaged."""

    pointer: LastCheckpoint | None
    trust: Trust

    @property
    def version(self) -> int | None:
        """The version of the checkpoint that a reader may start from; None where it may not."""
        return None if self.pointer is None or self.trust is Trust.DAMAGED else self.pointer.version


class _Read(LastCheckpoint, frozen=True, kw_only=True, rename="camel"):
    """The pointer as it is decoded: msgspec takes no raw value that may be null."""

    checkpoint_schema: msgspec.Raw = msgspec.Raw(b"null")


_DECODER = msgspec.json.Decoder(_Read)
_NOTHING = PointerReading(None, Trust.DAMAGED)


def encode(pointer: LastCheckpoint) -> bytes:
    """The bytes of the file: one line that ends with the checksum. Fields that are too long are left out."""
    short = _within_limits(pointer)
    text = json_text(short)
    return f'{text[:-1]},"checksum":"{content_checksum(text, short.checkpoint_schema)}"}}\n'.encode()


def decode(data: bytes) -> PointerReading:
    """What the file says, and how far to believe it. Never raises: a reader without a pointer lists the log."""
    try:
        pointer = _pointer(_DECODER.decode(data))
        trust = _trust(data.decode(), pointer.checkpoint_schema)
        return PointerReading(pointer, trust) if pointer.version in _VERSIONS else _NOTHING
    except (ValueError, RecursionError):  # both parsers raise ValueError where it is no JSON, no UTF-8 or no pointer
        return _NOTHING


def content_checksum(text: str, schema: msgspec.Raw | None = None) -> str:
    """The checksum of a JSON object: of all it holds but the member ``checksum``.

    It is found sooner where the value of ``checkpointSchema`` is known.
    """
    return _checksum(*_parts(text, schema))


def _trust(text: str, schema: msgspec.Raw | None) -> Trust:
    content, leaves = _parts(text, schema)
    stated = content.get("checksum") if isinstance(content, dict) else None
    if stated is None:
        return Trust.UNVERIFIED
    return Trust.VERIFIED if stated == _checksum(content, leaves) else Trust.DAMAGED


def _parts(text: str, schema: msgspec.Raw | None) -> tuple[Json, Sequence[str]]:
    """The pointer without its schema, and the leaves of that, which most pointers share with the one before them."""
    schema_text = "" if schema is None else bytes(schema).decode()
    is_kept = schema_text.startswith("{") and len(schema_text) <= _LONGEST_SCHEMA  # others write longer ones
    if not is_kept or text.count(schema_text) != 1:
        return _parse(text), ()
    return _parse(text.replace(schema_text, "{}")), _schema_leaves(schema_text)


@lru_cache(maxsize=_SCHEMAS)
def _schema_leaves(text: str) -> Sequence[str]:
    leaves: list[str] = []
    _collect_leaves(_parse(text), _SCHEMA_PATH, leaves)
    return leaves


def _pointer(read: _Read) -> LastCheckpoint:
    schema = None if bytes(read.checkpoint_schema) == b"null" else read.checkpoint_schema.copy()
    return LastCheckpoint(**{**asdict(read), "checkpoint_schema": schema})


def _within_limits(pointer: LastCheckpoint) -> LastCheckpoint:
    schema, v2 = pointer.checkpoint_schema, pointer.v2_checkpoint
    short = schema is None or len(bytes(schema).decode()) <= _LONGEST_SCHEMA
    return replace(pointer, checkpoint_schema=schema if short else None, v2_checkpoint=v2 and _with_short_lists(v2))


def _with_short_lists(v2: V2Checkpoint) -> V2Checkpoint:
    return replace(
        v2,
        non_file_actions=v2.non_file_actions if len(v2.non_file_actions or ()) <= _MOST_LISTED else None,
        sidecar_files=v2.sidecar_files if len(v2.sidecar_files or ()) <= _MOST_LISTED else None,
    )


def _parse(text: str) -> Json:
    parsed: Json = json.loads(text, parse_int=_Number, parse_float=_Number, object_pairs_hook=_unique)
    return parsed


def _unique(members: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("a key comes twice")
    return found


def _checksum(content: Json, schema_leaves: Sequence[str]) -> str:
    leaves = [*schema_leaves]
    _collect_leaves(content, "", leaves)
    texts = sorted(text for text in leaves if not text.startswith('"checksum"='))
    return md5(",".join(texts).encode(), usedforsecurity=False).hexdigest()


def _collect_leaves(node: Json, path: str, leaves: list[str]) -> None:
    """Each scalar as ``path=value``; empty objects and arrays have none. ``path`` ends with a ``+``, or is empty."""
    match node:
        case dict():
            for key, value in node.items():
                _collect_leaves(value, f"{path}{_quoted(key)}+", leaves)
        case list():
            for index, value in enumerate(node):
                _collect_leaves(value, f"{path}{index}+", leaves)
        case _:
            leaves.append(f"{path[:-1]}={_scalar(node)}")


def _scalar(value: str | bool | None) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _Number():
            return value
        case str():
            return _quoted(value)


def _quoted(text: str) -> str:
    """Percent-encoded, but for what a URI never reserves. Most names and types have nothing to encode."""
    return f'"{text if text.isascii() and text.isalnum() else quote(text, safe="")}"'
