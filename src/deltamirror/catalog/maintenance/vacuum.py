"""Deleting data files that no version within the retention names: decided by SQL, done in the store.

Of the store, all objects are looked at, one page after the other. One stays if a version that was current at the
cut-off, or later, names it; if a commit names it that is not published; if a stage does; if it is younger than the
cut-off, since its transaction may not have come to its end; or if its name is hidden.

A vacuum that dies has deleted some of the files, each of which could go: the next one finds the others.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import Final

import pyarrow as pa

from deltamirror.batches import batched
from deltamirror.catalog.maintenance.keys import KeySet, TableFolder
from deltamirror.config import LiveSettings
from deltamirror.delta.actions import Metadata
from deltamirror.delta.commitinfo import Parameters, vacuum_end_parameters, vacuum_start_parameters
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.delta.paths import partition_directory
from deltamirror.delta.properties import deleted_file_retention_ms
from deltamirror.deltalog.checkpoint.scratch import Gathering
from deltamirror.errors import DeltaMirrorError, Diverged, Refused
from deltamirror.pipeline.service.foreign_versions import LookAhead
from deltamirror.pipeline.service.turns import Turns
from deltamirror.steps import Step
from deltamirror.storage.keys import is_key
from deltamirror.storage.location import local_path
from deltamirror.storage.store import Meta, Store
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.clock import time_of
from deltamirror.txnlog.tables.named_files import paths_since, retained_paths
from deltamirror.txnlog.tables.registry import MirrorState, TableInfo, table_again

Progress = Callable[[int, int], None]
"""Told how many files are deleted, of how many, after each batch."""

Record = Callable[[str, str, Parameters, dict[str, str]], int]
"""Commits a record to a table of an operation, with its parameters and metrics; the version that it has."""

_FILES: Final = pa.schema([pa.field("path", pa.string(), nullable=False), pa.field("size", pa.int64(), nullable=False)])
_PAGE: Final = 10_000
_MOST_BYTES: Final = 64 * 1024 * 1024
_BATCH: Final = 500
_AT_ONCE: Final = 8
_DAY: Final = 86_400_000
_NOT_HIDDEN: Final = ("_change_data", "_delta_index")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retain:
    """For how long files are kept that no version needs any more."""

    milliseconds: int | None = None
    """None: for as long as the table says."""
    is_checked: bool = True
    """Whether less than the table says is refused."""

    def of(self, table: str, metadata: Metadata) -> int:
        """The milliseconds for a table."""
        least = deleted_file_retention_ms(metadata)
        wanted = least if self.milliseconds is None else self.milliseconds
        if self.is_checked and wanted < least:
            raise Refused(
                f"files of table {table!r} are kept for {least / 3_600_000:g} hours "
                f"(delta.deletedFileRetentionDuration), and {wanted / 3_600_000:g} were asked for",
                hint="a shorter time breaks readers and transactions that take longer: retain more, or give "
                "--no-retention-check (retention_check=False) if there are none",
                table=table,
            )
        return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuumed:
    """What a vacuum of a table comes to."""

    table: str
    retention: int
    """In milliseconds."""
    cutoff: int
    """A file stays that a version needs which was current at this time, in milliseconds since 1970, or later."""
    files: pa.Table
    """The files that no version within retention names: ``path`` in the table's folder, and ``size``."""
    num_folders: int
    """How many folders were looked at, that of the table among them."""
    read_version: int
    """The version of the table that this was decided by."""
    num_unpublished: int
    """How many versions were not published: the files that they removed stay until they are."""
    num_deleted: int = 0
    """How many of them this vacuum has deleted."""
    version: int | None = None
    """That of the commit ``VACUUM END``; None where nothing was deleted."""

    @property
    def abandoned_before(self) -> int:
        """What a writer left half-written on a disk before this time goes, too: no listing shows it."""
        return min(self.cutoff, self.cutoff + self.retention - _DAY)

    @property
    def num_files(self) -> int:
        """How many files no version within retention names."""
        return int(self.files.num_rows)

    @property
    def num_bytes(self) -> int:
        """Their size."""
        return sum(batch.column("size").sum().as_py() or 0 for batch in self._batches())

    def paths(self) -> Iterator[str]:
        """Their paths, one after the other."""
        return chain.from_iterable(batch.column("path").to_pylist() for batch in self._batches())

    def _batches(self) -> Sequence[pa.RecordBatch]:
        found: list[pa.RecordBatch] = self.files.to_batches()
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """The vacuum of one table."""

    info: TableInfo
    """The table, whatever it is called by now."""
    metadata: Metadata
    retain: Retain
    database: Database
    live: LiveSettings
    store: Store
    owner: str
    record: Record

    @property
    def table(self) -> str:
        """What it was called."""
        return self.info.name

    def planned(self) -> Vacuumed:
        """What would be deleted. Nothing is changed."""
        retention, info = self.retain.of(self.table, self.metadata), self._sound_table()
        published = -1 if info.published is None else info.published
        with self.database.read() as connection:
            cutoff = time_of(connection) - retention
            paths = retained_paths(connection, info.id, published=published, cutoff=cutoff)
            walk = _Walk(self.metadata.partition_columns, KeySet(TableFolder(info.location).keys(paths)), cutoff)
        found = walk.unreferenced(self.store.walk())
        return Vacuumed(
            table=self.table,
            retention=retention,
            cutoff=cutoff,
            files=found,
            num_folders=len(walk.folders) + 1,
            read_version=info.head,
            num_unpublished=info.unpublished,
        )

    def done(self, progress: Progress) -> Vacuumed:
        """Delete the files, between two commits that say so. Without any there is no commit."""
        plan = self.planned()
        if local_path(self.store.location) is not None:  # other stores have an object as a whole, or none
            self.store.sweep_temporaries(before=plan.abandoned_before)
        if not plan.num_files:
            return plan
        self._record_start(plan)
        try:
            deleted = self._delete_files(plan, progress)
        except BaseException:
            with suppress(DeltaMirrorError):
                self._record("VACUUM END", vacuum_end_parameters(is_complete=False), {})
            raise
        counts = {"numDeletedFiles": str(deleted), "numVacuumedDirectories": str(plan.num_folders)}
        version = self._record("VACUUM END", vacuum_end_parameters(is_complete=True), counts)
        return replace(plan, num_deleted=deleted, version=version)

    def _record_start(self, plan: Vacuumed) -> None:
        default = deleted_file_retention_ms(self.metadata)
        asked = vacuum_start_parameters(self.retain.is_checked, default=default, specified=self.retain.milliseconds)
        counts = {"numFilesToDelete": str(plan.num_files), "sizeOfDataToDelete": str(plan.num_bytes)}
        self._record("VACUUM START", asked, counts)

    def _record(self, operation: str, parameters: Parameters, metrics: dict[str, str]) -> int:
        return self.record(self._info().name, operation, parameters, metrics)

    def _sound_table(self) -> TableInfo:
        """The table; Diverged if its log holds versions that SQL does not have: they may name any file."""
        info, look = self._info(), LookAhead(self.database, self.live)
        if (seen := look.sighting(info)) is not None and look.mark(info, seen):
            info = self._info()
        if info.state is MirrorState.QUARANTINED:
            raise Diverged(
                f"table {self.table!r} is in quarantine: its log may name files that the database does not know",
                hint=f"`deltamirror report {self.table}` shows why; vacuum it once that is settled",
                table=self.table,
            )
        return info

    def _info(self) -> TableInfo:
        with self.database.read() as connection:
            return table_again(connection, self.info.id, self.table)

    def _delete_files(self, plan: Vacuumed, progress: Progress) -> int:
        """Delete in turns with processes that bring earlier versions back: a file that was named meanwhile stays."""
        deleted, info = 0, self._info()
        with Turns(self.database, self.live, owner=self.owner) as turns, ThreadPoolExecutor(_AT_ONCE) as threads:
            for some in batched(plan.paths(), _BATCH * _AT_ONCE):
                with turns.at(info.id, self.table, waits=True):
                    unnamed = self._still_unnamed(some, plan.read_version, info)
                    list(threads.map(self._delete_batch, batched(unnamed, _BATCH)))
                deleted += len(unnamed)
                progress(deleted, plan.num_files)
        return deleted

    def _still_unnamed(self, keys: Iterable[str], version: int, info: TableInfo) -> list[str]:
        with self.database.read() as connection:
            lately = KeySet(TableFolder(info.location).keys(paths_since(connection, info.id, version)))
        return [key for key in keys if key not in lately]

    def _delete_batch(self, keys: Sequence[str]) -> None:
        with Step.DELETE_UNREFERENCED:
            self.store.delete(keys)


