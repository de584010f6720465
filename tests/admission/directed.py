"""Named cases: every odd word that we know of, tried whatever chance brings.

The parts of a group do not touch each other, and are tried in one table; where that shows something wrong, each is
tried in a table of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import partial
from itertools import chain
from random import Random
from typing import Any, Final

from tests.admission.cases import Lake, Tried, finish
from tests.admission.directed_changes import WITH_VECTORS, Change, append_file, changes, columns_of
from tests.admission.kinds import SCALARS, Array, Column, Map, Struct, Uids
from tests.admission.life import Definition, Life
from tests.admission.odd_words import ABSOLUTE, NUMBERS, PATHS, REMOVES, STATS, TAGS, VECTORS, WRONG_PATHS
from tests.admission.spelling import ODD
from tests.admission.steps import (
    add_absolute,
    add_again,
    add_at,
    add_spelled,
    add_vector,
    add_with,
    delete_rows,
    remove_with,
    respelled,
)
from tests.admission.wire import MUTATIONS, stage_mutated

Part = Callable[[Life, Random], None]


@dataclass(frozen=True, slots=True)
class Group:
    """Parts that are tried in one table."""

    name: str
    definition: Definition
    parts: Mapping[str, Part]


_PLAIN: Final = Definition(columns_of("long", "string"))


def run_group(lake: Lake, group: Group, *, only: str | None = None, name: str = "") -> Tried:
    """Try all parts of a group, or one of them."""
    name = name or f"named_{list(GROUPS).index(group.name)}"
    life = Life.begin(lake.catalog, name, lake.root / name, group.definition, Uids())
    assert life.created, life.events
    for part, act in group.parts.items():
        if only in (None, part):
            act(life, Random(part))
    return finish(lake, life)


def _paths() -> Iterator[Group]:
    for number, paths in enumerate(_apart(PATHS)):
        parts = {repr(each): partial(add_at, spelling=each[0], path=each[1]) for each in paths}
        yield Group(f"paths {number}", _PLAIN, parts)
        lines = {f"lines {each[0]!r}": partial(_line_at, spelling=each[0], path=each[1]) for each in paths}
        yield Group(f"paths in lines {number}", _PLAIN, lines)
    wrong = {repr(each): partial(add_at, spelling=each[0], path=each[1], wrong=True) for each in WRONG_PATHS}
    yield Group("wrong paths", _PLAIN, wrong)
    yield Group("absolute paths", _PLAIN, {form: partial(add_absolute, form=form) for form in ABSOLUTE})
    lines = {
        f"lines {each[0]!r}": partial(_line_at, spelling=each[0], path=each[1], wrong=True)
        for each in WRONG_PATHS
        # Another writer may name files outside of the table: a shallow clone of Delta Spark does.
        if not each[0].startswith("http:")
    }
    yield Group("wrong paths in lines", _PLAIN, lines)


def _apart(paths: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Spellings of one file in different tables."""
    apart: list[list[tuple[str, str]]] = []
    for each in paths:
        fits = [some for some in apart if each[1] not in [path for _, path in some]]
        if fits:
            fits[0].append(each)
        else:
            apart.append([each])
    return apart


def _line_at(life: Life, random: Random, *, spelling: str, path: str, wrong: bool = False) -> None:
    stage_mutated(life, random, "as it should be", spelling=spelling, path=path, wrong=wrong)


def _partitions() -> Iterator[Group]:
    data = Column(1, "id", "long")
    columns = tuple(Column(10 + n, f"p{n}", kind) for n, kind in enumerate(SCALARS))
    definition = Definition((data, *columns), tuple(column.name for column in columns))
    parts: dict[str, Part] = {"usual": _append_one}
    for column in columns:
        for text, value in ODD.get(str(column.kind), ()):
            parts[f"{column.kind} {text!r}"] = partial(_spelled, uid=column.uid, text=text, value=value)
    yield Group("partition values", definition, parts)
    yield Group("partition values in a checkpoint", changed(definition, checkpoint=True), parts)
    required = tuple(changed(column, nullable=False) for column in columns)
    strict = Definition((data, *required), definition.partition_by)
    nulls = {
        f"{column.kind} {text!r}": partial(_spelled, uid=column.uid, text=text, value=None, wrong=True)
        for column in required
        for text in (None, "")
    }
    yield Group("null in a required partition column", strict, nulls)


def _append_one(life: Life, random: Random) -> None:
    append_file(life, random)


def _spelled(life: Life, random: Random, *, uid: int, text: str | None, value: Any, wrong: bool = False) -> None:
    add_spelled(life, random, {uid: (text, value)}, wrong=wrong)


