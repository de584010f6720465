"""Random merges for a pair of tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from deltamirror import Delete, Insert, Update
from tests.lockstep.expressions import Name, condition, names_of, value
from tests.lockstep.kinds import Column, draw_rows, sql_name
from tests.lockstep.pair import Step, Subject


@dataclass
class _Clauses:
    """The clauses of a merge, for ours and for theirs."""

    random: Random
    columns: Sequence[Column]
    matched: list[Update | Delete] = field(default_factory=list)
    not_matched: list[Insert] = field(default_factory=list)
    by_source: list[Update | Delete] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def change(self, clauses: list[Update | Delete], when: str, names: Sequence[Name], *, is_last: bool) -> None:
        """Rows that are updated or deleted."""
        where = condition(self.random, names, 1) if not is_last or self.random.random() < 0.4 else None
        kind = self.random.choice(("delete", "set", "all") if clauses is self.matched else ("delete", "set"))
        if kind == "delete":
            clauses.append(Delete(where))
            self._say(when, where, "DELETE")
        elif kind == "all":
            clauses.append(Update(where=where))
            self._say(when, where, "UPDATE SET *")
        else:
            values = self._values(names)
            clauses.append(Update(values, where))
            self._say(
                when, where, "UPDATE SET " + ", ".join(f"{sql_name(key)} = {each}" for key, each in values.items())
            )

    def insert(self, names: Sequence[Name]) -> None:
        """Rows that come."""
        where = condition(self.random, names, 1) if self.random.random() < 0.4 else None
        if self.random.random() < 0.6:
            self.not_matched.append(Insert(where=where))
            self._say("NOT MATCHED", where, "INSERT *")
            return
        values = self._values(names)
        self.not_matched.append(Insert(values, where))
        columns = ", ".join(map(sql_name, values))
        self._say("NOT MATCHED", where, f"INSERT ({columns}) VALUES ({', '.join(values.values())})")

    def _values(self, names: Sequence[Name]) -> dict[str, str]:
        chosen = self.random.sample(list(self.columns), 2)
        return {each.name: value(self.random, names, each.kind) for each in chosen}

    def _say(self, when: str, where: str | None, what: str) -> None:
        self.texts.append(f"WHEN {when}{f' AND {where}' if where else ''} THEN {what}")


def merge(random: Random, subject: Subject) -> Step:
    """Any clauses, by any column; sources may be empty, and have keys twice."""
    key = random.choice([subject.columns[0], *(each for each in subject.columns if each.kind.is_compared)])
    target, source = names_of(subject.columns, "target."), names_of(subject.columns, "source.")
    on = f"target.{sql_name(key.name)} = source.{sql_name(key.name)}"
    if random.random() < 0.3:
        on = f"{on} AND ({condition(random, [*target, *source], 0)})"
    rows, clauses = _source(random, subject, key), _Clauses(random, subject.columns)
    for number in reversed(range(random.choice((0, 1, 2)))):
        clauses.change(clauses.matched, "MATCHED", [*target, *source], is_last=number == 0)
    if not clauses.matched or random.random() < 0.6:
        clauses.insert(source)
    for number in reversed(range(random.choice((0, 0, 1, 2)))):
        clauses.change(clauses.by_source, "NOT MATCHED BY SOURCE", target, is_last=number == 0)
    using = f"MERGE INTO {subject.theirs} target USING {subject.source(rows)} source ON {on}"
    return Step(
        lambda table: table.merge(
            rows,
            on,
            matched=clauses.matched,
            not_matched=clauses.not_matched,
            not_matched_by_source=clauses.by_source,
        ),
        [f"{using} {' '.join(clauses.texts)}"],
    )


def _source(random: Random, subject: Subject, key: Column) -> pa.Table:
    """Rows with keys that are null or come twice now and then."""
    count = random.choice((0, 1, 2, 4))
    rows = draw_rows(random, subject.columns, count)
    if random.random() < 0.3:
        return rows
    keys = random.sample(list(key.kind.values), min(count, len(key.kind.values)))
    rows = rows.slice(0, len(keys))
    return rows.set_column(rows.schema.get_field_index(key.name), key.name, pa.array(keys, key.kind.arrow))
