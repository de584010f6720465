"""Random conditions and values, in the language that both tables understand."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.lockstep.kinds import BOOLEAN, DECIMAL, DOUBLE, INT, LONG, STRING, Column, Kind, sql_name

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Name:
    """A column as an expression names it, such as ``target.`id```."""

    text: str
    kind: Kind


def names_of(columns: Sequence[Column], side: str = "") -> list[Name]:
    """The names of some columns, of one side of a merge."""
    return [Name(f"{side}{sql_name(each.name)}", each.kind) for each in columns]


def condition(random: Random, names: Sequence[Name], depth: int = 2) -> str:
    """A condition, which null makes neither true nor false as often as not."""
    if depth and random.random() < 0.55:
        inner = condition(random, names, depth - 1)
        if random.random() < 0.3:
            return f"NOT ({inner})"
        return f"({inner}) {random.choice(('AND', 'OR'))} ({condition(random, names, depth - 1)})"
    return _comparison(random, [each for each in names if each.kind.is_compared])


def _comparison(random: Random, names: Sequence[Name]) -> str:
    name, negation = random.choice(names), random.choice(("", "NOT "))
    literals = name.kind.literals
    match random.randrange(8):
        case 0:
            return f"{name.text} IS {negation}NULL"
        case 1:
            return f"{name.text} {negation}IN ({', '.join(random.sample(literals, 2))})"
        case 2 if name.kind is not BOOLEAN:
            return f"{name.text} {negation}BETWEEN {random.choice(literals)} AND {random.choice(literals)}"
        case 3:
            return f"{name.text} {random.choice(_COMPARISONS)} {_computed(random, names, name.kind)}"
        case 4 if name.kind is BOOLEAN:
            return name.text
        case _:
            return f"{name.text} {random.choice(_COMPARISONS)} {random.choice(literals)}"


def value(random: Random, names: Sequence[Name], kind: Kind) -> str:
    """An expression that a column of this type takes."""
    if random.random() < 0.1:
        return "NULL"
    return _computed(random, names, kind)


def _computed(random: Random, names: Sequence[Name], kind: Kind) -> str:
    same = [each.text for each in names if each.kind is kind]
    simple = [*same, *kind.expressions]
    if not same or not kind.is_compared or random.random() < 0.3:
        return random.choice(simple or ["NULL"])
    one, other, column = random.choice(simple), random.choice(simple), random.choice(same)
    shapes = [
        f"coalesce({column}, {other})",
        f"CASE WHEN {condition(random, names, 0)} THEN {one} ELSE {column} END",
        *_OPERATIONS.get(kind.sql, ()),
    ]
    texts = [each.text for each in names if each.kind is STRING]
    if kind is INT and texts:
        shapes.append(f"length({random.choice(texts)})")
    return random.choice(shapes).format(column=column, other=other)


_OPERATIONS = {
    STRING.sql: ("{other} || {column}", "concat({column}, {other})", "trim({column})"),
    LONG.sql: ("{column} + 2", "abs({column})", "-{column}"),
    DOUBLE.sql: ("{column} * 2", "{column} / 4", "abs({column})", "-{column}", "{column} - {other}"),
    DECIMAL.sql: ("{column} * 1.115", "{column} + 1"),
}
