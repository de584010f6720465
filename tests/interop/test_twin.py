"""A table that Delta Lake on Spark writes, and its twin: the same actions, committed through us and mirrored.

The twin is mirrored commit by commit, as a service that keeps up does. Its log then holds the bytes of Spark's commits,
checkpoints with the rows and the schema of Spark's, and the checksums of Spark.

This is G4 of the README.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from deltamirror import Catalog
from deltamirror.delta import checksum
from deltamirror.delta.lastcheckpoint import Trust, decode
from deltamirror.delta.names import LOG_DIRECTORY
from tests.support.logs.checkpoint_rows import assert_same_rows, fields, reference
from tests.support.mirrors.local import mirror_of
from tests.support.readers.reader import Reader, RequestFailed
from tests.support.reference_logs.files import begin_table, commit_files

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.requirement("R66"), pytest.mark.requirement("R10")]

EVERY_THIRD = "'delta.checkpointInterval' = '3', 'delta.enableInCommitTimestamps' = 'true'"


def partitioned(table: str) -> Iterator[str]:
    yield (
        f"CREATE TABLE {table} (id LONG, day STRING, x DOUBLE) USING delta PARTITIONED BY (day)"
        f" TBLPROPERTIES ({EVERY_THIRD})"
    )
    yield f"INSERT INTO {table} VALUES (1, '2024-01-01', 1.5), (2, 'a b/c=d%', NULL), (3, NULL, double('NaN'))"
    yield f"INSERT INTO {table} SELECT id, concat('d', id % 3), id / 7 FROM range(10, 40)"
    yield f"INSERT OVERWRITE {table} PARTITION (day = 'd1') VALUES (100, 0.1)"
    yield f"DELETE FROM {table} WHERE day = 'd2'"
    yield f"ALTER TABLE {table} ADD COLUMN (note STRING COMMENT 'from elsewhere')"
    yield f"INSERT INTO {table} VALUES (200, 'd4', 2.5, 'ünïcode \\u0001')"
    yield f"ALTER TABLE {table} SET TBLPROPERTIES ('custom' = 'x', 'delta.logRetentionDuration' = 'interval 40 days')"
    yield f"UPDATE {table} SET note = 'changed' WHERE id = 200"
    yield f"OPTIMIZE {table}"


def with_vectors(table: str) -> Iterator[str]:
    yield (
        f"CREATE TABLE {table} (id LONG, t TIMESTAMP, d DECIMAL(20, 4), n STRUCT<a: INT, b: STRING>) USING delta"
        f" TBLPROPERTIES ({EVERY_THIRD}, 'delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true')"
    )
    yield f"INSERT INTO {table} SELECT id, timestamp_micros(id), id * 1.5, struct(int(id), 's') FROM range(50)"
    yield f"DELETE FROM {table} WHERE id % 7 = 0"
    yield f"DELETE FROM {table} WHERE id % 11 = 0"
    yield (
        f"MERGE INTO {table} t USING (SELECT id, current_timestamp() AS t FROM range(45, 55)) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET t = s.t WHEN NOT MATCHED THEN INSERT (id, t) VALUES (s.id, s.t)"
    )
    yield "SET spark.databricks.delta.write.txnAppId = stream-1"
    yield "SET spark.databricks.delta.write.txnVersion = 7"
    yield f"INSERT INTO {table} VALUES (1000, NULL, NULL, NULL)"
    yield "RESET spark.databricks.delta.write.txnAppId"
    yield "RESET spark.databricks.delta.write.txnVersion"
    yield f"UPDATE {table} SET d = 0 WHERE id = 1000"


def mapped(table: str) -> Iterator[str]:
    yield (
        f"CREATE TABLE {table} (id LONG, `old name` STRING, p DATE) USING delta PARTITIONED BY (p)"
        f" TBLPROPERTIES ({EVERY_THIRD}, 'delta.columnMapping.mode' = 'name')"
    )
    yield f"INSERT INTO {table} VALUES (1, 'a', DATE'2024-02-29'), (2, 'b', NULL)"
    yield f"ALTER TABLE {table} RENAME COLUMN `old name` TO renamed"
    yield f"INSERT INTO {table} VALUES (3, 'c', DATE'1900-01-01')"
    yield f"ALTER TABLE {table} DROP COLUMN renamed"
    yield f"DELETE FROM {table} WHERE id = 1"
    yield f"INSERT INTO {table} VALUES (4, DATE'2024-03-01')"


def clustered(table: str) -> Iterator[str]:
    yield f"CREATE TABLE {table} (id LONG, city STRING) USING delta CLUSTER BY (city) TBLPROPERTIES ({EVERY_THIRD})"
    yield f"INSERT INTO {table} SELECT id, concat('city-', id % 5) FROM range(100)"
    yield f"ALTER TABLE {table} CLUSTER BY (id)"
    yield f"INSERT INTO {table} SELECT id, 'x' FROM range(100, 120)"
    yield f"OPTIMIZE {table}"
    yield f"ALTER TABLE {table} CLUSTER BY NONE"
    yield f"INSERT INTO {table} VALUES (1, 'y')"


HISTORIES: dict[str, Callable[[str], Iterator[str]]] = {
    "partitioned": partitioned,
    "with deletion vectors": with_vectors,
    "column mapping": mapped,
    "clustered": clustered,
}


@pytest.mark.elsewhere  # the reference logs have such histories of this release; tests/golden holds them to the same
@pytest.mark.parametrize("history", HISTORIES)
def test_the_log_of_a_twin_is_the_log_that_spark_writes(history: str, delta_spark: Reader, tmp_path: Path) -> None:
    original, twin = tmp_path / "original", tmp_path / "twin"
    for statement in HISTORIES[history](f"delta.`{original}`"):
        run(delta_spark, statement)
    commits = list(commit_files(original / LOG_DIRECTORY))
    mirror_verbatim(commits, location=f"file://{twin}", database=tmp_path / "lake.db")

    ours, theirs = names(twin), names(original)
    assert ours == theirs
    for name in (name for name in ours if name.endswith(".json")):
        assert (twin / LOG_DIRECTORY / name).read_bytes() == (original / LOG_DIRECTORY / name).read_bytes(), name
    assert_same_checkpoints(twin, original)
    assert_same_checksums(twin, original)
    for path in original.rglob("*"):
        if path.is_file() and LOG_DIRECTORY not in path.parts and not path.name.endswith(".crc"):
            target = twin / path.relative_to(original)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.hardlink_to(path)
    assert delta_spark.snapshot(twin, rows=True) == delta_spark.snapshot(original, rows=True)
    delta_spark.sql(f"VACUUM delta.`{twin}`")


def run(spark: Reader, statement: str) -> None:
    """Run a statement; what OPTIMIZE returns, Spark does not get into Arrow, though it has done its work."""
    try:
        spark.sql(statement)
    except RequestFailed as error:
        if not statement.startswith("OPTIMIZE") or "viewed as non-nullable" not in str(error):
            raise


def mirror_verbatim(commits: list[bytes], *, location: str, database: Path) -> None:
    with Catalog(f"sqlite:///{database}") as catalog:
        catalog.init()
        begin_table(catalog, "twin", commits[0], location=location)
        with mirror_of(catalog) as engine:
            engine.mirror("twin")
            for version, data in enumerate(commits[1:], 1):
                with catalog.transaction() as tx:
                    tx.stage_lines("twin", data.splitlines(keepends=True), at_version=version)
                engine.mirror("twin")


def names(table: Path) -> list[str]:
    """What the log holds; the checksums that Hadoop keeps of its own files begin with a dot."""
    return sorted(path.name for path in (table / LOG_DIRECTORY).iterdir() if not path.name.startswith((".", "_staged")))


def assert_same_checkpoints(twin: Path, original: Path) -> None:
    found = sorted((original / LOG_DIRECTORY).glob("*.checkpoint.parquet"))
    assert found
    for path in found:
        ours, theirs = reference(twin / LOG_DIRECTORY / path.name), reference(path)
        assert list(fields(ours.schema_arrow)) == list(fields(theirs.schema_arrow))
        assert_same_rows(ours.read(), theirs.read())
    ours, theirs = (decode((table / LOG_DIRECTORY / "_last_checkpoint").read_bytes()) for table in (twin, original))
    assert ours.trust is Trust.VERIFIED
    assert ours.pointer is not None
    assert theirs.pointer is not None
    for name in ("version", "size", "num_of_add_files", "checkpoint_schema"):
        assert getattr(ours.pointer, name) == getattr(theirs.pointer, name), name


def assert_same_checksums(twin: Path, original: Path) -> None:
    for path in sorted((original / LOG_DIRECTORY).glob("0*.crc")):
        ours, theirs = (twin / LOG_DIRECTORY / path.name).read_bytes(), path.read_bytes()
        assert content(ours) == content(theirs), path.name


def content(data: bytes) -> checksum.Checksum:
    """What a checksum says. Where Spark took the files from a checkpoint, it shows tags that are missing as empty."""
    found = checksum.decode(data)
    assert found is not None
    files = found.all_files and tuple(replace(file, tags=file.tags or None) for file in found.all_files)
    return replace(found, all_files=files)
