"""Chores of a service: a table is optimized, a part at a time, or vacuumed, by the same code as the commands."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import assert_never

from deltamirror.catalog import Catalog
from deltamirror.pipeline.run.runner import Runner
from deltamirror.txnlog.queue.maintenance import MaintainedTable
from deltamirror.work import Chore

__all__ = ["ChoreResult", "Chores"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoreResult:
    """What a chore came to."""

    version: int
    """The version of the table of which nothing is left to do; -1: of none."""
    num_files: int
    """How many were replaced or deleted."""
    num_bytes: int


class Chores:
    """Does chores where the runner of the service works. ``proceed`` is called in between, and raises to end them."""

    def __init__(self, catalog: Catalog, runner: Runner, *, proceed: Callable[[], None]) -> None:
        self._catalog, self._runner, self._proceed = catalog, runner, proceed

    def do(self, chore: Chore, table: MaintainedTable) -> ChoreResult:
        """Do a chore of a table; raises what keeps it from being done."""
        match chore:
            case Chore.OPTIMIZE:
                return self._optimize(table)
            case Chore.VACUUM:
                return self._vacuum(table)
            case _:
                assert_never(chore)

    def _optimize(self, table: MaintainedTable) -> ChoreResult:
        settings, taken = self._catalog.settings, self._catalog.table(table.name).snapshot()
        optimizing = import_module("deltamirror.catalog.maintenance.optimize")  # with a library that takes time
        asked = optimizing.Optimization(
            taken=taken,
            location=table.location,
            settings=settings,
            where=None,
            target_size=None,
            most_bytes=settings.maintenance.batch_bytes,
        )
        written = asked.written(lambda _: optimizing.compactor_beside(self._runner, settings, before_bin=self._proceed))
        if written is None:
            return ChoreResult(version=taken.version, num_files=0, num_bytes=0)
        written.commit(self._catalog, taken)
        before = [file for each in written.before for file in each]
        version = taken.version if written.is_whole else table.optimized_version
        return ChoreResult(version=version, num_files=len(before), num_bytes=sum(file.size for file in before))

    def _vacuum(self, table: MaintainedTable) -> ChoreResult:
        self._proceed()
        found = self._catalog.table(table.name).vacuum(progress=lambda _deleted, _total: self._proceed())
        return ChoreResult(version=found.read_version, num_files=found.num_deleted, num_bytes=found.num_bytes)
