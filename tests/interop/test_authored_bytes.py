"""What we author is, byte for byte, what Delta Lake on Spark writes for the same definition and actions (G4).

Tables begin as a live Spark begins them. Commits after that are held against the reference logs, which the same release
wrote; a live Spark writes one story of them in the default suite, and the others in ``make soak``.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from deltamirror import Catalog, CommitInfo, Metadata, Table
from deltamirror.delta import lines
from deltamirror.delta.actions import Action, Add, DomainMetadata
from tests.support.lakes.lake import opened
from tests.support.logs.folder import masked, read_log
from tests.support.mirrors.local import append, log_of, make_table, mirror_of
from tests.support.readers.reader import Reader, RequestFailed
from tests.support.reference_logs.files import begin_table
from tests.support.reference_logs.own import CURRENT, ROOT

pytestmark = [pytest.mark.spark, pytest.mark.requirement("R66")]


@dataclass(frozen=True)
class Definition:
    """A table in Spark's words and in ours."""

    columns: str
    clause: str = ""
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    comment: str | None = None
    properties: dict[str, str] = field(default_factory=dict)

    def create_by_spark(self, reader: Reader, folder: Path) -> None:
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in self.properties.items())
        comment = "" if self.comment is None else f" COMMENT '{self.comment}'"
        reader.sql(
            f"CREATE TABLE delta.`{folder}` ({self.columns}) USING delta {self.clause}{comment}"
            f" TBLPROPERTIES ({properties})"
        )

    def create_by_us(self, catalog: Catalog, name: str) -> Table:
        return catalog.create_table(
            name,
            location=f"/lake/{name}",
            schema=self.columns,
            partition_by=self.partition_by,
            cluster_by=self.cluster_by,
            description=self.comment,
            properties=self.properties,
        )


TIMED = {"delta.enableInCommitTimestamps": "true"}

# Properties are given in the order in which Spark's CREATE TABLE hands them to Delta, which is that of a Java hash
# map: a table of up to four properties keeps the order in which it is told them.
DEFINITIONS = {
    "plain": Definition("id LONG, day DATE, s STRUCT<a: INT, b: ARRAY<STRING>>, m MAP<STRING, INT>", properties=TIMED),
    "no in-commit timestamps": Definition("id LONG", properties={"delta.enableInCommitTimestamps": "false"}),
    "protocol (1,2)": Definition("id LONG", properties={"delta.minReaderVersion": "1", "delta.minWriterVersion": "2"}),
    "protocol (1,4)": Definition("id LONG", properties={"delta.minReaderVersion": "1", "delta.minWriterVersion": "4"}),
    "partitioned": Definition(
        "id LONG, day DATE, city STRING",
        "PARTITIONED BY (day, city)",
        partition_by=("day", "city"),
        comment='says "hi"',
        properties={"custom": "x y", **TIMED, "delta.logRetentionDuration": "interval 30 days"},
    ),
    "clustered": Definition("id LONG, day DATE", "CLUSTER BY (day, id)", cluster_by=("day", "id"), properties=TIMED),
    "mapped": Definition(
        "id LONG, `a b` STRING, s STRUCT<x: INT>", properties={**TIMED, "delta.columnMapping.mode": "name"}
    ),
    "deletion vectors": Definition("id LONG", properties={**TIMED, "delta.enableDeletionVectors": "true"}),
    "row tracking": Definition("id LONG", properties={**TIMED, "delta.enableRowTracking": "true"}),
    "change data": Definition("id LONG", properties={**TIMED, "delta.enableChangeDataFeed": "true"}),
    "append-only": Definition("id LONG NOT NULL", properties={"delta.appendOnly": "true", **TIMED}),
    "timestamps without a zone": Definition("id LONG, t TIMESTAMP_NTZ", properties=TIMED),
    "V2 checkpoints": Definition("id LONG", properties={**TIMED, "delta.checkpointPolicy": "v2"}),
    "a feature by name": Definition("id LONG", properties={**TIMED, "delta.feature.domainMetadata": "supported"}),
    "much": Definition(
        "id LONG, t TIMESTAMP_NTZ",
        properties={
            **TIMED,
            "delta.enableDeletionVectors": "true",
            "delta.columnMapping.mode": "id",
            "delta.enableChangeDataFeed": "true",
            "delta.checkpointInterval": "5",
            "a": "1",
            "b": "2",
        },
    ),
}


