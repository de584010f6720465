"""The two kinds of sides say the same of one table: SQL, whatever the database, and a log, whatever the store."""

from itertools import pairwise
from pathlib import Path

import pytest

from deltamirror import Catalog, DeletionVector, Table
from deltamirror.config import StorageSettings
from deltamirror.errors import NotFound
from deltamirror.ops.diff.comparing import compare
from deltamirror.ops.diff.sides import location_state, table_state
from deltamirror.ops.rebuild.rebuilding import rebuild
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from tests.support.lakes.lake import add, opened, remove_of
from tests.support.mirrors.local import make_table
from tests.support.stores.any_store import ON_S3_TOO

VECTOR = DeletionVector(storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", size_in_bytes=4, cardinality=2)
FEATURES = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "3"}


def lived(catalog: Catalog, folder: Path) -> Table:
    """A table with versions 0 to 5: files, tags, a deletion vector, a removal, a transaction, a property."""
    table = make_table(catalog, folder / "home", properties=FEATURES)
    first = add("a", stats='{"numRecords":3}', tags={"k": "é"})
    table.append([first, add("b%20c")])
    with catalog.transaction() as tx:
        tx.stage("t", [remove_of(first), add("a", stats=first.stats, deletion_vector=VECTOR)], read_version=1)
    with catalog.transaction() as tx:
        tx.append("t", [add("d")])
        tx.set_transaction("t", "app", 7)
    table.remove(["b%20c"])
    table.alter(properties={"delta.appendOnly": "false"})
    return table


def assert_same_at_every_version(catalog: Catalog, store: Store) -> None:
    for version in range(6):
        found = compare(table_state(catalog.database, "t", version), location_state(store, version))
        assert found.equal, (version, found.first)


def test_every_database_has_what_the_log_says(catalog: Catalog, tmp_path: Path) -> None:
    lived(catalog, tmp_path)
    target = store_at(str(tmp_path / "again"), StorageSettings())
    rebuild(catalog.database, "t", to=target)
    assert_same_at_every_version(catalog, target)


@ON_S3_TOO
def test_every_store_has_what_the_database_says(sqlite_lake: str, tmp_path: Path, any_store: Store) -> None:
    with opened(sqlite_lake) as catalog:
        lived(catalog, tmp_path)
        rebuild(catalog.database, "t", to=any_store, checkpoints=True)
        assert_same_at_every_version(catalog, any_store)


def test_no_version_equals_the_one_before_it(sqlite_lake: str, tmp_path: Path) -> None:
    with opened(sqlite_lake) as catalog:
        lived(catalog, tmp_path)
        states = [table_state(catalog.database, "t", version) for version in range(6)]
    counts = [compare(*pair).counts for pair in pairwise(states)]
    assert counts == [
        {"only_in_b": 2},
        {"only_in_a": 1, "only_in_b": 1},
        {"txn": 1, "only_in_b": 1},
        {"only_in_a": 1},
        {"metaData": 1},
    ]


def test_a_side_that_is_not_there_is_not_found(catalog: Catalog, tmp_path: Path) -> None:
    lived(catalog, tmp_path)
    for name, version in (("t", 6), ("nope", None)):
        with pytest.raises(NotFound):
            table_state(catalog.database, name, version)
