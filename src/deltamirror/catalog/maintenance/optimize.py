"""Other files in the place of some, with the same rows: fewer and larger ones, or ordered ones.

As Delta Spark's ``OPTIMIZE``, ``OPTIMIZE … ZORDER BY``, and ``OPTIMIZE`` of a table with clustering columns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from deltamirror.catalog.maintenance.arrangement import Arrangement, arrangement_of
from deltamirror.catalog.rows import removed_file
from deltamirror.config import Settings
from deltamirror.delta.actions import Action, Add, Remove
from deltamirror.delta.commitinfo import optimize_metrics, record_count
from deltamirror.delta.properties import TARGET_FILE_SIZE
from deltamirror.errors import InvalidInput
from deltamirror.pipeline.run.compaction import Compactor, open_compactor
from deltamirror.rows.compaction import Bin
from deltamirror.rows.discarding import discarded_if_refused
from deltamirror.rows.duties import require_movable_rows
from deltamirror.rows.layout import Layout
from deltamirror.rows.parsing import condition_of
from deltamirror.rows.predicates import require_partition_columns
from deltamirror.rows.skipping import possible_files
from deltamirror.rows.writing import RowOrder, WrittenRows, target_file_size
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.open import Stores
from deltamirror.txnlog.commit.request import Committed
from deltamirror.txnlog.tables.reading import Snapshot

if TYPE_CHECKING:
    from deltamirror.catalog.catalog import Catalog

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
    most_bytes: int | None = None
    """Bins beyond so many bytes of files are left to the next one; None: none are. The first is always taken."""

    def bins(self, arrangement: Arrangement, layout: Layout) -> list[Bin]:
        """The files that go together; InvalidInput for a wrong condition or size."""
        size = _sound_size(
            target_file_size(layout.metadata, self.settings.rows) if self.target_size is None else self.target_size
        )
        order = RowOrder(layout=_sized(layout, size), settings=self.settings.rows, rules_met=True, copies=True)
        address = StoreAddress.of(self.location, self.settings.storage)
        files = _where(self.taken.adds(compactable_to=arrangement.largest(size)), self.where, layout)
        return [Bin(order, address, tuple(each), arrangement.columns) for each in arrangement.bins(files, size)]

    def written(self, compactor_for: Callable[[Sequence[Bin]], Compactor]) -> "Optimized | None":
        """Write the files of all bins; None where there are none. Unsupported for some tables."""
        layout = Layout.of(self.taken.table, self.taken.metadata, self.taken.protocol)
        require_movable_rows(layout)
        arrangement = arrangement_of(self.taken, layout, self.zorder_by)
        every = self.bins(arrangement, layout)
        if not (found := self._first(every)):
            return None
        with closing(compactor_for(found)) as compactor:
            after = compactor.run(found)
        store = Stores.with_keys(self.settings).at(found[0].address)
        rows = [WrittenRows(each.order.layout, store, adds) for each, adds in zip(found, after, strict=True)]
        is_whole = len(found) == len(every)
        return Optimized([each.files for each in found], rows, arrangement, self.where, is_whole=is_whole)

    def _first(self, every: list[Bin]) -> list[Bin]:
        if self.most_bytes is None:
            return every
        sums = accumulate(each.num_bytes for each in every)
        return [each for number, (each, total) in enumerate(zip(every, sums, strict=True))
                if number == 0 or total <= self.most_bytes]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Optimized:
    """Files of a table, and those with the same rows that are to take their place, bin by bin."""

    before: Sequence[Sequence[Add]]
    after: Sequence[WrittenRows]
    arrangement: Arrangement
    where: str | None
    is_whole: bool
    """Whether no files are left that could be put together."""

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

    def commit(self, catalog: "Catalog", taken: Snapshot) -> Committed:
        """Replace the files of a table, as it was taken; a Conflict deletes those that were written."""
        with (
            discarded_if_refused(self.after),
            catalog.transaction(**self.description, rows_checked=True) as tx,
        ):
            tx.stage(taken.table, self.actions(), read_version=taken.version)
            tx.read(taken.table, files=self.replaced)
        return tx.result


def optimized(catalog: "Catalog", asked: Optimization, *, runner: str | None) -> Committed | None:
    """Write the files that are asked for, by the runner that is named or suits their size, and commit them."""
    written = asked.written(partial(open_compactor, asked.settings, runner=runner))
    return None if written is None else written.commit(catalog, asked.taken)


def _removes(files: Iterable[Add]) -> Iterator[Remove]:
    """The removes of files, with the number of their rows for statistics."""
    for each in files:
        yield replace(removed_file(each, data_change=False), stats=record_count(each.stats))


def _where(found: list[Add], where: str | None, layout: Layout) -> list[Add]:
    if where is None:
        return found
    condition = condition_of(where, layout)
    require_partition_columns(condition, layout)
    values, stats = [each.partition_values for each in found], [None] * len(found)
    return [found[number] for number in possible_files(values, stats, condition.of_bounds(), layout)]


def _sound_size(size: int) -> int:
    if not 1 <= size <= _LARGEST:
        hint = "give a number of bytes such as 134217728"
        raise InvalidInput(f"files of {size} bytes cannot be written", hint=hint)
    return size


def _sized(layout: Layout, size: int) -> Layout:
    """The layout of a table whose files are to have this size, whatever its properties say."""
    configuration = {**layout.metadata.configuration, TARGET_FILE_SIZE: str(size)}
    return Layout.of(layout.table, replace(layout.metadata, configuration=configuration), layout.protocol)
