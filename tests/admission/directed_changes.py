"""Named changes of metadata and protocol: columns, partitioning, mapping, properties, words of the schema, features."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace as changed
from random import Random
from typing import Any, Final

from deltamirror.delta.actions import Protocol
from tests.admission.changes import retype, set_columns, stage_metadata
from tests.admission.kinds import Array, Column, Struct, schema_json
from tests.admission.life import Definition, Life, Written
from tests.admission.odd_words import (
    FEATURES,
    METADATA,
    PROPERTIES,
    WIDER,
)
from tests.admission.steps import (
    delete_rows,
)

_MAPPING: Final = {"delta.columnMapping.mode": "name"}
WITH_VECTORS: Final = {"delta.enableDeletionVectors": "true"}
_WIDENING: Final = {"delta.enableTypeWidening": "true"}


def columns_of(*kinds: Any, nullable: bool = True) -> tuple[Column, ...]:
    """A column for each kind: ``c0``, ``c1``, …"""
    return tuple(Column(1000 + n, f"c{n}", kind, nullable=nullable) for n, kind in enumerate(kinds))


def append_file(life: Life, random: Random, **fields: Any) -> Written:
    """Append a file of three rows."""
    written = life.write(random, rows=3, **fields)
    life.attempt("append", written.add.path, lambda: life.append([written.add]), lambda: life.live(written))
    return written


Change = Callable[[Life], None]


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


_TWO: Final = Definition(columns_of("long", "string", "integer"))
_MAPPED: Final = changed(_TWO, properties=_MAPPING)
_MAPPED_BY_ID: Final = changed(_TWO, properties={"delta.columnMapping.mode": "id"})
_WIDE: Final = changed(_TWO, properties=_WIDENING)
_PARTED: Final = Definition(columns_of("long", "string", "integer"), ("c2",))
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


def changes() -> Iterator[tuple[str, Definition, Change]]:
    """Each with its name, and the table that it is tried on."""
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
    for before, after in WIDER:
        wide = Definition(columns_of(before, Array(before)), properties=_WIDENING)
        yield f"{before} becomes {after}", wide, _set(_kind(0, after))
        yield f"a list of {before} becomes one of {after}", wide, _set(_kind(1, Array(after)))
        parted = Definition(columns_of("long", before), ("c1",), properties=_WIDENING)
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
    yield "deletion vectors go", changed(_TWO, properties=WITH_VECTORS), _vectors_go
    yield "the change data feed comes", _TWO, _property(delta_enableChangeDataFeed="true")
    yield "Iceberg compatibility comes", _MAPPED, _property(delta_enableIcebergCompatV2="true")
    yield "Iceberg compatibility comes (staged)", _MAPPED, _configured(delta_enableIcebergCompatV1="true")
    for key, value in PROPERTIES:
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
    yield "odd metadata", _TWO, _text_of("odd", _each_field(lambda each: {**each, "metadata": METADATA}))
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
    for feature in FEATURES:
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
    append_file(life, Random(2))
    _property(delta_enableInCommitTimestamps="true")(life)


def _less(field_: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in field_.items() if name != key}


def _each_field(edit: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda schema: {**schema, "fields": [edit(each) for each in schema["fields"]]}
