"""Other files in the place of some, with the same rows: fewer and larger ones, or ordered ones.

As Delta Spark's ``OPTIMIZE``, ``OPTIMIZE … ZORDER BY``, and ``OPTIMIZE`` of a table with clustering columns.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from deltamirror.catalog.maintenance.arrangement import Arrangement, arrangement_of
from deltamirror.catalog.rows import removed_file
from deltamirror.config import Settings
from deltamirror.delta.actions import Action, Add, Remove
from deltamirror.delta.commitinfo import optimize_metrics, record_count
from deltamirror.errors import InvalidInput
from deltamirror.pipeline.run.compaction import open_compactor
from deltamirror.rows.compaction import Bin
from deltamirror.rows.duties import require_movable_rows
from deltamirror.rows.layout import Layout
from deltamirror.rows.parsing import condition_of
from deltamirror.rows.predicates import require_partition_columns
from deltamirror.rows.skipping import possible_files
from deltamirror.rows.writing import RowOrder, WrittenRows, target_file_size
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.open import Stores
from deltamirror.txnlog.tables.reading import Snapshot

__all__ = ["Optimization", "Optimized"]

_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimization:
    """What is asked of a table."""

    taken: Snapshot
    location: str
    settings: Settings
    where: str | None
    """A condition of partition columns."""
    target_size: int | None
    """In bytes; None: as the table or the settings say."""
    zorder_by: Sequence[str] = ()
    """Columns by which rows are ordered."""

    def bins(self, arrangement: Arrangement, layout: Layout) -> list[Bin]:
        """The files that go together; InvalidInput for a wrong condition or size."""
        size = _sound_size(
            target_file_size(layout, self.settings.rows) if self.target_size is None else self.target_size
        )
        order = RowOrder(layout=_sized(layout, size), settings=self.settings.rows, rules_met=True, copies=True)
        address = StoreAddress.of(self.location, self.settings.storage)
        files = _where(self.taken.adds(compactable_to=arrangement.largest(size)), self.where, layout)
        return [Bin(order, address, tuple(each), arrangement.columns) for each in arrangement.bins(files, size)]

    def written(self, *, runner: str | None) -> "Optimized | None":
        """Write the files of all bins; None where there are none. Unsupported for some tables."""
        layout = Layout.of(self.taken.table, self.taken.metadata, self.taken.protocol)
        require_movable_rows(layout)
        arrangement = arrangement_of(self.taken, layout, self.zorder_by)
        if not (found := self.bins(arrangement, layout)):
            return None
        with closing(open_compactor(self.settings, found, runner=runner)) as compactor:
            after = compactor.run(found)
        store = Stores.with_keys(self.settings).at(found[0].address)
        rows = [WrittenRows(each.order.layout, store, adds) for each, adds in zip(found, after, strict=True)]
        return Optimized([each.files for each in found], rows, arrangement, self.where)


@dataclass(frozen=True, slots=True)
class Optimized:
    """Files of a table, and those with the same rows that are to take their place, bin by bin."""

    before: Sequence[Sequence[Add]]
    after: Sequence[WrittenRows]
    arrangement: Arrangement
    where: str | None

    @property
    def description(self) -> dict[str, Any]:
        """How the commit describes itself."""
        added = [add for each in self.after for add in each.adds]
        removed = [add for each in self.before for add in each]
        metrics = optimize_metrics(added, removed)
        return {"operation": "OPTIMIZE", "parameters": self.arrangement.parameters(self.where), "metrics": metrics}

    @property
    def replaced(self) -> list[str]:
        """The paths of all files that were read."""
        return [file.path for each in self.before for file in each]

    def actions(self) -> Iterator[Action]:
        """The actions of the commit, in Delta Spark's order: of each bin the adds, then the removes."""
        for before, after in zip(self.before, self.after, strict=True):
            yield from (replace(each, data_change=False) for each in self.arrangement.added(after.adds))
            yield from _removes(before)


def _removes(files: Iterable[Add]) -> Iterator[Remove]:
    """The removes of files, with the number of their rows for statistics."""
    for each in files:
        yield replace(removed_file(each, data_change=False), stats=record_count(each.stats))


def _where(found: list[Add], where: str | None, layout: Layout) -> list[Add]:
    if where is None:
        return found
    condition = condition_of(where, layout)
    require_partition_columns(condition, layout)
    listed = [{"partition_values": each.partition_values, "stats": None} for each in found]
    return [found[number] for number in possible_files(listed, condition.of_bounds(), layout)]


def _sound_size(size: int) -> int:
    if not 1 <= size <= _LARGEST:
        hint = "give a number of bytes such as 134217728"
        raise InvalidInput(f"files of {size} bytes cannot be written", hint=hint)
    return size


def _sized(layout: Layout, size: int) -> Layout:
    """The layout of a table whose files are to have this size, whatever its properties say."""
    configuration = {**layout.metadata.configuration, "delta.targetFileSize": str(size)}
    return Layout.of(layout.table, replace(layout.metadata, configuration=configuration), layout.protocol)
