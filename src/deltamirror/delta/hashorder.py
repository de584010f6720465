"""The order in which Scala 2.13 iterates a ``mutable.HashMap``.

Delta Lake on Spark collects the arrays of a version checksum and the metadata of a column in such maps, so exact
bytes need it. The order is a
function of the hashes, of how far the table has grown, and, for equal hashes, of the order of insertion.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Generic, TypeVar

from msgspec.structs import replace

from deltamirror.delta.actions import Action, Add, DomainMetadata, FileKey, Remove, Txn
from deltamirror.delta.order import java_hash, ordered
from deltamirror.delta.replay import reconciliation_key

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_WORD = 0xFFFF_FFFF
_SIGN = 0x8000_0000
_FIRST_LENGTH = 16
_PRODUCT_SEED = 0xCAFE_BABE
_ABSOLUTE = re.compile(r"(?P<scheme>[a-z][a-z0-9+.\-]*):(?://(?P<authority>[^/]*))?(?P<path>.*)", re.DOTALL)
# What java.net.URI takes for a server; any other authority is hashed as a text.
_SERVER = re.compile(
    r"(?:(?P<user>[^@]*)@)?(?P<host>(?:[a-z0-9](?:[a-z0-9\-]*[a-z0-9])?\.)*[a-z](?:[a-z0-9\-]*[a-z0-9])?)(?::(?P<port>\d+))?"
)


class MutableHashMap(Generic[K, V]):
    """A map whose ``values`` come in Scala's order. ``hash_of`` is the 32-bit hash code of a key."""

    __slots__ = ("_entries", "_hash_of", "_length")

    def __init__(self, hash_of: Callable[[K], int]) -> None:
        self._hash_of = hash_of
        self._entries: dict[K, tuple[int, V]] = {}
        self._length = _FIRST_LENGTH

    def put(self, key: K, value: V) -> None:
        """Add or replace an entry. The table grows at three quarters, even where the key is there already."""
        if len(self._entries) + 1 >= self._length * 3 // 4:
            self._length *= 2
        self._entries[key] = (_spread(self._hash_of(key)), value)

    def remove(self, key: K) -> None:
        """Take an entry out, if it is there. The table keeps its length."""
        self._entries.pop(key, None)

    def values(self) -> list[V]:
        """The values by bucket, then by signed hash, then by insertion."""
        return [value for _, value in sorted(self._entries.values(), key=lambda entry: self._place(entry[0]))]

    def _place(self, spread: int) -> tuple[int, int]:
        return spread & (self._length - 1), spread ^ _SIGN


def field_metadata(metadata: Mapping[str, V]) -> dict[str, V]:
    """The metadata of a column, with its keys as Spark writes them: collected in such a map, then made immutable."""
    found = MutableHashMap[str, tuple[str, V]](java_hash)
    for key, value in metadata.items():
        found.put(key, (key, value))
    return ordered(dict(found.values()))


def live_files(before: Iterable[Add], actions: Iterable[Action]) -> tuple[Add, ...]:
    """The files after ``actions``, none of which changes data."""
    found = MutableHashMap[FileKey, Add](file_hash)
    for action in chain(before, actions):
        if isinstance(action, Add):
            found.put(reconciliation_key(action), replace(action, data_change=False))
        elif isinstance(action, Remove):
            found.remove(reconciliation_key(action))
    return tuple(found.values())


def live_transactions(before: Iterable[Txn], actions: Iterable[Action]) -> tuple[Txn, ...]:
    """The newest transaction of each application after ``actions``."""
    found = MutableHashMap[str, Txn](java_hash)
    for action in chain(before, actions):
        if isinstance(action, Txn):
            found.put(action.app_id, action)
    return tuple(found.values())


def live_domains(before: Iterable[DomainMetadata], actions: Iterable[Action]) -> tuple[DomainMetadata, ...]:
    """The domains after ``actions``, without those that are removed."""
    found = MutableHashMap[str, DomainMetadata](java_hash)
    for action in chain(before, actions):
        match action:
            case DomainMetadata(removed=True):
                found.remove(action.domain)
            case DomainMetadata():
                found.put(action.domain, action)
    return tuple(found.values())


# A chain of checksums asks for the few files of a table at every version.
@lru_cache(maxsize=4096)
def file_hash(key: FileKey) -> int:
    """The hash code of Spark's key of a file. The path has to be in the spelling of ``path_identity``."""
    path, vector = key
    option = java_hash("None") if vector is None else _product_hash("Some", java_hash(vector))
    return _product_hash("UniqueFileActionTuple", _uri_hash(path), option)


def _spread(value: int) -> int:
    return value ^ (value >> 16)


def _uri_hash(path: str) -> int:
    """``java.net.URI.hashCode`` of a path without query and fragment."""
    absolute = _ABSOLUTE.fullmatch(path)
    if absolute is None:
        return java_hash(path)
    value = _chain(java_hash(absolute["scheme"]), absolute["path"])
    authority = absolute["authority"]
    return _authority_hash(value, authority) if authority else value


def _authority_hash(value: int, authority: str) -> int:
    server = _SERVER.fullmatch(authority)
    if server is None:
        return _chain(value, authority)
    if server["user"] is not None:
        value = _chain(value, server["user"])
    for unit in server["host"]:
        value = (31 * value + ord(unit)) & _WORD
    return (value + 1949 * int(server["port"] or -1)) & _WORD


def _chain(value: int, text: str) -> int:
    return (127 * value + java_hash(text)) & _WORD


def _product_hash(name: str, *elements: int) -> int:
    """The hash code of a case class: MurmurHash3 over its name and the hashes of its elements."""
    value = _mix(_PRODUCT_SEED, java_hash(name))
    for element in elements:
        value = _mix(value, element)
    return _avalanche(value ^ len(elements))


def _mix(value: int, data: int) -> int:
    data = _rotate(data * 0xCC9E_2D51 & _WORD, 15) * 0x1B87_3593 & _WORD
    return (_rotate(value ^ data, 13) * 5 + 0xE654_6B64) & _WORD


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _WORD


def _avalanche(value: int) -> int:
    value = (value ^ value >> 16) * 0x85EB_CA6B & _WORD
    value = (value ^ value >> 13) * 0xC2B2_AE35 & _WORD
    return value ^ value >> 16