@dataclass(slots=True)
class _Walk:
    """One walk through all objects of a table's folder."""

    partition_columns: Sequence[str]
    named: KeySet
    cutoff: int
    folders: set[str] = field(default_factory=set)
    _other_tables: set[str] = field(default_factory=set)

    def unreferenced(self, objects: Iterable[Meta]) -> pa.Table:
        """The objects that may go, with their sizes; beyond a limit, they lie in a temporary file."""
        gathered = Gathering(_FILES, _MOST_BYTES)
        for some in batched(filter(self._may_go, objects), _PAGE):
            columns = [[each.key for each in some], [each.size for each in some]]
            gathered.add(pa.table(columns, schema=_FILES))
        found = gathered.whole()
        return found if not self._other_tables else self._without_other_tables(found)

    def _may_go(self, found: Meta) -> bool:
        *above, name = found.key.split("/")
        if LOG_DIRECTORY in above[1:]:
            self._other_tables.add(found.key.partition(f"/{LOG_DIRECTORY}/")[0])
        if any(map(self._is_hidden, (*above, name))) or not is_key(found.key):
            return False
        self.folders.update(accumulate(above, "{}/{}".format))
        return found.modified < self.cutoff and found.key not in self.named

    def _is_hidden(self, name: str) -> bool:
        """As Delta Spark has it: what begins with ``_`` or ``.``, but for change data, and folders of partitions."""
        return name.startswith(("_", ".")) and not name.startswith((*_NOT_HIDDEN, *self._partition_folders))

    @property
    def _partition_folders(self) -> tuple[str, ...]:
        hidden = (each for each in self.partition_columns if each.startswith(("_", ".")))
        return tuple(partition_directory([each], {each: ""}).partition("=")[0] + "=" for each in hidden)

    def _without_other_tables(self, found: pa.Table) -> pa.Table:
        """Without the files of a table that lies in a folder of this one, with a log of its own."""
        others = tuple(f"{folder}/" for folder in self._other_tables)
        mask = pa.array((not path.startswith(others) for path in found.column("path").to_pylist()), pa.bool_())
        return found.filter(mask)
