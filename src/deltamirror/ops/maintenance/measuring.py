"""Measuring tables: which of them may be maintained, and for what they are due."""

from deltamirror.config import LiveSettings, Switch, configured_values, settings_for
from deltamirror.delta.actions import Metadata
from deltamirror.delta.properties import deleted_file_retention_ms
from deltamirror.ops.maintenance.dues import TableFacts, due
from deltamirror.pipeline.failures.circuit import Breakers
from deltamirror.publish.compactions import full_ranges
from deltamirror.rows.writing import target_file_size
from deltamirror.storage.location import store_prefix
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.maintenance import (
    MaintainedTable,
    count_small_files,
    maintained_table,
    maintained_tables,
    metadata_of,
    versions_to_compact,
)
from deltamirror.work import Chore

_PROPERTIES = "deltamirror.maintenance"
"""How the properties begin by which a table asks for maintenance."""


class Measurements:
    """The tables of a catalog as they are measured, again and again; nothing is read twice that has not changed."""

    def __init__(self, database: Database, live: LiveSettings, breakers: Breakers) -> None:
        self._database, self._live, self._breakers = database, live, breakers
        self._metadata: dict[int, tuple[int, Metadata]] = {}
        self._counted: dict[int, tuple[tuple[int, int, int], int]] = {}

    def tables(self) -> list[MaintainedTable]:
        """The tables that settings or properties may ask for, but for those in stores that are down."""
        settings = self._live.current
        is_asked = any(any(configured_values(settings, f"maintenance.{chore.value}")) for chore in Chore)
        with self._database.read() as connection:
            found = maintained_tables(connection, Switch.of(settings), with_property="" if is_asked else _PROPERTIES)
        self._forget_others({each.table_id for each in found})
        shut = self._breakers.gate().shut if found else ()
        return [table for table in found if store_prefix(table.location) not in shut]

    def again(self, table: MaintainedTable) -> MaintainedTable | None:
        """A table as it is at this moment; None where it may not be maintained, or is gone."""
        with self._database.read() as connection:
            return maintained_table(connection, Switch.of(self._live.current), table.table_id)

    def chores_of(self, table: MaintainedTable) -> tuple[Chore, ...]:
        """What a table is due for."""
        metadata = self._metadata_of(table)
        settings = settings_for(self._live.current, table.name, metadata.configuration)
        wanted, vacuumed = settings.maintenance, table.records.get(Chore.VACUUM)
        facts = TableFacts(
            at=table.at,
            small_files=self._small_files(table, target_file_size(metadata, settings.rows)) if wanted.optimize else 0,
            compactions=self._compactions(table, wanted.compact_commits) if wanted.compact else 0,
            vacuumed_at=None if vacuumed is None else vacuumed.at,
            head_at=table.head_at,
            retention=deleted_file_retention_ms(metadata),
            resting=frozenset(chore for chore, each in table.records.items() if (each.next_attempt_at or 0) > table.at),
        )
        return due(facts, wanted)

    def _metadata_of(self, table: MaintainedTable) -> Metadata:
        known = self._metadata.get(table.table_id)
        if known is None or known[0] != table.metadata_version:
            with self._database.read() as connection:
                known = table.metadata_version, metadata_of(connection, table)
            self._metadata[table.table_id] = known
        return known[1]

    def _small_files(self, table: MaintainedTable, below: int) -> int:
        key, known = (table.head, table.optimized_version, below), self._counted.get(table.table_id)
        if known is None or known[0] != key:
            with self._database.read() as connection:
                known = key, count_small_files(connection, table, below=below)
            self._counted[table.table_id] = known
        return known[1]

    def _compactions(self, table: MaintainedTable, length: int) -> int:
        with self._database.read() as connection:
            after, upto = versions_to_compact(connection, table)
        return sum(1 for _ in full_ranges(after=after, upto=upto, length=length))

    def _forget_others(self, table_ids: set[int]) -> None:
        for known in (self._metadata, self._counted):
            for table_id in known.keys() - table_ids:
                del known[table_id]
