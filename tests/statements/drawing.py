"""Random statements of stock Delta Lake: those that lock-step also takes, and those that are Delta Spark's alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tests.lockstep.kinds import INT, LONG, Column, draw_rows, sql_name
from tests.lockstep.operations import draw_operation
from tests.lockstep.pair import Subject

TABLE, FEED, COPY = "delta.`$folder/t`", "delta.`$folder/feed`", "delta.`$folder/copy`"
"""The tables of one side, whose folder each side puts in."""
ROWS = f"SELECT * FROM {TABLE}"
_CHANGES = "SELECT * EXCEPT (_commit_timestamp) FROM table_changes_by_path('$folder/t', {}, {})"
_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_FREE_PROPERTIES = (
    "'delta.enableDeletionVectors' = 'true'",
    "'delta.enableDeletionVectors' = 'false'",
    "'delta.enableChangeDataFeed' = 'true'",
    "'delta.enableChangeDataFeed' = 'false'",
    "'delta.checkpointInterval' = '3'",
    "'delta.checkpointInterval' = '20'",
    "'delta.checkpointPolicy' = 'v2'",
    "'delta.checkpointPolicy' = 'classic'",
    "'delta.dataSkippingNumIndexedCols' = '1'",
    "'delta.enableInCommitTimestamps' = 'true'",
    "'delta.enableRowTracking' = 'true'",
    "'delta.enableTypeWidening' = 'true'",
    "'delta.isolationLevel' = 'Serializable'",
    "'delta.logRetentionDuration' = 'interval 40 days', 'own' = 'ü \"x\"'",
)


@dataclass(frozen=True, slots=True)
class Statements:
    """One operation: its statements, and the query whose rows are compared afterwards."""

    name: str
    texts: Sequence[str]
    columns: Sequence[Column] | None = None
    """The columns afterwards, where the operation changes them."""
    query: str = ROWS
    compared: Sequence[str] = ("*",)
    """The columns of the query."""
    is_streamed: bool = False
    """Whether the table ``feed`` is streamed into ``copy`` before the query."""


Draw = Callable[[Random, Subject], Statements | None]


def draw_statements(random: Random, subject: Subject) -> Statements:
    """One operation that the table can take."""
    if random.random() < _SHARE_OF_LOCKSTEP or not subject.moments:
        name, step = draw_operation(random, subject)
        return Statements(name.strip("_"), step.theirs, step.columns)
    while True:
        [draw] = random.choices(list(_OWN), list(_OWN.values()))
        if (drawn := draw(random, subject)) is not None:
            return drawn


def create_statement(columns: Sequence[Column], partitions: Sequence[str], properties: Mapping[str, str]) -> str:
    """The statement that makes the table."""
    schema = ", ".join(f"{sql_name(each.name)} {each.kind.sql}" for each in columns)
    by = f"PARTITIONED BY ({', '.join(map(sql_name, partitions))})" if partitions else ""
    given = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    return f"CREATE TABLE {TABLE} ({schema}) USING delta {by} {f'TBLPROPERTIES ({given})' if given else ''}"


def _zorder(random: Random, subject: Subject) -> Statements:
    ordered = [each for each in subject.columns if each.kind.is_compared and each.name not in subject.partitions]
    return Statements("zorder", [f"OPTIMIZE {TABLE} ZORDER BY ({sql_name(random.choice(ordered).name)})"])


def _vacuum(random: Random, subject: Subject) -> Statements:
    if random.random() < 0.7:
        return Statements("vacuum", [f"VACUUM {TABLE}"])
    return Statements("vacuum all", [f"SET {_CHECK} = false", f"VACUUM {TABLE} RETAIN 0 HOURS", f"SET {_CHECK} = true"])


def _set_property(random: Random, subject: Subject) -> Statements:
    text = random.choice(_FREE_PROPERTIES)
    return Statements("set property", [f"ALTER TABLE {TABLE} SET TBLPROPERTIES ({text})"])


def _unset_property(random: Random, subject: Subject) -> Statements:
    name = random.choice(_FREE_PROPERTIES).partition(" =")[0]
    return Statements("unset property", [f"ALTER TABLE {TABLE} UNSET TBLPROPERTIES IF EXISTS ({name})"])


def _map_columns(random: Random, subject: Subject) -> Statements:
    return Statements("map columns", [f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"])


def _drop_feature(random: Random, subject: Subject) -> Statements:
    feature = random.choice(("deletionVectors", "v2Checkpoint", "typeWidening", "rowTracking", "columnMapping"))
    return Statements("drop feature", [f"ALTER TABLE {TABLE} DROP FEATURE {feature}"])


def _add_constraint(random: Random, subject: Subject) -> Statements:
    check = f"CHECK (`id` IS NULL OR `id` > {random.choice((-100, 1))})"
    return Statements("add constraint", [f"ALTER TABLE {TABLE} ADD CONSTRAINT c{random.randrange(3)} {check}"])


def _drop_constraint(random: Random, subject: Subject) -> Statements:
    return Statements("drop constraint", [f"ALTER TABLE {TABLE} DROP CONSTRAINT IF EXISTS c{random.randrange(3)}"])


def _comment(random: Random, subject: Subject) -> Statements:
    name = sql_name(random.choice(subject.columns).name)
    return Statements("comment", [f"ALTER TABLE {TABLE} ALTER COLUMN {name} COMMENT 'it''s \\n\"ü\"'"])


def _widen(random: Random, subject: Subject) -> Statements | None:
    narrow = [each for each in subject.columns if each.kind is INT]
    if not narrow:
        return None
    widened = random.choice(narrow)
    columns = [Column(each.name, LONG) if each is widened else each for each in subject.columns]
    return Statements("widen", [f"ALTER TABLE {TABLE} ALTER COLUMN {sql_name(widened.name)} TYPE bigint"], columns)


def _cluster(random: Random, subject: Subject) -> Statements | None:
    if subject.partitions:
        return None
    by = random.choice(("(`id`)", "NONE"))
    return Statements("cluster", [f"ALTER TABLE {TABLE} CLUSTER BY {by}"])


def _replace(random: Random, subject: Subject) -> Statements:
    rows = draw_rows(random, subject.columns, 3)
    by = f"PARTITIONED BY ({', '.join(map(sql_name, subject.partitions))})" if subject.partitions else ""
    return Statements(
        "replace", [f"CREATE OR REPLACE TABLE {TABLE} USING delta {by} AS SELECT * FROM {subject.source(rows)}"]
    )


def _insert_once(random: Random, subject: Subject) -> Statements:
    """By the number of an application: the second insert does nothing."""
    name, number = "spark.databricks.delta.write.txn", len(subject.moments)
    source = subject.source(draw_rows(random, subject.columns, 2))
    insert = f"INSERT INTO {TABLE} SELECT * FROM {source}"
    given = [f"SET {name}AppId = loader", f"SET {name}Version = {number}"]
    return Statements("insert once", [*given, insert, *given, insert, f"RESET {name}AppId", f"RESET {name}Version"])


def _read_changes(random: Random, subject: Subject) -> Statements:
    last = subject.moments[-1].theirs
    first = random.randint(max(0, last - 5), last)
    return Statements("read changes", [], query=_CHANGES.format(first, last))


def _stream(random: Random, subject: Subject) -> Statements:
    number = len(subject.moments)
    texts = [
        f"CREATE TABLE IF NOT EXISTS {FEED} (id LONG, at INT) USING delta",
        f"INSERT INTO {FEED} SELECT id, {number} FROM range({random.randrange(1, 20)})",
    ]
    return Statements("stream", texts, query=f"SELECT * FROM {COPY}", is_streamed=True)


_SHARE_OF_LOCKSTEP = 0.6
_OWN: Mapping[Draw, int] = {
    _zorder: 3,
    _vacuum: 3,
    _set_property: 8,
    _unset_property: 2,
    _map_columns: 1,
    _drop_feature: 1,
    _add_constraint: 2,
    _drop_constraint: 2,
    _comment: 2,
    _widen: 2,
    _cluster: 1,
    _replace: 1,
    _insert_once: 2,
    _read_changes: 4,
    _stream: 4,
}
"""How often each is drawn."""