@pytest.fixture(scope="module")
def catalog() -> Iterator[Catalog]:
    with Catalog("sqlite:///:memory:") as opened:
        opened.init()
        yield opened


@pytest.mark.parametrize("case", DEFINITIONS)
def test_a_table_begins_with_the_lines_of_the_reference_writer(
    case: str, catalog: Catalog, tmp_path: Path, delta_spark: Reader
) -> None:
    definition = DEFINITIONS[case]
    definition.create_by_spark(delta_spark, tmp_path / "t")
    ours = definition.create_by_us(catalog, f"begin-{list(DEFINITIONS).index(case)}")
    assert masked(ours.commit_file(0)) == masked(read_log(tmp_path / "t")[0])


STORIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "partitioned": (
        "partitioned",
        (
            "INSERT INTO {t} VALUES (1, DATE'2024-02-29', 'São Paulo'), (2, NULL, 'a/b %20\"'), (3, NULL, NULL)",
            "SET spark.databricks.delta.write.txnAppId = loader",
            "SET spark.databricks.delta.write.txnVersion = 7",
            "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, DATE'2024-03-01', 'x=y' FROM range(10)",
            "RESET spark.databricks.delta.write.txnAppId",
            "RESET spark.databricks.delta.write.txnVersion",
            "DELETE FROM {t} WHERE id = 3",
            "UPDATE {t} SET id = id + 100 WHERE city = 'x=y'",
            "ALTER TABLE {t} SET TBLPROPERTIES ('team' = 'ä', 'delta.checkpointInterval' = '7')",
            "ALTER TABLE {t} ADD COLUMNS (price DECIMAL(10,2) COMMENT 'in €')",
            "INSERT OVERWRITE {t} SELECT 5, DATE'2024-03-01', 'z', 1.5",
            "OPTIMIZE {t}",
            "ALTER TABLE {t} UNSET TBLPROPERTIES ('custom')",
            "COMMENT ON TABLE {t} IS 'other'",
        ),
    ),
    "clustered": (
        "clustered",
        ("INSERT INTO {t} SELECT id, DATE'2024-02-29' FROM range(5)", "INSERT INTO {t} VALUES (7, NULL)"),
    ),
    "tracked": (
        "row tracking",
        ("INSERT INTO {t} SELECT id FROM range(5)", "INSERT INTO {t} VALUES (7)", "DELETE FROM {t} WHERE id = 7"),
    ),
    "upgraded": (
        "protocol (1,2)",
        (
            "INSERT INTO {t} VALUES (1)",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
            "INSERT INTO {t} SELECT id FROM range(3)",
            "DELETE FROM {t} WHERE id = 2",
        ),
    ),
}


REFERENCE_LOGS = (
    *("basic", "changes", "clone", "indexed-columns", "many-files", "mapping-id", "mapping-later", "mapping-name"),
    *("multi-part", "nested", "partition-types", "repartitioned", "row-tracking", "row-tracking-later", "stream"),
    *("timestamps-from-start", "type-widening", "typed-statistics", "types", "v2-json", "v2-parquet", "variant"),
)
"""Those without a commit that we let no writer hand in: constraints, generated columns, vacuums, domains of Delta."""


@pytest.mark.requirement("R89")
@pytest.mark.parametrize("log", REFERENCE_LOGS)
def test_the_actions_of_a_reference_log_become_its_lines(log: str, catalog: Catalog) -> None:
    commits = read_log(ROOT / CURRENT / log)
    begin_table(catalog, f"reference-{log}", commits[0])
    assert_authored(catalog, catalog.table(f"reference-{log}"), commits)


