"""Where a chain of version checksums begins anew: the checksum of a version, from its state in SQL."""

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.actions import DeletionVector
from deltamirror.delta.checksum import MOST_FILES, Checksum, checksum_from_totals, decode, lists_files
from deltamirror.errors import NotFound
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import count_files
from deltamirror.txnlog.tables.reading import snapshot

_MOST_LISTED = 2_000_000
_VECTOR = msgspec.json.Decoder(DeletionVector)


def checksum_before(
    database: Database, table_id: int, table: str, stored: bytes | None, *, version: int
) -> Checksum | None:
    """The checksum that the one of a version is computed from: the last, if it is stored, or one of the whole state."""
    if version == 0:
        return None
    found = stored_seed(database, table_id, table, stored, version=version)
    return seed_of_state(database, table_id, table, version - 1) if found is None else found


def stored_seed(
    database: Database, table_id: int, table: str, stored: bytes | None, *, version: int
) -> Checksum | None:
    """The last checksum, if it is stored. A list of few files that it lacks is known again from SQL."""
    found = None if stored is None else decode(stored)
    if found is not None and found.all_files is None and found.num_files <= MOST_FILES and lists_files(found.metadata):
        return seed_of_state(database, table_id, table, version - 1) or found
    return found


def seed_of_state(database: Database, table_id: int, table: str, version: int) -> Checksum | None:
    """A checksum of a whole state, which takes as long as a table is large.

    None where there are too many files to list, or nothing before an import, or another table has the name by now.
    """
    try:
        taken = snapshot(database, table, version=version)
    except NotFound:
        return None
    if taken.table_id != table_id:
        return None
    with database.read() as connection:  # a table that has more is planned again and again: its files are not listed
        if count_files(connection, taken.table_id, version) > _MOST_LISTED:
            return None
    numbers = taken.file_numbers(limit=_MOST_LISTED + 1)
    if numbers.num_rows > _MOST_LISTED:
        return None
    return checksum_from_totals(
        sizes=numbers["size"],
        cardinalities=_cardinalities(numbers["deletion_vector"]),
        files=taken.adds() if numbers.num_rows <= MOST_FILES else (),
        transactions=taken.transactions().values(),
        domains=taken.domain_metadata().values(),
        protocol=taken.protocol,
        metadata=taken.metadata,
    )


def _cardinalities(vectors: pa.ChunkedArray) -> pa.Array:
    present = pc.drop_null(vectors).to_pylist()
    return pa.array([_VECTOR.decode(text).cardinality for text in present], pa.int64())
