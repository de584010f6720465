"""Chores of a service: a table is optimized, a part at a time, or vacuumed, by the same code as the commands, or its
commits are compacted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import assert_never

from deltamirror.catalog import Catalog
from deltamirror.ops.stored_commits import stored_chunks
from deltamirror.pipeline.run.runner import Runner
from deltamirror.publish.compactions import MOST_BYTES, full_ranges, put_compaction
from deltamirror.storage.open import store_at
from deltamirror.txnlog.queue.backlog import bytes_since, commit_work
from deltamirror.txnlog.queue.maintenance import MaintainedTable, versions_to_compact
from deltamirror.txnlog.tables.registry import require_same
from deltamirror.work import Chore


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoreResult:
    """What a chore came to."""

    version: int
    """The version of the table of which nothing is left to do; -1: of none."""
    num_files: int
    """How many were replaced, deleted or written."""
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
            case Chore.COMPACT:
                return self._compact(table)
            case _:
                assert_never(chore)

    def _optimize(self, table: MaintainedTable) -> ChoreResult:
        settings, taken = self._catalog.settings, self._catalog.table(table.name).snapshot()
        require_same(taken.table_id, wanted=table.table_id, name=table.name)
        # Both with a library that takes time.
        optimizing = import_module("deltamirror.catalog.maintenance.optimize")
        compacting = import_module("deltamirror.pipeline.run.compaction")
        asked = optimizing.Optimization(
            taken=taken,
            location=table.location,
            settings=settings,
            where=None,
            target_size=None,
            most_bytes=settings.maintenance.batch_bytes,
        )
        written = asked.written(lambda _: compacting.compactor_beside(self._runner, settings, before_bin=self._proceed))
        if written is None:
            return ChoreResult(version=taken.version, num_files=0, num_bytes=0)
        written.commit(self._catalog, taken)
        before = [file for each in written.before for file in each]
        version = taken.version if written.is_whole else table.optimized_version
        return ChoreResult(version=version, num_files=len(before), num_bytes=sum(file.size for file in before))

    def _vacuum(self, table: MaintainedTable) -> ChoreResult:
        self._proceed()
        require_same(self._catalog.table(table.name).info().id, wanted=table.table_id, name=table.name)
        found = self._catalog.table(table.name).vacuum(progress=lambda _deleted, _total: self._proceed())
        return ChoreResult(version=found.read_version, num_files=found.num_deleted, num_bytes=found.num_bytes)

    def _compact(self, table: MaintainedTable) -> ChoreResult:
        settings, database = self._catalog.settings, self._catalog.database
        store = store_at(table.location, settings.storage)
        with database.read() as connection:
            after, upto = versions_to_compact(connection, table)
            sizes = dict(bytes_since(connection, table.table_id, after, upto))
        written: list[int] = []
        for versions in full_ranges(after=after, upto=upto, length=settings.maintenance.compact_commits):
            after = versions[-1]
            if sum(sizes[version] for version in versions) <= MOST_BYTES:
                self._proceed()
                commits = (self._commit_file(table, version) for version in versions)
                written.append(put_compaction(store, versions, commits))
        return ChoreResult(version=after, num_files=sum(map(bool, written)), num_bytes=sum(written))

    def _commit_file(self, table: MaintainedTable, version: int) -> bytes:
        database = self._catalog.database
        with database.read() as connection:
            [work] = commit_work(connection, table.table_id, first=version, last=version)
        return b"".join(chunk.decoded() for chunk in stored_chunks(database, work))