def assert_authored(catalog: Catalog, table: Table, commits: Mapping[int, bytes]) -> None:
    """Each commit after the first, handed in by its actions, has the lines that its writer gave it."""
    for version in range(1, len(commits)):
        author(catalog, table, commits[version])
        assert masked(table.commit_file(version)) == masked(commits[version]), f"version {version}"


@pytest.mark.requirement("R89")
@pytest.mark.default_when(parameters=lambda those: those["story"] == "clustered")
@pytest.mark.parametrize("story", STORIES)
def test_the_same_actions_become_the_same_lines(
    story: str, catalog: Catalog, tmp_path: Path, delta_spark: Reader
) -> None:
    kind, statements = STORIES[story]
    DEFINITIONS[kind].create_by_spark(delta_spark, tmp_path / "t")
    for statement in statements:
        run(delta_spark, statement.format(t=f"delta.`{tmp_path / 't'}`"))
    assert_authored(catalog, DEFINITIONS[kind].create_by_us(catalog, f"story-{story}"), read_log(tmp_path / "t"))


def run(reader: Reader, statement: str) -> None:
    try:
        reader.sql(statement)
    except RequestFailed as error:
        # The report of OPTIMIZE does not fit into Arrow; its work is done by then.
        if "ArrowInvalid" not in str(error):
            raise


def author(catalog: Catalog, table: Table, data: bytes) -> None:
    """Commit the actions of another writer's commit as ours, described as it was."""
    info, *actions = lines.decode_commit(data)
    assert isinstance(info, CommitInfo)
    told = {name: msgspec.json.decode(raw) for name, raw in (info.operation_parameters or {}).items()}
    with catalog.transaction(
        operation=info.operation,
        parameters=told,
        metrics=info.operation_metrics,
        tags=info.tags,
        user_metadata=info.user_metadata,
    ) as tx:
        if not info.is_blind_append:
            tx.read(table.name)
        tx.stage(table.name, [_bare(action, table) for action in actions if not _is_computed(action)])


def _bare(action: Action, table: Table) -> Action:
    """An action as a writer hands it in: without what a commit computes."""
    current = table.snapshot()
    if isinstance(action, Metadata):
        own = {"id": current.metadata.id, "created_time": current.metadata.created_time}
        return msgspec.structs.replace(action, **own)
    if isinstance(action, Add) and action.default_row_commit_version == current.version + 1:
        return msgspec.structs.replace(action, base_row_id=None, default_row_commit_version=None)
    return action


def _is_computed(action: Action) -> bool:
    return isinstance(action, DomainMetadata) and action.domain == "delta.rowTracking"


@pytest.mark.requirement("R6")
@pytest.mark.parametrize("own_times", ["true", "false"])
def test_spark_opens_the_version_that_sql_says_was_in_force_at_a_time(
    sqlite_lake: str, delta_spark: Reader, tmp_path: Path, own_times: str
) -> None:
    with opened(sqlite_lake) as catalog:
        table = make_table(catalog, tmp_path, properties={"delta.enableInCommitTimestamps": own_times})
        for _ in range(2):
            append(table)
        with mirror_of(catalog) as engine:
            engine.run(once=True)
        times = {entry.version: entry.timestamp for entry in table.history()}
        for version, at in times.items():  # without times of its own, a log tells the time by its files
            os.utime(log_of(table) / f"{version:020}.json", ns=(at * 1_000_000, at * 1_000_000))
        for version, at in times.items():
            assert table.snapshot(as_of=at).version == version
            moment = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
            place = f"delta.`{table.location.removeprefix('file://')}`"
            [row] = delta_spark.sql(f"SELECT count(*) AS files FROM {place} TIMESTAMP AS OF '{moment}'")
            assert row["files"] == version  # one file with one row in each, by their statistics
