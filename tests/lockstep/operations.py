"""Random operations for a pair of tables."""

from collections.abc import Callable, Mapping, Sequence
from random import Random

import pyarrow as pa

from tests.lockstep.expressions import condition, names_of, value
from tests.lockstep.kinds import KINDS, Column, draw_rows, literal, sql_name
from tests.lockstep.merging import merge
from tests.lockstep.pair import Pair, Step

__all__ = ["OPERATIONS", "draw_operation"]

Operation = Callable[[Random, Pair], Step | None]
"""A step that the pair can take; None: it can take none of the kind."""


def draw_operation(random: Random, pair: Pair) -> tuple[str, Step]:
    """One of the operations that the pair can take, with its name; rows come first."""
    if not pair.moments or not pair.moments[-1].rows:
        return _append.__name__, _append(random, pair)
    while True:
        [operation] = random.choices(list(OPERATIONS), list(OPERATIONS.values()))
        if (step := operation(random, pair)) is not None:
            return operation.__name__, step


def _rows(random: Random, columns: Sequence[Column]) -> pa.Table:
    return draw_rows(random, columns, random.choice((1, 2, 5, 9)))


def _listed(columns: Sequence[Column]) -> str:
    return ", ".join(sql_name(each.name) for each in columns)


def _append(random: Random, pair: Pair) -> Step:
    """Some of the columns, in any order."""
    left_out = random.choice(pair.columns) if random.random() < 0.3 else None
    columns = [each for each in pair.columns if each is not left_out]
    random.shuffle(columns)
    rows = _rows(random, columns)
    statement = f"INSERT INTO {pair.theirs} ({_listed(columns)}) SELECT * FROM {pair.source(rows)}"
    return Step(lambda: pair.table.append(rows), [statement])


def _append_more(random: Random, pair: Pair) -> Step:
    """A column more than the table has."""
    columns = [*pair.columns, _new_column(random)]
    rows, setting = _rows(random, columns), "spark.databricks.delta.schema.autoMerge.enabled"
    statement = f"INSERT INTO {pair.theirs} BY NAME SELECT * FROM {pair.source(rows)}"
    return Step(
        lambda: pair.table.append(rows, merge_schema=True),
        [f"SET {setting} = true", statement, f"SET {setting} = false"],
        columns,
    )


def _overwrite(random: Random, pair: Pair) -> Step:
    rows = _rows(random, pair.columns)
    return Step(lambda: pair.table.overwrite(rows), [_replacing(pair, rows, "INSERT OVERWRITE")])


def _overwrite_dynamic(random: Random, pair: Pair) -> Step | None:
    if not pair.partitions:
        return None
    rows, mode = _rows(random, pair.columns), "spark.sql.sources.partitionOverwriteMode"
    statement = _replacing(pair, rows, "INSERT OVERWRITE")
    return Step(
        lambda: pair.table.overwrite(rows, dynamic=True), [f"SET {mode} = dynamic", statement, f"SET {mode} = static"]
    )


def _replace_where(random: Random, pair: Pair) -> Step | None:
    if not pair.partitions:
        return None
    by = next(each for each in pair.columns if each.name == random.choice(pair.partitions[:1]))
    wanted = random.choice((None, *by.kind.values))
    where = f"{sql_name(by.name)} IS NULL" if wanted is None else f"{sql_name(by.name)} = {literal(wanted)}"
    drawn = _rows(random, pair.columns)
    rows = drawn.set_column(
        drawn.schema.get_field_index(by.name), by.name, pa.array([wanted] * drawn.num_rows, by.kind.arrow)
    )
    statement = _replacing(pair, rows, "INSERT INTO", f"REPLACE WHERE {where}")
    return Step(lambda: pair.table.overwrite(rows, replace_where=where), [statement])


def _replacing(pair: Pair, rows: pa.Table, verb: str, which: str = "") -> str:
    return f"{verb} {pair.theirs} {which} SELECT {_listed(pair.columns)} FROM {pair.source(rows)}"


def _delete(random: Random, pair: Pair) -> Step:
    where = condition(random, names_of(pair.columns))
    return Step(lambda: pair.table.delete(where), [f"DELETE FROM {pair.theirs} WHERE {where}"])


def _update(random: Random, pair: Pair) -> Step:
    names = names_of(pair.columns)
    where = condition(random, names)
    values = {each.name: value(random, names, each.kind) for each in random.sample(pair.columns, random.choice((1, 2)))}
    assigned = ", ".join(f"{sql_name(name)} = {text}" for name, text in values.items())
    return Step(lambda: pair.table.update(values, where), [f"UPDATE {pair.theirs} SET {assigned} WHERE {where}"])


def _optimize(random: Random, pair: Pair) -> Step:
    return Step(pair.table.optimize, [f"OPTIMIZE {pair.theirs}"])


def _restore(random: Random, pair: Pair) -> Step | None:
    if not pair.moments:
        return None
    moment = random.choice(pair.moments)
    statement = f"RESTORE TABLE {pair.theirs} TO VERSION AS OF {moment.theirs}"
    return Step(lambda: pair.table.restore(moment.ours), [statement], moment.columns)


def _add_column(random: Random, pair: Pair) -> Step:
    at, column = random.randrange(len(pair.columns)), _new_column(random)
    columns = [*pair.columns[:at], pair.columns[at], column, *pair.columns[at + 1 :]]
    text = f"{sql_name(column.name)} {column.kind.sql} AFTER {sql_name(pair.columns[at].name)}"
    return Step(lambda: pair.table.alter(columns=[text]), [f"ALTER TABLE {pair.theirs} ADD COLUMN {text}"], columns)


def _rename_column(random: Random, pair: Pair) -> Step | None:
    if not pair.is_mapped:
        return None
    old, new = random.choice(_free(pair)), random.choice(("R{}", "r {}")).format(random.randrange(10_000))
    columns = [Column(new, each.kind) if each is old else each for each in pair.columns]
    return Step(
        lambda: pair.table.alter(rename_columns={old.name: new}),
        [f"ALTER TABLE {pair.theirs} RENAME COLUMN {sql_name(old.name)} TO {sql_name(new)}"],
        columns,
    )


def _drop_column(random: Random, pair: Pair) -> Step | None:
    if not pair.is_mapped or len(pair.columns) < 5:
        return None
    gone = random.choice(_free(pair))
    return Step(
        lambda: pair.table.alter(drop_columns=[sql_name(gone.name)]),
        [f"ALTER TABLE {pair.theirs} DROP COLUMN {sql_name(gone.name)}"],
        [each for each in pair.columns if each is not gone],
    )


def _free(pair: Pair) -> list[Column]:
    """Columns by which no other operation goes."""
    return [each for each in pair.columns if each.name not in (*pair.partitions, "id")]


def _new_column(random: Random) -> Column:
    return Column(f"c{random.randrange(1_000_000)}", random.choice(KINDS))


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
