"""How an optimize arranges the rows of a table: which files it takes, and in which order their rows go."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Protocol

from msgspec.structs import replace

from deltamirror.batches import packed
from deltamirror.catalog.alteration import clustering_columns
from deltamirror.delta.actions import Add
from deltamirror.delta.commitinfo import Parameters, optimize_parameters
from deltamirror.delta.lines import json_text
from deltamirror.delta.schema import Decimal, Primitive, StructType
from deltamirror.delta.schema.columns import ColumnPath, column_path, field_at, path_text, physical_path, resolved_path
from deltamirror.errors import InvalidInput, InvalidSchema, Refused
from deltamirror.rows.compaction import bins, by_partition
from deltamirror.rows.layout import Layout
from deltamirror.txnlog.tables.reading import Snapshot

_CUBE_FILES: Final = 16
"""How many files of the wanted size are ordered together: one task has them, and a temporary file their rows."""
_CUBE: Final = "ZCUBE_ID"
_CUBE_COLUMNS: Final = "ZCUBE_ZORDER_BY"
_PROVIDER: Final = "liquid"


class Arrangement(Protocol):
    """What becomes of files."""

    @property
    def columns(self) -> tuple[ColumnPath, ...]:
        """The columns by which rows are ordered; none: they stay as they are."""

    def largest(self, size: int) -> int | None:
        """Files of so many bytes are not taken; None: all may be. ``size`` is the wanted one."""

    def bins(self, files: Sequence[Add], size: int) -> list[list[Add]]:
        """The files that are written again together."""

    def parameters(self, where: str | None) -> Parameters:
        """How the commit describes itself."""

    def added(self, adds: Iterable[Add]) -> list[Add]:
        """The files of a bin, as the table names them."""


@dataclass(frozen=True, slots=True)
class _Packed:
    """Small files are put together."""

    columns: tuple[ColumnPath, ...] = ()

    def largest(self, size: int) -> int | None:
        return size

    def bins(self, files: Sequence[Add], size: int) -> list[list[Add]]:
        return list(bins(files, size))

    def parameters(self, where: str | None) -> Parameters:
        return optimize_parameters(where)

    def added(self, adds: Iterable[Add]) -> list[Add]:
        return list(adds)


@dataclass(frozen=True, slots=True)
class _ZOrdered:
    """All rows are ordered, in each partition, as often as it is asked for."""

    columns: tuple[ColumnPath, ...]

    def largest(self, size: int) -> int | None:
        return None

    def bins(self, files: Sequence[Add], size: int) -> list[list[Add]]:
        return [
            together
            for found in by_partition(files)
            for together in packed(sorted(found, key=attrgetter("path")), attrgetter("size"), _CUBE_FILES * size)
        ]

    def parameters(self, where: str | None) -> Parameters:
        return optimize_parameters(where, zorder_by=[path_text(each) for each in self.columns])

    def added(self, adds: Iterable[Add]) -> list[Add]:
        return list(adds)


@dataclass(frozen=True, slots=True)
class _Clustered:
    """Rows are ordered by the clustering columns of the table, in cubes: files that were ordered together.

    As with Delta Spark, files that are in no cube are taken, and with them those of cubes that are not full.
    """

    columns: tuple[ColumnPath, ...]

    def largest(self, size: int) -> int | None:
        return None

    def bins(self, files: Sequence[Add], size: int) -> list[list[Add]]:
        cubes: dict[str | None, list[Add]] = {}
        for file in files:
            cubes.setdefault(self._cube(file), []).append(file)
        most, loose = _CUBE_FILES * size, cubes.pop(None, [])
        partial = [found for found in cubes.values() if sum(each.size for each in found) < most]
        if not loose and len(partial) <= 1:  # which is ordered already
            return []
        taken = sorted([*loose, *(file for found in partial for file in found)], key=attrgetter("path"))
        return list(packed(taken, attrgetter("size"), most))

    def parameters(self, where: str | None) -> Parameters:
        return optimize_parameters(where, cluster_by=[path_text(each) for each in self.columns])

    def added(self, adds: Iterable[Add]) -> list[Add]:
        tags = {_CUBE: str(uuid.uuid4()), _CUBE_COLUMNS: self._names}
        return [replace(each, tags=tags, clustering_provider=_PROVIDER) for each in adds]

    @property
    def _names(self) -> str:
        return json_text([path_text(each) for each in self.columns])

    def _cube(self, file: Add) -> str | None:
        """The cube that a file is of; None where it has other columns, or rows that are deleted."""
        tags = file.tags or {}
        is_ordered = file.clustering_provider == _PROVIDER and tags.get(_CUBE_COLUMNS) == self._names
        return tags.get(_CUBE) if is_ordered and file.deletion_vector is None else None


def arrangement_of(taken: Snapshot, layout: Layout, zorder_by: Sequence[str]) -> Arrangement:
    """How the rows of a table are arranged; InvalidInput for columns that no order goes by."""
    clustering = _clustering_columns(taken, layout)
    if clustering and zorder_by:
        named = ", ".join(path_text(each) for each in clustering)
        raise Refused(
            f"table {taken.table!r} has clustering columns ({named}), by which its rows are ordered",
            hint="leave zorder_by out",
            table=taken.table,
        )
    if clustering:
        return _Clustered(clustering)
    paths = tuple(_orderable(each, layout) for each in zorder_by)
    if repeated := next((path for number, path in enumerate(paths) if path in paths[:number]), None):
        raise InvalidInput(
            f"table {layout.table!r} cannot be ordered by {path_text(repeated)!r} twice", hint="name each column once"
        )
    return _ZOrdered(paths) if paths else _Packed()


def _orderable(text: str, layout: Layout) -> ColumnPath:
    hint = "name columns of numbers, texts, dates or times that are no partition columns"
    try:
        path = resolved_path(layout.schema, column_path(text))
    except InvalidSchema as error:
        raise InvalidInput(
            f"table {layout.table!r} cannot be ordered by {text!r}: {error.message}", hint=hint
        ) from None
    *above, kind = (field_at(layout.schema, path[: number + 1]).type for number in range(len(path)))
    if path[0] in {each.name for each in layout.partition_fields}:
        raise InvalidInput(f"table {layout.table!r}: {text!r} is a partition column", hint=hint)
    if not all(isinstance(each, StructType) for each in above) or not isinstance(kind, Primitive | Decimal):
        raise InvalidInput(f"table {layout.table!r} cannot be ordered by {text!r}: its values have no order", hint=hint)
    return path


def _clustering_columns(taken: Snapshot, layout: Layout) -> tuple[ColumnPath, ...]:
    """The clustering columns by the names that users know; the table has those of its files."""
    logical = {physical_path(layout.schema, path): path for path, _ in layout.schema.walk()}
    return tuple(logical[tuple(path)] for path in clustering_columns(taken))
