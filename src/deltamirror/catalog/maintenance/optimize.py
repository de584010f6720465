"""Fewer and larger files in the place of small ones, with the same rows: bin-packing, as Delta Spark's ``OPTIMIZE``.

Files of one partition that are smaller than the wanted size, or have a deletion vector, are gathered into bins, each of
which is read and written again, one after the other. A bin of one file is left as it is, unless that has a vector.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

from msgspec.structs import replace

from deltamirror.catalog.rows import discard, removed_file
from deltamirror.config import Settings
from deltamirror.delta.actions import Action, Add, Remove
from deltamirror.delta.commitinfo import optimize_metrics, optimize_parameters, record_count
from deltamirror.delta.definition import CLUSTERING_DOMAIN
from deltamirror.errors import InvalidInput, Unsupported
from deltamirror.rows.duties import require_copied_rows
from deltamirror.rows.layout import Layout
from deltamirror.rows.predicates import condition_of, require_partition_columns
from deltamirror.rows.scanning import TableFiles, scan_of_adds
from deltamirror.rows.skipping import possible_files
from deltamirror.rows.writing import RowFiles, RowOrder, WrittenRows, target_file_size
from deltamirror.storage.open import StoreAddress, Stores
from deltamirror.storage.store import Store
from deltamirror.txnlog.tables.reading import Snapshot

__all__ = ["Compacted", "Optimization", "actions", "bins", "described", "replaced_paths"]


@dataclass(frozen=True, slots=True)
class Compacted:
    """The files of one bin, and those with the same rows that are to take their place."""

    before: Sequence[Add]
    rows: WrittenRows

    @property
    def after(self) -> Sequence[Add]:
        """The new files: they change no data."""
        return [replace(each, data_change=False) for each in self.rows.adds]

    @property
    def removes(self) -> Iterator[Remove]:
        """The removes of the old ones, with the number of their rows for statistics."""
        for each in self.before:
            yield replace(removed_file(each, data_change=False), stats=record_count(each.stats))


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimization:
    """The bins of a table, and how they are written."""

    bins: Sequence[Sequence[Add]]
    opener: TableFiles
    order: RowOrder
    store: Store

    @classmethod
    def of(
        cls, taken: Snapshot, location: str, settings: Settings, *, where: str | None, target_size: int | None
    ) -> Self:
        """What there is to do; InvalidInput for a condition or a size that is none, Unsupported for some tables."""
        layout = Layout.of(taken.table, taken.metadata, taken.protocol)
        require_copied_rows(layout)
        _require_unclustered(taken)
        size = _sound_size(target_file_size(layout, settings.rows) if target_size is None else target_size)
        small = _where(taken.adds(compactable_to=size), where, layout)
        return cls(
            bins=list(bins(small, size)),
            opener=TableFiles(location, settings.storage),
            order=RowOrder(layout=_sized(layout, size), settings=settings.rows, are_copies=True),
            store=Stores.with_keys(settings).at(StoreAddress.of(location, settings.storage)),
        )

    def write(self) -> list[Compacted]:
        """Write the files of all bins. If that fails, they are deleted again."""
        written: list[Compacted] = []
        try:
            written.extend(map(self._compacted, self.bins))
        except BaseException:
            discard(done.rows for done in written)
            raise
        return written

    def _compacted(self, before: Sequence[Add]) -> Compacted:
        reader = scan_of_adds(self.order.layout, self.opener, before).reader()
        adds = RowFiles(self.order, self.store).write(reader.schema, reader)
        return Compacted(before, WrittenRows(self.order.layout, self.store, adds))


def bins(files: Iterable[Add], target_size: int) -> Iterator[list[Add]]:
    """Files that become one, from the smallest on, as long as they have no more bytes together."""
    partitions: dict[tuple[tuple[str, str | None], ...], list[Add]] = {}
    for file in files:
        partitions.setdefault(tuple(sorted(file.partition_values.items())), []).append(file)
    for _, found in sorted(partitions.items(), key=lambda pair: str(pair[0])):
        yield from (each for each in _packed(found, target_size) if len(each) > 1 or each[0].deletion_vector)


def _packed(files: Iterable[Add], target_size: int) -> Iterator[list[Add]]:
    some: list[Add] = []
    total = 0
    for file in sorted(files, key=attrgetter("size", "path")):
        if some and total + file.size > target_size:
            yield some
            some, total = [], 0
        some.append(file)
        total += file.size
    yield some


def actions(done: Iterable[Compacted]) -> Iterator[Action]:
    """The actions of the commit, in Delta Spark's order: of each bin the adds, then the removes."""
    for each in done:
        yield from each.after
        yield from each.removes


def replaced_paths(done: Iterable[Compacted]) -> list[str]:
    """The paths of all files that were read."""
    return [file.path for each in done for file in each.before]


def described(done: Sequence[Compacted], where: str | None) -> dict[str, Any]:
    """How the commit describes itself."""
    added, removed = [add for each in done for add in each.rows.adds], [add for each in done for add in each.before]
    parameters, metrics = optimize_parameters(where), optimize_metrics(added, removed)
    return {"operation": "OPTIMIZE", "parameters": parameters, "metrics": metrics}


def _where(found: list[Add], where: str | None, layout: Layout) -> list[Add]:
    if where is None:
        return found
    condition = condition_of(where, layout)
    require_partition_columns(condition, layout)
    listed = [{"partition_values": each.partition_values, "stats": None} for each in found]
    return [found[number] for number in possible_files(listed, condition.of_bounds(), layout)]


def _sound_size(size: int) -> int:
    if size < 1:
        hint = "give a number of bytes from 1 on, such as 134217728"
        raise InvalidInput(f"files of {size} bytes cannot be written", hint=hint)
    return size


def _sized(layout: Layout, size: int) -> Layout:
    """The layout of a table whose files are to have this size, whatever its properties say."""
    configuration = {**layout.metadata.configuration, "delta.targetFileSize": str(size)}
    return Layout.of(layout.table, replace(layout.metadata, configuration=configuration), layout.protocol)


def _require_unclustered(taken: Snapshot) -> None:
    """Refuse a clustered table: its files would lose the order that its readers count on."""
    if CLUSTERING_DOMAIN in taken.domain_metadata():
        raise Unsupported(
            f"table {taken.table!r} has clustering columns, by which its files cannot be ordered here",
            hint="let Delta Spark optimize it, and adopt its commit: `deltamirror adopt`",
            table=taken.table,
            features=("clustering",),
        )
