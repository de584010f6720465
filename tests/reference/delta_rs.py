"""delta-rs as a writer of reference logs."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake

from tests.reference.history import Histories

DELTA_RS: Histories[None] = Histories()
add = DELTA_RS.add

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def rows(*keys: int, p: str | None = "a") -> pa.Table:
    """Some rows of one partition."""
    return pa.table({"id": pa.array(keys, pa.int64()), "p": pa.array([p] * len(keys), pa.string())})


@add("operations")
def operations(_: None, table: str) -> None:
    """All that delta-rs does to a table, with its own checkpoint in between."""
    write_deltalake(table, rows(1, 2, 3), partition_by=["p"], name="named", description='a "table" of delta-rs')
    write_deltalake(table, rows(4, 5, p="b"), mode="append", commit_properties=properties())
    write_deltalake(table, rows(6, p="b"), mode="overwrite", predicate="p = 'b'")
    found = DeltaTable(table)
    found.update(updates={"id": "id + 100"}, predicate="id = 1")
    found.delete("id = 2")
    merger = found.merge(rows(3, 9), predicate="s.id = t.id", source_alias="s", target_alias="t")
    merger.when_matched_update_all().when_not_matched_insert_all().execute()
    found.optimize.compact()
    found.create_checkpoint()
    found.restore(3)
    found.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    write_deltalake(table, rows(10), mode="overwrite")


def properties() -> CommitProperties:
    """A txn, and what the caller wants to say in commitInfo."""
    txn = Transaction("ingest ü", 7, 1_700_000_000_000)
    return CommitProperties(custom_metadata={"who": 'a "caller"', "n": "1"}, app_transactions=[txn])


@add("alter")
def alter(_: None, table: str) -> None:
    """Constraints, properties, features, columns."""
    write_deltalake(table, rows(1), configuration={"delta.appendOnly": "false"})
    found = DeltaTable(table)
    found.alter.add_constraint({"positive": "id > 0"})
    found.alter.drop_constraint("positive")
    found.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    found.alter.set_table_name("renamed")
    found.alter.set_table_description("described")
    write_deltalake(table, rows(2, 3).append_column("extra", pa.array([1, 2])), mode="append", schema_mode="merge")
    found.update_incremental()
    found.update(updates={"extra": "7"}, predicate="id = 2")
    found.delete("id = 3")


@add("types")
def types(_: None, table: str) -> None:
    """Every type that Arrow has and delta-rs takes, with nulls, and a checkpoint."""
    noon = dt.datetime(2024, 2, 29, 12, 30, 0, 123456, tzinfo=dt.UTC)
    columns = {
        "b": pa.array([-128, None], pa.int8()),
        "s": pa.array([1, None], pa.int16()),
        "i": pa.array([1, None], pa.int32()),
        "l": pa.array([1, None], pa.int64()),
        "f": pa.array([1.5, None], pa.float32()),
        "d": pa.array([1e300, None], pa.float64()),
        "bo": pa.array([True, None]),
        "st": pa.array(['ü "q" \\ \n', None]),
        "bin": pa.array([b"\x00\xff", None]),
        "da": pa.array([noon.date(), None]),
        "ts": pa.array([noon, None], pa.timestamp("us", "UTC")),
        "ntz": pa.array([noon.replace(tzinfo=None), None], pa.timestamp("us")),
        "dec": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "ar": pa.array([[1, None], None], pa.list_(pa.int32())),
        "st2": pa.array([{"x": 1, "y": "z"}, None]),
        "ma": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
    }
    write_deltalake(table, pa.table(columns))
    write_deltalake(table, pa.table(columns), mode="append", post_commithook_properties=NO_HOOKS)
    DeltaTable(table).create_checkpoint()
    write_deltalake(table, pa.table(columns), mode="append")


@add("partitions")
def partitions(_: None, table: str) -> None:
    """Partition values with escapes, null, and of several types."""
    odd = ["a/b", "a%20b", "ü 漢", "x=y:z", "#?+", None, "plain"]
    data = pa.table(
        {
            "id": pa.array(range(len(odd)), pa.int64()),
            "p": odd,
            "day": [dt.date(2024, 1, 1)] * len(odd),
            "at": pa.array([dt.datetime(2024, 1, 1, 1, 2, 3, tzinfo=dt.UTC)] * len(odd), pa.timestamp("us", "UTC")),
            "n": pa.array([1, None] * 3 + [2], pa.int32()),
        }
    )
    write_deltalake(table, data, partition_by=["p", "day", "at", "n"])
    DeltaTable(table).delete("p = 'a/b'")
    DeltaTable(table).create_checkpoint()


@add("interval")
def by_interval(_: None, table: str) -> None:
    """Checkpoints that it writes by itself, by the table's interval."""
    write_deltalake(table, rows(0), configuration={"delta.checkpointInterval": "3"})
    for key in range(1, 8):
        write_deltalake(table, rows(key), mode="append" if key != 4 else "overwrite")
