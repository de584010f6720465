"""Random operations for a pair of tables."""

from collections.abc import Callable, Mapping, Sequence
from random import Random

import pyarrow as pa

from tests.lockstep.expressions import condition, names_of, value
from tests.lockstep.kinds import KINDS, Column, draw_rows, literal, sql_name
from tests.lockstep.merging import merge
from tests.lockstep.pair import Step, Subject

Operation = Callable[[Random, Subject], Step | None]
"""A step that the subject can take; None: it can take none of the kind."""


def draw_operation(random: Random, subject: Subject) -> tuple[str, Step]:
    """One of the operations that the subject can take, with its name; rows come first."""
    if not subject.moments or not subject.moments[-1].rows:
        return _append.__name__, _append(random, subject)
    while True:
        [operation] = random.choices(list(OPERATIONS), list(OPERATIONS.values()))
        if (step := operation(random, subject)) is not None:
            return operation.__name__, step


def _rows(random: Random, columns: Sequence[Column]) -> pa.Table:
    return draw_rows(random, columns, random.choice((1, 2, 5, 9)))


def _listed(columns: Sequence[Column]) -> str:
    return ", ".join(sql_name(each.name) for each in columns)


def _append(random: Random, subject: Subject) -> Step:
    """Some of the columns, in any order."""
    left_out = random.choice(subject.columns) if random.random() < 0.3 else None
    columns = [each for each in subject.columns if each is not left_out]
    random.shuffle(columns)
    rows = _rows(random, columns)
    statement = f"INSERT INTO {subject.theirs} ({_listed(columns)}) SELECT * FROM {subject.source(rows)}"
    return Step(lambda table: table.append(rows), [statement])


def _append_more(random: Random, subject: Subject) -> Step:
    """A column more than the table has."""
    column = _new_column(random)
    columns = [*subject.columns, column]
    rows, setting = _rows(random, columns), "spark.databricks.delta.schema.autoMerge.enabled"
    statement = f"INSERT INTO {subject.theirs} BY NAME SELECT * FROM {subject.source(rows)}"
    return Step(
        lambda table: table.append(rows, merge_schema=True),
        [*_enabling(column, subject), f"SET {setting} = true", statement, f"SET {setting} = false"],
        columns,
    )


def _overwrite(random: Random, subject: Subject) -> Step:
    rows = _rows(random, subject.columns)
    return Step(lambda table: table.overwrite(rows), [_replacing(subject, rows, "INSERT OVERWRITE")])


def _overwrite_dynamic(random: Random, subject: Subject) -> Step | None:
    if not subject.partitions:
        return None
    rows, mode = _rows(random, subject.columns), "spark.sql.sources.partitionOverwriteMode"
    statement = _replacing(subject, rows, "INSERT OVERWRITE")
    return Step(
        lambda table: table.overwrite(rows, dynamic=True), [f"SET {mode} = dynamic", statement, f"SET {mode} = static"]
    )


def _replace_where(random: Random, subject: Subject) -> Step | None:
    if not subject.partitions:
        return None
    by = next(each for each in subject.columns if each.name == random.choice(subject.partitions[:1]))
    wanted = random.choice((None, *by.kind.values))
    where = f"{sql_name(by.name)} IS NULL" if wanted is None else f"{sql_name(by.name)} = {literal(wanted)}"
    drawn = _rows(random, subject.columns)
    rows = drawn.set_column(
        drawn.schema.get_field_index(by.name), by.name, pa.array([wanted] * drawn.num_rows, by.kind.arrow)
    )
    statement = _replacing(subject, rows, "INSERT INTO", f"REPLACE WHERE {where}")
    return Step(lambda table: table.overwrite(rows, replace_where=where), [statement])


def _replacing(subject: Subject, rows: pa.Table, verb: str, which: str = "") -> str:
    return f"{verb} {subject.theirs} {which} SELECT {_listed(subject.columns)} FROM {subject.source(rows)}"


def _delete(random: Random, subject: Subject) -> Step:
    where = condition(random, names_of(subject.columns))
    return Step(lambda table: table.delete(where), [f"DELETE FROM {subject.theirs} WHERE {where}"])


def _update(random: Random, subject: Subject) -> Step:
    names = names_of(subject.columns)
    where = condition(random, names)
    values = {
        each.name: value(random, names, each.kind) for each in random.sample(subject.columns, random.choice((1, 2)))
    }
    assigned = ", ".join(f"{sql_name(name)} = {text}" for name, text in values.items())
    return Step(lambda table: table.update(values, where), [f"UPDATE {subject.theirs} SET {assigned} WHERE {where}"])


def _optimize(random: Random, subject: Subject) -> Step:
    return Step(lambda table: table.optimize(), [f"OPTIMIZE {subject.theirs}"])


def _restore(random: Random, subject: Subject) -> Step | None:
    if not subject.moments:
        return None
    moment = random.choice(subject.moments)
    statement = f"RESTORE TABLE {subject.theirs} TO VERSION AS OF {moment.theirs}"
    return Step(lambda table: table.restore(moment.ours), [statement], moment.columns)


def _add_column(random: Random, subject: Subject) -> Step:
    at, column = random.randrange(len(subject.columns)), _new_column(random)
    columns = [*subject.columns[:at], subject.columns[at], column, *subject.columns[at + 1 :]]
    text = f"{sql_name(column.name)} {column.kind.sql} AFTER {sql_name(subject.columns[at].name)}"
    statements = [*_enabling(column, subject), f"ALTER TABLE {subject.theirs} ADD COLUMN {text}"]
    return Step(lambda table: table.alter(columns=[text]), statements, columns)


def _rename_column(random: Random, subject: Subject) -> Step | None:
    if not subject.is_mapped:
        return None
    old, new = random.choice(_free(subject)), random.choice(("R{}", "r {}")).format(random.randrange(10_000))
    columns = [Column(new, each.kind) if each is old else each for each in subject.columns]
    return Step(
        lambda table: table.alter(rename_columns={old.name: new}),
        [f"ALTER TABLE {subject.theirs} RENAME COLUMN {sql_name(old.name)} TO {sql_name(new)}"],
        columns,
    )


def _drop_column(random: Random, subject: Subject) -> Step | None:
    if not subject.is_mapped or len(subject.columns) < 5:
        return None
    gone = random.choice(_free(subject))
    return Step(
        lambda table: table.alter(drop_columns=[sql_name(gone.name)]),
        [f"ALTER TABLE {subject.theirs} DROP COLUMN {sql_name(gone.name)}"],
        [each for each in subject.columns if each is not gone],
    )


def _free(subject: Subject) -> list[Column]:
    """Columns by which no other operation goes."""
    return [each for each in subject.columns if each.name not in (*subject.partitions, "id")]


def _new_column(random: Random) -> Column:
    return Column(f"c{random.randrange(1_000_000)}", random.choice(KINDS))


def _enabling(column: Column, subject: Subject) -> list[str]:
    """What Delta Spark wants to be told before it takes a column of a new table feature; we enable it ourselves."""
    if column.kind.sql != "timestamp_ntz":
        return []
    return [f"ALTER TABLE {subject.theirs} SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')"]


OPERATIONS: Mapping[Operation, int] = {
    _append: 16,
    _append_more: 3,
    _overwrite: 2,
    _overwrite_dynamic: 4,
    _replace_where: 5,
    _delete: 12,
    _update: 16,
    merge: 20,
    _optimize: 3,
    _restore: 4,
    _add_column: 3,
    _rename_column: 3,
    _drop_column: 3,
}
"""How often each is drawn."""
