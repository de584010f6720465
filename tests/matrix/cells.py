"""The cells of the matrix: a kind of table, opened by a reader through a part of its log."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deltamirror import Catalog
from tests.matrix.kinds import CHECKPOINT, KINDS, Row
from tests.matrix.limits import LIMITS
from tests.support.lakes.copies import Place, Selection, both, checkpoint_alone, copy_table, json_alone, log_of
from tests.support.mirrors.local import mirror_of
from tests.support.readers.reader import Reader, RequestFailed
from tests.support.readers.rows import fingerprint_of

WAYS: Final[Mapping[str, Selection]] = {
    "commits": json_alone,
    "checkpoint": checkpoint_alone(CHECKPOINT),
    "both": both,
}
"""What of its log a table is opened by."""


@dataclass(frozen=True, slots=True)
class Published:
    """A kind of table whose log we have published."""

    kind: str
    rows: Sequence[Row]
    place: Place

    def copies(self, above: Place) -> "Copies":
        """Below another place, for each way one with the part of the log that it leaves."""
        name = self.place.location.rpartition("/")[2]
        places = {way: Place(f"{above.location}/{name}-{way}", above.store) for way in WAYS}
        return Copies(self, {way: copy_table(self.place, place, WAYS[way]) for way, place in places.items()})


@dataclass(frozen=True, slots=True)
class Copies:
    """The same table in several places, by the way it is opened."""

    table: Published
    places: Mapping[str, Place]


def published(kind: str, catalog: Catalog, folder: Path, *, spark: Reader | None) -> Published:
    """Make a table, and mirror it."""
    name = hashlib.sha256(kind.encode()).hexdigest()[:8]
    with mirror_of(catalog) as engine:

        def mirror() -> None:
            engine.mirror(name)

        rows = KINDS[kind].made.make(catalog, name, folder / name, mirror=mirror, spark=spark)
    place = Place(str(folder / name))
    assert log_of(place).checkpoints == [CHECKPOINT]
    return Published(kind, rows, place)


def problem(copies: Copies, way: str, name: str, reader: Reader) -> str:
    """What is wrong with a cell; nothing, if the reader finds the rows, or meets the limit that it is known to have."""
    table, limit = copies.table, LIMITS.get((name, copies.table.kind))
    found = _trouble(table, copies.places[way], reader)
    if limit is None:
        return found
    if not found:
        return f"{name} no longer has the limit: {limit.why}"
    return "" if limit.says in found else f"{found}; expected: {limit.says}"


def _trouble(table: Published, place: Place, reader: Reader) -> str:
    try:
        seen = reader.snapshot(place.location, rows=True, store=place.store)
    except RequestFailed as error:
        return str(error)
    expected = fingerprint_of(table.rows)
    if {*seen.columns} != {*table.rows[0], *KINDS[table.kind].opaque}:
        return f"other columns: {seen.columns}"
    if seen.row_count != expected["count"]:
        return f"{seen.row_count} rows in place of {expected['count']}"
    is_shown = seen.row_digest is not None and not KINDS[table.kind].opaque
    return "other rows" if is_shown and seen.row_digest != expected["digest"] else ""
