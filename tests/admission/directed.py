"""Named cases: every odd word that we know of, tried whatever chance brings.

The parts of a group do not touch each other, and are tried in one table; where that shows something wrong, each is
tried in a table of its own.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import partial
from itertools import chain
from random import Random
from typing import Any, Final

from deltamirror.delta.actions import Protocol
from tests.admission.cases import Lake, Tried, finish
from tests.admission.changes import retype, set_columns, stage_metadata
from tests.admission.kinds import SCALARS, Array, Column, Map, Struct, Uids, schema_json
from tests.admission.life import Definition, Life, Written
from tests.admission.spelling import ODD
from tests.admission.steps import (
    ABSOLUTE,
    NUMBERS,
    PATHS,
    REMOVES,
    STATS,
    TAGS,
    VECTORS,
    WRONG_PATHS,
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

__all__ = ["EVERYDAY", "GROUPS", "Group", "run_group"]

Part = Callable[[Life, Random], None]
_MAPPING: Final = {"delta.columnMapping.mode": "name"}
_VECTORS: Final = {"delta.enableDeletionVectors": "true"}
_WIDENING: Final = {"delta.enableTypeWidening": "true"}


@dataclass(frozen=True, slots=True)
class Group:
    """Parts that are tried in one table."""

    name: str
    definition: Definition
    parts: Mapping[str, Part]


def _columns(*kinds: Any, nullable: bool = True) -> tuple[Column, ...]:
    return tuple(Column(1000 + n, f"c{n}", kind, nullable=nullable) for n, kind in enumerate(kinds))


_PLAIN: Final = Definition(_columns("long", "string"))


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
    _appended(life, random)


def _spelled(life: Life, random: Random, *, uid: int, text: str | None, value: Any, wrong: bool = False) -> None:
    add_spelled(life, random, {uid: (text, value)}, wrong=wrong)


def _values() -> Iterator[Group]:
    judged = Definition(_columns("long", "boolean", Struct((Column(5, "f", "long"),))))
    for name, plain in (("", _PLAIN), (" beside a boolean", judged)):
        parts = {repr(each): partial(add_with, kind="stats", stats=each) for each in STATS}
        yield Group(f"stats{name}", plain, parts)
        yield Group(f"stats{name} in a checkpoint", changed(plain, checkpoint=True), parts)
    yield Group("numbers", _PLAIN, {repr(each): partial(add_with, kind="numbers", **each) for each in NUMBERS})
    tracked = Definition(_columns("long"), properties={"delta.enableRowTracking": "true"}, checkpoint=True)
    yield Group("row ids", tracked, {repr(each): partial(add_with, kind="numbers", **each) for each in NUMBERS})
    yield Group(
        "tags",
        changed(_PLAIN, checkpoint=True),
        {repr(each): partial(add_with, kind="tags", tags=each) for each in TAGS},
    )
    for checkpoint in (False, True):
        definition = Definition(_columns("long"), properties=_VECTORS, checkpoint=checkpoint)
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
    yield Group("all values", Definition(_columns(*chain.from_iterable(kinds))), rows)
    for each in kinds:
        yield Group(f"all values of {each[0]}", Definition(_columns(*each)), rows)


def _rows(life: Life, random: Random, *, rows: int) -> None:
    written = life.write(random, rows=rows)
    life.attempt("append", "", lambda: life.append([written.add]), lambda: life.live(written))


def _appended(life: Life, random: Random, **fields: Any) -> Written:
    written = life.write(random, rows=3, **fields)
    life.attempt("append", written.add.path, lambda: life.append([written.add]), lambda: life.live(written))
    return written


def _vector(life: Life, random: Random, *, odd: Mapping[str, Any], inline: bool) -> None:
    written = _appended(life, random)
    delete_rows(life, random, written, inline=inline, odd=odd, kind="odd vector")


def _live_once() -> Iterator[Group]:
    """One path, live twice unless that is refused or understood."""
    definition = Definition(_columns("long"), properties=_VECTORS)

    def deleted_and_again(life: Life, random: Random, *, respell: bool) -> None:
        written = _appended(life, random)
        delete_rows(life, random, written, inline=True, odd={}, kind="delete")
        add_again(life, written, respelled(written.add.path) if respell else written.add.path)

    def again(life: Life, random: Random, *, respell: bool) -> None:
        written = _appended(life, random)
        add_again(life, written, respelled(written.add.path) if respell else written.add.path)

    def with_vector(life: Life, random: Random) -> None:
        add_vector(life, _appended(life, random))

    def two_vectors(life: Life, random: Random) -> None:
        written = _appended(life, random)
        add_vector(life, written)
        delete_rows(life, random, written, inline=False, odd={}, kind="delete")

    def removed(life: Life, random: Random, *, odd: Mapping[str, Any], vector: bool) -> None:
        written = _appended(life, random)
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


Change = Callable[[Life], None]


def _with_files(life: Life, random: Random, *, change: Change) -> None:
    """A file before the change, and one after it."""
    _appended(life, random)
    change(life)
    _appended(life, random)


def _set(edit: Callable[[tuple[Column, ...]], tuple[Column, ...]], *, staged: bool = False) -> Callable[[Life], None]:
    return lambda life: set_columns(life, edit(life.model.columns), kind="columns", what="", staged=staged)


def _first(column: Column) -> Callable[[tuple[Column, ...]], tuple[Column, ...]]:
    return lambda columns: (column, *columns[1:])


def _kind(number: int, kind: Any) -> Callable[[tuple[Column, ...]], tuple[Column, ...]]:
    return lambda columns: retype(columns, columns[number].uid, kind)


def _named(number: int, name: str) -> Callable[[tuple[Column, ...]], tuple[Column, ...]]:
    return lambda columns: tuple(
        changed(column, name=name) if n == number else column for n, column in enumerate(columns)
    )


def _nullable(number: int, *, nullable: bool = False) -> Callable[[tuple[Column, ...]], tuple[Column, ...]]:
    return lambda columns: tuple(
        changed(column, nullable=nullable) if n == number else column for n, column in enumerate(columns)
    )


def _without(number: int) -> Callable[[tuple[Column, ...]], tuple[Column, ...]]:
    return lambda columns: columns[:number] + columns[number + 1 :]


def _replaced(number: int) -> Change:
    """Drop a column and add another one of its name."""

    def change(life: Life) -> None:
        before = life.model.columns
        gone = before[number]
        set_columns(life, _without(number)(before), kind="columns", what="drop")
        if life.model.columns != before:
            set_columns(life, (*life.model.columns, changed(gone, uid=life.uids())), kind="columns", what="again")

    return change


def _more(column: Column, *, at: int | None = None) -> Callable[[tuple[Column, ...]], tuple[Column, ...]]:
    return lambda columns: (*columns, column) if at is None else (*columns[:at], column, *columns[at:])


def _staged(effect: Callable[[Life], None] | None = None, *, wrong: bool = False, **fields: Any) -> Change:
    def change(life: Life) -> None:
        apply = None if effect is None else (lambda: effect(life))
        stage_metadata(life, kind="metaData", what=repr(fields)[:100], effect=apply, wrong=wrong, **fields)

    return change


def _configured(**more: str | None) -> Change:
    """Properties, by a metaData action; ``_`` stands for a point."""

    def change(life: Life) -> None:
        metadata, _ = life.foundation
        wanted = {key.replace("_", "."): value for key, value in more.items()}
        merged = {**metadata.configuration, **wanted}
        kept = {key: value for key, value in merged.items() if value is not None}
        stage_metadata(life, kind="metaData", what=repr(wanted), configuration=kept)

    return change


def _property(**more: str) -> Change:
    """Properties, by ``set_metadata``."""

    def change(life: Life) -> None:
        def act() -> None:
            with life.catalog.transaction() as tx:
                tx.set_metadata(life.name, properties={key.replace("_", "."): value for key, value in more.items()})

        life.attempt("property", repr(more), act)

    return change


def _mapping_of(number: int, **more: Any) -> Change:
    """Physical name or id of a column, by a metaData action."""

    def change(life: Life) -> None:
        uid = life.model.columns[number].uid
        words = {f"delta.columnMapping.{key}": value for key, value in more.items()}
        text = schema_json(life.model.columns, {**life.metadata, uid: {**life.metadata.get(uid, {}), **words}})
        stage_metadata(life, kind="metaData", what=repr(more), schema_string=text)

    return change


def _partitioned(*names: str) -> Change:
    def effect(life: Life) -> None:
        life.model.partitioning = tuple(column.uid for column in life.model.columns if column.name in names)

    return _staged(effect, partition_columns=list(names))


def _swap_physical(life: Life) -> None:
    """Two columns exchange their physical names: their values stay with the columns."""
    first, second = life.model.columns[:2]
    known = life.metadata
    text = schema_json(life.model.columns, {**known, first.uid: known[second.uid], second.uid: known[first.uid]})
    stage_metadata(life, kind="metaData", what="swap", schema_string=text)


def _text_of(what: str, edit: Callable[[dict[str, Any]], Any], *columns: Column) -> Change:
    """The schema in other words, or with a field of an odd type."""

    def change(life: Life) -> None:
        metadata, _ = life.foundation
        text = edit(json.loads(str(metadata.schema_string)))
        known = life.model.columns

        def effect() -> None:
            life.model.columns = (*known, *columns)

        words = text if isinstance(text, str) else json.dumps(text)
        stage_metadata(life, kind="schema text", what=what, effect=effect, schema_string=words)

    return change


def _with_field(name: str, kind: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    field_ = {"name": name, "type": kind, "nullable": True, "metadata": {}}
    return lambda schema: {**schema, "fields": [*schema["fields"], field_]}


def _protocol_of(protocol: Protocol) -> Change:
    return lambda life: _attempt_protocol(life, protocol)


def _attempt_protocol(life: Life, protocol: Protocol) -> None:
    life.attempt("protocol", repr(protocol), lambda: life.commit([protocol], read=True))


def _feature(name: str) -> Change:
    def change(life: Life) -> None:
        def act() -> None:
            with life.catalog.transaction() as tx:
                tx.upgrade_protocol(life.name, name)

        life.attempt("feature", name, act)

    return change


_TWO: Final = Definition(_columns("long", "string", "integer"))
_MAPPED: Final = changed(_TWO, properties=_MAPPING)
_MAPPED_BY_ID: Final = changed(_TWO, properties={"delta.columnMapping.mode": "id"})
_WIDE: Final = changed(_TWO, properties=_WIDENING)
_PARTED: Final = Definition(_columns("long", "string", "integer"), ("c2",))
_NESTED: Final = Definition(
    (
        Column(1, "s", Struct((Column(2, "a", "integer"), Column(3, "b", "string")))),
        Column(4, "l", Array(Struct((Column(5, "a", "integer"),)))),
    )
)


def _nested_more(*, nullable: bool = True) -> Callable[[tuple[Column, ...]], tuple[Column, ...]]:
    def edit(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        inner = columns[0].kind
        assert isinstance(inner, Struct)
        return retype(columns, columns[0].uid, Struct((*inner.fields, Column(77, "more", "date", nullable=nullable))))

    return edit


def _nested_less(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    inner = columns[0].kind
    assert isinstance(inner, Struct)
    return retype(columns, columns[0].uid, Struct(inner.fields[:1]))


def _nested_swapped(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    inner = columns[0].kind
    assert isinstance(inner, Struct)
    return retype(columns, columns[0].uid, Struct(tuple(reversed(inner.fields))))


def _nested_renamed(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    inner = columns[0].kind
    assert isinstance(inner, Struct)
    renamed = (changed(inner.fields[0], name="z"), *inner.fields[1:])
    return retype(columns, columns[0].uid, Struct(renamed))


def _list_more(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    kind = Array(Struct((Column(5, "a", "integer"), Column(78, "more", "string"))))
    return retype(columns, columns[1].uid, kind)


def _changes() -> Iterator[tuple[str, Definition, Change]]:
    new = Column(50, "extra", "date")
    for staged in (False, True):
        how = " (staged)" if staged else ""
        yield f"another type{how}", _TWO, _set(_kind(0, "string"), staged=staged)
        yield f"a narrower type{how}", _TWO, _set(_kind(0, "integer"), staged=staged)
        yield f"a wider type{how}", _TWO, _set(_kind(2, "long"), staged=staged)
        yield f"a wider type, allowed{how}", _WIDE, _set(_kind(2, "long"), staged=staged)
        yield f"a renamed column{how}", _TWO, _set(_named(1, "renamed"), staged=staged)
        yield f"a renamed column, mapped{how}", _MAPPED, _set(_named(1, "ren amed"), staged=staged)
        yield f"a renamed partition column{how}", _PARTED, _set(_named(2, "renamed"), staged=staged)
        yield f"a dropped column{how}", _TWO, _set(_without(1), staged=staged)
        yield f"a dropped column, mapped{how}", _MAPPED, _set(_without(1), staged=staged)
        yield f"a dropped partition column{how}", _PARTED, _set(_without(2), staged=staged)
        yield f"another type of a partition column{how}", _PARTED, _set(_kind(2, "date"), staged=staged)
        yield f"a wider type of a partition column{how}", _PARTED, _set(_kind(2, "long"), staged=staged)
        yield f"a new column{how}", _TWO, _set(_more(new), staged=staged)
        yield f"a new column first{how}", _TWO, _set(_more(new, at=0), staged=staged)
        yield f"a new required column{how}", _TWO, _set(_more(changed(new, nullable=False)), staged=staged)
        yield f"a new column by case{how}", _TWO, _set(_more(changed(new, name="C0")), staged=staged)
        yield f"a column in another case{how}", _TWO, _set(_named(1, "C1"), staged=staged)
        yield f"a reordered schema{how}", _TWO, _set(lambda columns: tuple(reversed(columns)), staged=staged)
        yield f"a column that becomes required{how}", _TWO, _set(_nullable(1), staged=staged)
        yield f"a nested field more{how}", _NESTED, _set(_nested_more(), staged=staged)
        yield f"a required nested field more{how}", _NESTED, _set(_nested_more(nullable=False), staged=staged)
        yield f"a nested field less{how}", _NESTED, _set(_nested_less, staged=staged)
        yield f"nested fields reordered{how}", _NESTED, _set(_nested_swapped, staged=staged)
        yield f"a nested field renamed{how}", _NESTED, _set(_nested_renamed, staged=staged)
        yield f"a field of a list more{how}", _NESTED, _set(_list_more, staged=staged)
    for before, after in _WIDER:
        wide = Definition(_columns(before, Array(before)), properties=_WIDENING)
        yield f"{before} becomes {after}", wide, _set(_kind(0, after))
        yield f"a list of {before} becomes one of {after}", wide, _set(_kind(1, Array(after)))
        parted = Definition(_columns("long", before), ("c1",), properties=_WIDENING)
        yield f"partition column {before} becomes {after}", parted, _set(_kind(1, after))
    yield "a dropped column comes back", _TWO, _replaced(1)
    yield "a dropped column comes back, mapped", _MAPPED, _replaced(1)
    yield "other partition columns", _PARTED, _partitioned("c1")
    yield "no partition columns", _PARTED, _partitioned()
    yield "more partition columns", _PARTED, _partitioned("c2", "c1")
    yield "first partition columns", _TWO, _partitioned("c2")
    for number, mapped in enumerate((_MAPPED, _MAPPED_BY_ID)):
        yield f"another physical name {number}", mapped, _mapping_of(1, physicalName="other")
        yield f"another id {number}", mapped, _mapping_of(1, id=99)
        yield f"an id of another column {number}", mapped, _mapping_of(1, id=1)
        yield f"swapped physical names {number}", mapped, _swap_physical
    yield "a physical name with odd letters", _MAPPED, _mapping_of(1, physicalName="a b,{}")
    yield "mapping comes", _TWO, _property(delta_columnMapping_mode="name")
    yield "mapping by id comes", _TWO, _property(delta_columnMapping_mode="id")
    yield "mapping goes", _MAPPED, _property(delta_columnMapping_mode="none")
    yield (
        "mapping comes (staged)",
        _TWO,
        _configured(delta_columnMapping_mode="name", delta_columnMapping_maxColumnId="9"),
    )
    yield "mapping goes (staged)", _MAPPED, _configured(delta_columnMapping_mode="none")
    yield "mapping is forgotten (staged)", _MAPPED, _configured(delta_columnMapping_mode=None)
    yield "mapping becomes by id (staged)", _MAPPED, _configured(delta_columnMapping_mode="id")
    yield "mapping becomes by name (staged)", _MAPPED_BY_ID, _configured(delta_columnMapping_mode="name")
    yield "a lower highest id (staged)", _MAPPED, _configured(delta_columnMapping_maxColumnId="1")
    yield "a huge highest id (staged)", _MAPPED, _configured(delta_columnMapping_maxColumnId="99999999999999999999")
    yield "row tracking comes", _TWO, _property(delta_enableRowTracking="true")
    rows = {
        "delta_rowTracking_materializedRowIdColumnName": "_row-id",
        "delta_rowTracking_materializedRowCommitVersionColumnName": "_row-version",
    }
    yield "row tracking comes (staged)", _TWO, _configured(delta_enableRowTracking="true", **rows)
    yield "in-commit timestamps go", _TWO, _property(delta_enableInCommitTimestamps="false")
    yield "in-commit timestamps go and come", _TWO, _go_and_come
    old = changed(_TWO, properties={"delta.enableInCommitTimestamps": "false"})
    yield "in-commit timestamps come", old, _property(delta_enableInCommitTimestamps="true")
    yield "in-commit timestamps come (staged)", old, _configured(delta_enableInCommitTimestamps="true")
    yield "checkpoints of the second kind come", changed(_TWO, checkpoint=True), _property(delta_checkpointPolicy="v2")
    yield "deletion vectors come", _TWO, _property(delta_enableDeletionVectors="true")
    yield "deletion vectors go", changed(_TWO, properties=_VECTORS), _vectors_go
    yield "the change data feed comes", _TWO, _property(delta_enableChangeDataFeed="true")
    yield "Iceberg compatibility comes", _MAPPED, _property(delta_enableIcebergCompatV2="true")
    yield "Iceberg compatibility comes (staged)", _MAPPED, _configured(delta_enableIcebergCompatV1="true")
    for key, value in _ODD_PROPERTIES:
        yield f"{key} {value}", changed(_TWO, checkpoint=True), _property(**{key.replace(".", "_"): value})
        yield f"{key} {value} (staged)", changed(_TWO, checkpoint=True), _configured(**{key.replace(".", "_"): value})
    yield "another id of the table", _TWO, _staged(id="another")
    yield "a created time far away", _TWO, _staged(created_time=2**63 - 1)
    yield "no created time", _TWO, _staged(created_time=None)
    yield "a name", _TWO, _staged(name="ü\n")
    yield "indented", _TWO, _text_of("indented", lambda schema: json.dumps(schema, indent=2))
    yield "an unknown member", _TWO, _text_of("unknown", lambda schema: {**schema, "unknown": 1})
    yield "an unknown member of a field", _TWO, _text_of("unknown", _each_field(lambda each: {**each, "unknown": 1}))
    yield "no metadata", _TWO, _text_of("no metadata", _each_field(lambda each: _less(each, "metadata")))
    yield "no nullable", _TWO, _text_of("no nullable", _each_field(lambda each: _less(each, "nullable")))
    yield "metadata is null", _TWO, _text_of("null metadata", _each_field(lambda each: {**each, "metadata": None}))
    yield "odd metadata", _TWO, _text_of("odd", _each_field(lambda each: {**each, "metadata": _ODD_METADATA}))
    yield "a comment", _TWO, _text_of("comment", _each_field(lambda each: {**each, "metadata": {"comment": "ü\n"}}))
    yield "int for integer", _TWO, _text_of("int", lambda schema: json.dumps(schema).replace('"integer"', '"int"'))
    yield "bigint for long", _TWO, _text_of("bigint", lambda schema: json.dumps(schema).replace('"long"', '"bigint"'))
    yield "LONG for long", _TWO, _text_of("LONG", lambda schema: json.dumps(schema).replace('"long"', '"LONG"'))
    yield (
        "keys twice",
        _TWO,
        _text_of("twice", lambda schema: json.dumps(schema).replace('"nullable"', '"nullable": true, "nullable"')),
    )
    yield "void", _TWO, _text_of("void", _with_field("v", "void"), Column(60, "v", "void"))
    yield (
        "a list of void",
        _TWO,
        _text_of(
            "void",
            _with_field("v", {"type": "array", "elementType": "void", "containsNull": True}),
            Column(60, "v", "void"),
        ),
    )
    yield (
        "an empty struct",
        _TWO,
        _text_of("empty", _with_field("v", {"type": "struct", "fields": []}), Column(60, "v", "void")),
    )
    nested_empty = {"type": "array", "elementType": {"type": "struct", "fields": []}, "containsNull": True}
    yield "a list of empty structs", _TWO, _text_of("empty", _with_field("v", nested_empty), Column(60, "v", "void"))
    for kind in (
        "char(3)",
        "varchar(3)",
        "interval day",
        "int",
        "decimal(39,0)",
        "decimal(5,6)",
        "decimal(5,-1)",
        "decimal",
        "decimal(0,0)",
        "decimal( 5 , 2 )",
        "Decimal(5,2)",
        "string collate UTF8_LCASE",
        "geometry",
        "object",
        "time(6)",
        "uint8",
        "",
    ):
        yield f"type {kind!r}", _TWO, _text_of(kind, _with_field("v", kind), Column(60, "v", kind))
    yield "no columns", _TWO, _text_of("empty", lambda _: '{"type":"struct","fields":[]}')
    yield "no schema", _TWO, _text_of("none", lambda _: "")
    for feature in _FEATURES:
        yield f"feature {feature}", _TWO, _feature(feature)
    everything = [
        "deletionVectors",
        "columnMapping",
        "timestampNtz",
        "typeWidening",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    ]
    yield (
        "a protocol of many features",
        _TWO,
        _protocol_of(
            Protocol(
                min_reader_version=3,
                min_writer_version=7,
                reader_features=everything,
                writer_features=[*everything, "inCommitTimestamp", "appendOnly", "invariants"],
            )
        ),
    )
    yield "a protocol that forgets", _TWO, _protocol_of(Protocol(min_reader_version=1, min_writer_version=2))


def _vectors_go(life: Life) -> None:
    delete_rows(life, Random(1), life.written[0], inline=False, odd={}, kind="delete")
    _property(delta_enableDeletionVectors="false")(life)


def _go_and_come(life: Life) -> None:
    _property(delta_enableInCommitTimestamps="false")(life)
    _appended(life, Random(2))
    _property(delta_enableInCommitTimestamps="true")(life)


def _less(field_: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in field_.items() if name != key}


def _each_field(edit: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda schema: {**schema, "fields": [edit(each) for each in schema["fields"]]}


_ODD_METADATA: Final = {"a": None, "b": [1], "c": {"d": 1.5}, "e": 2**70, "f": True, "": ""}
_ODD_PROPERTIES: Final = (
    ("delta.checkpointInterval", "99999999999"),
    ("delta.checkpointInterval", "2147483648"),
    ("delta.checkpointInterval", "1.5"),
    ("delta.checkpointInterval", ""),
    ("delta.appendOnly", "TRUE"),
    ("delta.appendOnly", "yes"),
    ("delta.appendOnly", ""),
    ("delta.dataSkippingNumIndexedCols", "99999999999"),
    ("delta.dataSkippingNumIndexedCols", "0"),
    ("delta.dataSkippingStatsColumns", "nothing"),
    ("delta.dataSkippingStatsColumns", "c0,"),
    ("delta.logRetentionDuration", "interval 99999999999999 weeks"),
    ("delta.logRetentionDuration", "interval 1 month"),
    ("delta.deletedFileRetentionDuration", "interval -1 days"),
    ("delta.setTransactionRetentionDuration", "interval 1 second"),
    ("delta.randomPrefixLength", "0"),
    ("delta.isolationLevel", "WriteSerializable"),
    ("delta.isolationLevel", "serializable"),
    ("delta.checkpointPolicy", "V2"),
    ("delta.checkpointPolicy", "third"),
    ("delta.columnMapping.mode", "NAME"),
    ("delta.constraints.c", "nonsense ("),
    ("delta.constraints.c", "nothing > 0"),
    ("delta.universalFormat.enabledFormats", "iceberg"),
    ("delta.targetFileSize", "x"),
    ("delta.parquet.compression.codec", "none of these"),
    ("delta.unknown", "x"),
    ("DELTA.APPENDONLY", "true"),
    ("own", ""),
    ("ü \n", '"\u0000'),
    ("delta.rowTrackingSuspended", "true"),
    ("delta.compatibility.symlinkFormatManifest.enabled", "true"),
)
_FEATURES: Final = (
    "deletionVectors",
    "columnMapping",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "rowTracking",
    "domainMetadata",
    "timestampNtz",
    "variantType",
    "variantType-preview",
    "variantShredding",
    "variantShredding-preview",
    "clustering",
    "icebergCompatV1",
    "icebergCompatV2",
    "icebergCompatV3",
    "identityColumns",
    "generatedColumns",
    "allowColumnDefaults",
    "checkpointProtection",
    "materializePartitionColumns",
    "deltamirrorFence",
    "changeDataFeed",
    "catalogManaged",
    "geospatial",
    "nothing",
)
_WIDER: Final = (
    ("byte", "short"),
    ("byte", "long"),
    ("short", "integer"),
    ("integer", "long"),
    ("integer", "double"),
    ("integer", "decimal(18,0)"),
    ("long", "decimal(38,10)"),
    ("float", "double"),
    ("date", "timestamp_ntz"),
    ("decimal(5,2)", "decimal(38,10)"),
    ("decimal(5,2)", "decimal(7,3)"),
    ("long", "double"),
    ("date", "timestamp"),
)


def _all() -> Iterator[Group]:
    yield from _paths()
    yield from _partitions()
    yield from _values()
    yield from _live_once()
    for name, definition, change in _changes():
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