def _values() -> Iterator[Group]:
    judged = Definition(columns_of("long", "boolean", Struct((Column(5, "f", "long"),))))
    for name, plain in (("", _PLAIN), (" beside a boolean", judged)):
        parts = {repr(each): partial(add_with, kind="stats", stats=each) for each in STATS}
        yield Group(f"stats{name}", plain, parts)
        yield Group(f"stats{name} in a checkpoint", changed(plain, checkpoint=True), parts)
    yield Group("numbers", _PLAIN, {repr(each): partial(add_with, kind="numbers", **each) for each in NUMBERS})
    tracked = Definition(columns_of("long"), properties={"delta.enableRowTracking": "true"}, checkpoint=True)
    yield Group("row ids", tracked, {repr(each): partial(add_with, kind="numbers", **each) for each in NUMBERS})
    yield Group(
        "tags",
        changed(_PLAIN, checkpoint=True),
        {repr(each): partial(add_with, kind="tags", tags=each) for each in TAGS},
    )
    for checkpoint in (False, True):
        definition = Definition(columns_of("long"), properties=WITH_VECTORS, checkpoint=checkpoint)
        parts = {
            f"{each!r} {inline}": partial(_vector, odd=each, inline=inline)
            for each in VECTORS
            for inline in (False, True)
        }
        yield Group(f"vectors {checkpoint}", definition, parts)
    yield Group("lines", _PLAIN, {name: partial(stage_mutated, name=name) for name in MUTATIONS})
    old = changed(_PLAIN, properties={"delta.enableInCommitTimestamps": "false"}, checkpoint=True)
    yield Group("lines without times", old, {name: partial(stage_mutated, name=name) for name in MUTATIONS})
    kinds = [
        (kind, Array(kind), Map("string", kind), Struct((Column(5 + number, "f", kind),)))
        for number, kind in enumerate(SCALARS)
    ]
    rows: dict[str, Part] = {"rows": partial(_rows, rows=12)}
    yield Group("all values", Definition(columns_of(*chain.from_iterable(kinds))), rows)
    for each in kinds:
        yield Group(f"all values of {each[0]}", Definition(columns_of(*each)), rows)


def _rows(life: Life, random: Random, *, rows: int) -> None:
    written = life.write(random, rows=rows)
    life.attempt("append", "", lambda: life.append([written.add]), lambda: life.live(written))


def _vector(life: Life, random: Random, *, odd: Mapping[str, Any], inline: bool) -> None:
    written = append_file(life, random)
    delete_rows(life, random, written, inline=inline, odd=odd, kind="odd vector")


def _live_once() -> Iterator[Group]:
    """One path, live twice unless that is refused or understood."""
    definition = Definition(columns_of("long"), properties=WITH_VECTORS)

    def deleted_and_again(life: Life, random: Random, *, respell: bool) -> None:
        written = append_file(life, random)
        delete_rows(life, random, written, inline=True, odd={}, kind="delete")
        add_again(life, written, respelled(written.add.path) if respell else written.add.path)

    def again(life: Life, random: Random, *, respell: bool) -> None:
        written = append_file(life, random)
        add_again(life, written, respelled(written.add.path) if respell else written.add.path)

    def with_vector(life: Life, random: Random) -> None:
        add_vector(life, append_file(life, random))

    def two_vectors(life: Life, random: Random) -> None:
        written = append_file(life, random)
        add_vector(life, written)
        delete_rows(life, random, written, inline=False, odd={}, kind="delete")

    def removed(life: Life, random: Random, *, odd: Mapping[str, Any], vector: bool) -> None:
        written = append_file(life, random)
        if vector:
            delete_rows(life, random, written, inline=True, odd={}, kind="delete")
        remove_with(life, written, odd)

    yield Group(
        "live once, deleted and again",
        definition,
        {str(each): partial(deleted_and_again, respell=each) for each in (False, True)},
    )
    yield Group("live once, again", definition, {str(each): partial(again, respell=each) for each in (False, True)})
    yield Group("live once, with vector", definition, {"with vector": with_vector, "two vectors": two_vectors})
    parts = {
        f"{each!r} {vector}": partial(removed, odd=each, vector=vector) for each in REMOVES for vector in (False, True)
    }
    yield Group("live once, removes", changed(definition, checkpoint=True), parts)


def _with_files(life: Life, random: Random, *, change: Change) -> None:
    """A file before the change, and one after it."""
    append_file(life, random)
    change(life)
    append_file(life, random)


def _all() -> Iterator[Group]:
    yield from _paths()
    yield from _partitions()
    yield from _values()
    yield from _live_once()
    for name, definition, change in changes():
        yield Group(name, definition, {"": partial(_with_files, change=change)})


GROUPS: Final[Mapping[str, Group]] = {group.name: group for group in _all()}
_SELDOM: Final = ("delta.", "feature ", "own ", "ü ", "a list of ", "partition column ", "all values of ")
_STAGED: Final = " (staged)"
_EVERYDAY_STAGED: Final = ("another type", "a renamed column", "mapping goes", "mapping is forgotten")
EVERYDAY: Final = tuple(
    group
    for name, group in GROUPS.items()
    if not name.lower().startswith(_SELDOM)
    and (not name.endswith(_STAGED) or name.removesuffix(_STAGED) in _EVERYDAY_STAGED)
)
"""Those that every run of the suite affords. ``make soak`` also tries properties and features, every change of a type
within a list and of a partition column, the values of each type alone, and all changes as lines, too, which meet the
same rules."""
