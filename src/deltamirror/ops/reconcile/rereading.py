"""When the objects of a log are read again: once in a period, a block of versions at a time, spread over all of it.

The turns follow from the numbers of table and version alone: there is no progress to record, and none to lose. One look
reads a quarter of a log at most: after a longer pause, blocks whose turn came before that wait for their next one.
"""

from dataclasses import dataclass
from typing import Final

_BLOCK: Final = 64
"""So many versions have their turn together: a version checksum is cheap to compute after that of its predecessor."""
_OF_BLOCKS: Final = 0x9E3779B9
_OF_TABLES: Final = 0x85EBCA6B
"""Multiples of these, modulo 2**32, are spread evenly: neither blocks nor tables have their turns together."""


_LARGEST_SHARE: Final = 4
"""One look reads at most the blocks whose turn came within this part of the period."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rereading:
    """The versions of a log whose turn came between two looks at it, by the clock of the database (ms)."""

    table_id: int
    after: int
    """The last look, which read what was due until then."""
    upto: int
    """This look."""
    period: int

    def is_due(self, version: int) -> bool:
        """Whether the objects of a version are read, however little a listing says against them."""
        turn = self._turn(version // _BLOCK)
        after = max(self.after, self.upto - self.period // _LARGEST_SHARE)
        return (self.upto - turn) // self.period > (after - turn) // self.period

    def _turn(self, block: int) -> int:
        """How far into each period a block is read."""
        return (self.table_id * _OF_TABLES + block * _OF_BLOCKS) % 2**32 * self.period >> 32
