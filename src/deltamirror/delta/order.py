"""The order in which Scala 2.13 iterates immutable maps and sets of strings.

Delta Lake on Spark writes the keys of a map and the elements of a set in this order, so exact bytes need it. Up to
four entries keep the order of insertion; from five on the collection is a hash trie (CHAMP), whose order is a
function of the keys alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

V = TypeVar("V")

_LARGEST_INSERTION_ORDERED = 4
_WORD = 0xFFFF_FFFF
_HASH_BITS = 32
_SLOT_BITS = 5
_SLOT_MASK = (1 << _SLOT_BITS) - 1


def champ_order(keys: Iterable[str]) -> list[str]:
    """The distinct ``keys`` in the order that Scala's immutable ``Map`` or ``Set`` gives them.

    >>> champ_order(["e", "d", "c", "b"])
    ['e', 'd', 'c', 'b']
    >>> champ_order(["e", "d", "c", "b", "a"])
    ['e', 'a', 'b', 'c', 'd']
    """
    distinct = list(dict.fromkeys(keys))
    if len(distinct) <= _LARGEST_INSERTION_ORDERED:
        return distinct
    return list(_walk([(_improve(java_hash(key)), key) for key in distinct], shift=0))


def ordered(mapping: Mapping[str, V]) -> dict[str, V]:
    """``mapping`` with its keys in the order of Scala's immutable ``Map``."""
    if len(mapping) <= _LARGEST_INSERTION_ORDERED:
        return dict(mapping)
    return {key: mapping[key] for key in champ_order(mapping)}


def java_hash(text: str) -> int:
    """``String.hashCode``: a polynomial over the UTF-16 units, in 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _WORD
    return value


def _walk(entries: list[tuple[int, str]], *, shift: int) -> Iterator[str]:
    """One node of the trie: the entries that are alone in their slot, then the child nodes, each by ascending slot."""
    if shift >= _HASH_BITS:  # equal hashes: a collision node, which keeps the order of insertion
        yield from (key for _, key in entries)
        return
    nodes = _by_slot(entries, shift)
    yield from (node[0][1] for node in nodes if len(node) == 1)
    for node in nodes:
        if len(node) > 1:
            yield from _walk(node, shift=shift + _SLOT_BITS)


def _by_slot(entries: list[tuple[int, str]], shift: int) -> list[list[tuple[int, str]]]:
    slotted = sorted((((value >> shift) & _SLOT_MASK, (value, key)) for value, key in entries), key=itemgetter(0))
    return [[entry for _, entry in group] for _, group in groupby(slotted, key=itemgetter(0))]


def _improve(value: int) -> int:
    """The spreading that Scala's ``HashMap`` and ``HashSet`` apply to a hash code."""
    value = (value + ~(value << 9)) & _WORD
    value ^= value >> 14
    value = (value + (value << 4)) & _WORD
    return value ^ (value >> 10)
