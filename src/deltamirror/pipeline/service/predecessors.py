"""Which version of a table this service put last: what follows on it needs no look whether it is there."""

from dataclasses import replace

from deltamirror.storage.address import StoreAddress
from deltamirror.storage.location import local_path
from deltamirror.work import CommitOutcome, CommitUnit

__all__ = ["Predecessors"]


class Predecessors:
    """The last versions that were put without trouble. Safe to share between threads.

    A disk is looked at each time: that costs nothing, and another one may be mounted in its place at any moment.
    """

    def __init__(self) -> None:
        self._put: dict[tuple[int, StoreAddress], int] = {}

    def continued(self, unit: CommitUnit) -> CommitUnit:
        """The unit; without the version that it follows on, where this service put that one.

        What comes of it has to be remembered for the next unit: until then nothing is known.
        """
        known = self._put.pop((unit.table_id, unit.address), None) == unit.commits[0].version - 1
        return replace(unit, follows="") if known else unit

    def remember(self, unit: CommitUnit, outcome: CommitOutcome) -> None:
        """What came of a unit: unless it met trouble, its last version is there."""
        if outcome.failure is None and outcome.published and local_path(unit.address.location) is None:
            self._put[unit.table_id, unit.address] = outcome.published[-1].version
