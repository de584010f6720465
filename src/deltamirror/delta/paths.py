"""Paths of files as the log spells them: URI references, and the directories of partitions.

Two encodings stack. A partition value is escaped into the name of its directory (``partition_directory``), and the
physical path is quoted into a URI (``encode_path``): the value ``a b/c`` lies in ``p=a b%2Fc`` and is logged as
``p=a%20b%252Fc``.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from urllib.parse import unquote

from deltamirror.delta.partitions import PartitionValue, java_double

__all__ = [
    "PartitionValue",
    "canonical_path",
    "decode_path",
    "encode_path",
    "is_absolute",
    "partition_directory",
    "partition_text",
    "path_identity",
]

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The directory of null, and of the empty string, which is null as a partition value."""

# What java.net.URI quotes in a path: ASCII beyond its list, and controls and spaces outside of ASCII.
_QUOTED = re.compile(
    r"[^A-Za-z0-9_.!~*'():@&=+$,;/\-\u0080-\U0010ffff]|[\x80-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
_ESCAPED_IN_DIRECTORIES = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_AUTHORITY = re.compile(
    r"\A(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*:)(?:///|(?P<user>//(?:[^/?#@]*@)?)(?P<host>[A-Za-z0-9.\-]+(?=[:/?#]|\Z)))?"
)
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")


def encode_path(physical: str) -> str:
    """The URI reference of a physical path, quoted as ``java.net.URI`` does: letters outside of ASCII stay raw."""
    return _QUOTED.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), physical)


def decode_path(uri: str) -> str:
    """The physical path of a URI reference."""
    return unquote(uri)


def canonical_path(path: str) -> str:
    """The one spelling that we write a relative path in: Delta Spark's, and a colon is escaped wherever it is.

    In the first name of a path, a colon would make it a scheme; Delta Spark itself has none in the names of folders.
    """
    return encode_path(decode_path(path)).replace(":", "%3A")


def is_absolute(path: str) -> bool:
    """Whether a path of the log is absolute: with a scheme, or from the root."""
    return path.startswith("/") or _SCHEME.match(path) is not None


def path_identity(path: str) -> str:
    """A text that is equal for two paths exactly when ``java.net.URI`` holds them equal.

    Nothing is decoded: ``a%20b`` and ``a b`` are two files. The case of hexadecimal digits, of a scheme and of a host
    does not count, nor does an empty authority.
    """
    if "%" in path:
        path = _PERCENT.sub(lambda found: found[0].upper(), path)
    return _AUTHORITY.sub(_canonical_authority, path) if ":" in path else path


def partition_directory(columns: Iterable[str], values: Mapping[str, str | None]) -> str:
    """The physical directory of a partition, ``day=2024-01-01/hour=7``, with Hive's escapes; empty without columns."""
    return "/".join(f"{_escape(column)}={_escape(values[column] or NULL_PARTITION)}" for column in columns)


def partition_text(value: PartitionValue) -> str | None:
    """A partition value as the log has it. The empty string is null; a time with a zone is written in UTC."""
    match value:
        case None | "":
            return None
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            return _timestamp(value)
        case bytes():
            return value.decode() or None
        case int() | date():
            return str(value)


def _canonical_authority(found: re.Match[str]) -> str:
    scheme = found["scheme"].lower()
    if found["host"]:
        return scheme + found["user"] + found["host"].lower()
    return f"{scheme}/" if found[0].endswith("/") else scheme


def _escape(name: str) -> str:
    return _ESCAPED_IN_DIRECTORIES.sub(lambda found: f"%{ord(found[0]):02X}", name)


def _timestamp(value: datetime) -> str:
    if value.tzinfo is not None:
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)
    return value.isoformat(sep=" ").rstrip("0") if value.microsecond else value.isoformat(sep=" ")
