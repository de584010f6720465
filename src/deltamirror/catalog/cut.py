"""Several tables as of one moment."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from deltamirror.errors import NotFound
from deltamirror.txnlog.tables.reading import Snapshot

if TYPE_CHECKING:
    from deltamirror.catalog.catalog import Catalog

__all__ = ["Cut"]


class Cut:
    """Tables at the versions that they had at one moment: what is read of them fits together."""

    def __init__(self, catalog: "Catalog", snapshots: Mapping[str, Snapshot]) -> None:
        self._catalog, self._snapshots = catalog, snapshots

    def __getitem__(self, table: str) -> Snapshot:
        """The snapshot of one of the tables."""
        if (found := self._snapshots.get(table)) is None:
            message = f"the table {table!r} is not part of this snapshot"
            raise NotFound(message, hint=f"it is of {', '.join(self._snapshots)}", table=table)
        return found

    @property
    def versions(self) -> dict[str, int]:
        """The version of each table."""
        return {name: taken.version for name, taken in self._snapshots.items()}

    def to_arrow(
        self,
        table: str,
        columns: Iterable[str] | str | None = None,
        filter: object = None,  # noqa: A002 - the word of pyarrow
    ) -> pa.Table:
        """The rows of one of the tables, all in memory; see ``Table.scan``."""
        return self.scan(table, columns, filter).read_all()

    def scan(
        self,
        table: str,
        columns: Iterable[str] | str | None = None,
        filter: object = None,  # noqa: A002 - the word of pyarrow
    ) -> pa.RecordBatchReader:
        """The rows of one of the tables, batch by batch; see ``Table.scan``."""
        return self._catalog.scan_snapshot(self[table], columns, filter)
