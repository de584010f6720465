"""Steps with metadata, protocol, domains and applications."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace as changed
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from deltamirror.delta.actions import DomainMetadata, Protocol
from tests.admission.kinds import SCALARS, Array, Column, Kind, Struct, draw_kind, schema_json
from tests.admission.life import Life
from tests.admission.steps import Step

_TYPE_CHANGES: Final = "delta.typeChanges"
_WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "byte": ("short", "integer", "long", "double", "decimal(18,0)"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double", "decimal(18,0)"),
    "long": ("decimal(38,10)",),
    "float": ("double",),
    "date": ("timestamp_ntz",),
    "decimal(5,2)": ("decimal(38,10)",),
}


def set_columns(
    life: Life, columns: tuple[Column, ...], *, kind: str, what: str, staged: bool = False, **words: Any
) -> None:
    """Change the columns, by ``set_metadata`` or by a metaData action."""
    text = schema_json(columns, life.metadata)

    def act() -> None:
        if staged:
            metadata, _ = life.foundation
            life.commit([replace(metadata, schema_string=text)], read=True)
            return
        with life.catalog.transaction() as tx:
            tx.set_metadata(life.name, schema=text, **words)

    def effect() -> None:
        life.model.columns = columns

    life.attempt(kind, f"{what}{' (staged)' if staged else ''}", act, effect)


def retype(columns: tuple[Column, ...], uid: int, kind: Kind) -> tuple[Column, ...]:
    """The columns, one of them with another type."""
    return tuple(changed(column, kind=kind) if column.uid == uid else column for column in columns)


def _pick(life: Life, random: Random) -> Column:
    return random.choice(life.model.columns)


def _add_column(life: Life, random: Random) -> None:
    name = random.choice(["extra", "new_one", "Ünï", "a.b", "x y", "select", "ID"])
    nullable = random.random() < 0.8
    column = Column(life.uids(), name, draw_kind(random, life.uids), nullable=nullable)
    place = random.choice([len(life.model.columns), 0])
    columns = (*life.model.columns[:place], column, *life.model.columns[place:])
    staged = random.random() < 0.3
    set_columns(life, columns, kind="add column", what=f"{name} {column.kind} {nullable}", staged=staged)


def _drop_column(life: Life, random: Random) -> None:
    gone = _pick(life, random)
    columns = tuple(column for column in life.model.columns if column != gone)
    set_columns(life, columns, kind="drop column", what=gone.name, staged=random.random() < 0.3)


def _replace_column(life: Life, random: Random) -> None:
    """Another column of the same name and type: it has none of the old one's values."""
    gone = _pick(life, random)
    fresh = changed(gone, uid=life.uids(), kind=gone.kind if isinstance(gone.kind, str) else "string")
    others = tuple(column for column in life.model.columns if column != gone)
    set_columns(life, others, kind="drop column", what=gone.name)
    if gone not in life.model.columns:
        set_columns(life, (*others, fresh), kind="add column", what=f"{gone.name} again")


def _rename_column(life: Life, random: Random) -> None:
    old = _pick(life, random)
    name = random.choice(["renamed", old.name.upper(), "a b", "né", "x.y", "`", '"', ""])
    columns = tuple(changed(column, name=name) if column == old else column for column in life.model.columns)
    set_columns(life, columns, kind="rename column", what=f"{old.name} {name}", staged=random.random() < 0.3)


def _widen(life: Life, random: Random) -> None:
    fits = [column for column in life.model.columns if isinstance(column.kind, str) and column.kind in _WIDER]
    if fits:
        column = random.choice(fits)
        kind = random.choice(_WIDER[str(column.kind)])
        text = f"{column.name} {column.kind} to {kind}"
        columns = retype(life.model.columns, column.uid, kind)
        known = life.metadata.get(column.uid, {})
        if random.random() < 0.7:  # as the feature demands
            record = [*known.get(_TYPE_CHANGES, []), {"toType": kind, "fromType": column.kind}]
            life.metadata[column.uid] = {**known, _TYPE_CHANGES: record}
        set_columns(life, columns, kind="widen", what=text, staged=random.random() < 0.3)
        life.look()


def _retype(life: Life, random: Random) -> None:
    column = _pick(life, random)
    kinds: list[Kind] = [*SCALARS, Array(column.kind)]
    kind = random.choice(kinds)
    text = f"{column.name} {column.kind} to {kind}"
    columns = retype(life.model.columns, column.uid, kind)
    set_columns(life, columns, kind="retype", what=text, staged=random.random() < 0.3)


def _nested(life: Life, random: Random) -> None:
    """A field more, or one less, in a struct."""
    fits = [column for column in life.model.columns if isinstance(column.kind, Struct)]
    if fits:
        column = random.choice(fits)
        assert isinstance(column.kind, Struct)
        fields = column.kind.fields
        more = Column(life.uids(), "more", random.choice(SCALARS), nullable=random.random() < 0.8)
        kind = Struct(random.choice([(*fields, more), fields[:-1], tuple(reversed(fields))]))
        columns = retype(life.model.columns, column.uid, kind)
        set_columns(life, columns, kind="nested", what=f"{column.name} {len(fields)} {len(kind.fields)}")


def _reorder(life: Life, random: Random) -> None:
    columns = tuple(random.sample(life.model.columns, len(life.model.columns)))
    set_columns(life, columns, kind="reorder", what="")


def _nullability(life: Life, random: Random) -> None:
    column = _pick(life, random)
    other = changed(column, nullable=not column.nullable)
    columns = tuple(other if each == column else each for each in life.model.columns)
    set_columns(life, columns, kind="nullability", what=f"{column.name} {other.nullable}")


_PROPERTIES: Final[tuple[Mapping[str, str], ...]] = (
    {"delta.enableDeletionVectors": "true"},
    {"delta.enableChangeDataFeed": "true"},
    {"delta.enableInCommitTimestamps": "true"},
    {"delta.enableInCommitTimestamps": "false"},
    {"delta.enableRowTracking": "true"},
    {"delta.enableTypeWidening": "true"},
    {"delta.appendOnly": "true"},
    {"delta.appendOnly": "FALSE"},
    {"delta.columnMapping.mode": "name"},
    {"delta.columnMapping.mode": "id"},
    {"delta.columnMapping.mode": "none"},
    {"delta.checkpointPolicy": "v2"},
    {"delta.checkpointInterval": "2"},
    {"delta.checkpointInterval": "0"},
    {"delta.checkpointInterval": "99999999999"},
    {"delta.dataSkippingNumIndexedCols": "0"},
    {"delta.dataSkippingNumIndexedCols": "99999999999"},
    {"delta.dataSkippingStatsColumns": "nothing"},
    {"delta.checkpoint.writeStatsAsStruct": "false"},
    {"delta.checkpoint.writeStatsAsJson": "false"},
    {"delta.logRetentionDuration": "interval 1 day"},
    {"delta.logRetentionDuration": "interval 99999999999999 weeks"},
    {"delta.deletedFileRetentionDuration": "interval 0 days"},
    {"delta.randomizeFilePrefixes": "true"},
    {"delta.enableIcebergCompatV2": "true"},
    {"delta.enableIcebergCompatV1": "true"},
    {"delta.universalFormat.enabledFormats": "iceberg"},
    {"delta.constraints.c": "1 = 1"},
    {"delta.constraints.d": "nonsense ("},
    {"delta.feature.vacuumProtocolCheck": "supported"},
    {"delta.feature.clustering": "supported"},
    {"delta.feature.identityColumns": "supported"},
    {"delta.feature.catalogManaged": "supported"},
    {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"},
    {"own": ""},
    {"ü \n": '"'},
    {"delta.targetFileSize": "x"},
    {"delta.autoOptimize": "maybe"},
    {"delta.isolationLevel": "WriteSerializable"},
    {"delta.parquet.compression.codec": "none of these"},
    {"delta.setTransactionRetentionDuration": "interval 1 second"},
)


def _property(life: Life, random: Random) -> None:
    properties = random.choice(_PROPERTIES)

    def act() -> None:
        with life.catalog.transaction() as tx:
            tx.set_metadata(life.name, properties=properties)

    life.attempt("property", repr(properties), act)


def stage_metadata(
    life: Life, *, kind: str, what: str, effect: Callable[[], object] | None = None, wrong: bool = False, **fields: Any
) -> None:
    """A metaData action that differs from the one in force."""
    metadata, _ = life.foundation
    action = replace(metadata, **fields)
    life.attempt(kind, what, lambda: life.commit([action], read=True), effect, wrong=wrong)


def _staged_property(life: Life, random: Random) -> None:
    metadata, _ = life.foundation
    properties = dict(random.choice(_PROPERTIES))
    unset = random.choice([*metadata.configuration, "nothing"])
    kept = {key: value for key, value in metadata.configuration.items() if key != unset}
    configuration = random.choice([kept, {**metadata.configuration, **properties}])
    what = f"{properties} {unset}" if configuration is not kept else f"without {unset}"
    stage_metadata(life, kind="staged property", what=what, configuration=configuration)


def _staged_partitions(life: Life, random: Random) -> None:
    names = [column.name for column in life.model.columns]
    wanted = random.sample(names, random.randint(0, min(2, len(names))))
    uids = {column.name: column.uid for column in life.model.columns}

    def effect() -> None:
        life.model.partitioning = tuple(uids[name] for name in wanted)

    stage_metadata(life, kind="staged partitions", what=repr(wanted), effect=effect, partition_columns=wanted)


def _staged_mapping(life: Life, random: Random) -> None:
    """Other physical names, or ids."""
    if not any("delta.columnMapping.id" in known for known in life.metadata.values()):
        return
    uid = random.choice(list(life.metadata))
    known = life.metadata[uid]
    odd: dict[str, Any] = random.choice(
        [
            {"delta.columnMapping.physicalName": "other"},
            {"delta.columnMapping.id": 99},
            {"delta.columnMapping.id": "1"},
            {"delta.columnMapping.physicalName": ""},
        ]
    )
    text = schema_json(life.model.columns, {**life.metadata, uid: {**known, **odd}})
    stage_metadata(life, kind="staged mapping", what=repr(odd), schema_string=text)


def _staged_schema_text(life: Life, random: Random) -> None:
    """The same schema in other words, or none."""
    metadata, _ = life.foundation
    text = str(metadata.schema_string)
    schema = json.loads(text)
    first = schema["fields"][0]
    bare = {**schema, "fields": [{k: v for k, v in each.items() if k != "metadata"} for each in schema["fields"]]}
    choices: list[tuple[str, str]] = [
        ("indented", json.dumps(schema, indent=2)),
        ("unknown member", json.dumps({**schema, "unknown": 1})),
        ("no metadata", json.dumps(bare)),
        ("no nullable", json.dumps({**schema, "fields": [{k: v for k, v in first.items() if k != "nullable"}]})),
        ("twice", json.dumps({**schema, "fields": [first, first]})),
        ("empty", '{"type":"struct","fields":[]}'),
        ("nothing", ""),
        ("int", text.replace('"integer"', '"int"').replace('"long"', '"bigint"')),
        ("upper", text.replace('"integer"', '"INTEGER"').replace('"long"', '"LONG"')),
        ("void", json.dumps({**schema, "fields": [*schema["fields"], {**first, "name": "v", "type": "void"}]})),
        ("variant", json.dumps({**schema, "fields": [*schema["fields"], {**first, "name": "v", "type": "variant"}]})),
        ("empty struct", json.dumps({**schema, "fields": [*schema["fields"], _EMPTY]})),
        ("char", json.dumps({**schema, "fields": [*schema["fields"], {**_EMPTY, "type": "char(3)"}]})),
        ("duplicate key", text.replace('"type":"struct"', '"type":"struct","type":"struct"', 1)),
    ]
    what, text = random.choice(choices)
    columns = life.model.columns
    added: dict[str, Column] = {
        "void": Column(life.uids(), "v", "void"),
        "variant": Column(life.uids(), "v", "variant"),
        "empty struct": Column(life.uids(), "s", Struct(())),
        "char": Column(life.uids(), "s", "string"),
    }

    def effect() -> None:
        if what in added:
            life.model.columns = (*columns, added[what])
        elif what in ("no nullable", "twice", "empty"):
            life.model.columns = columns[: what != "empty"]

    stage_metadata(life, kind="staged schema text", what=what, effect=effect, schema_string=text)


_EMPTY: Final[Mapping[str, Any]] = {
    "name": "s",
    "type": {"type": "struct", "fields": []},
    "nullable": True,
    "metadata": {},
}


def _staged_other(life: Life, random: Random) -> None:
    fields: dict[str, Any] = random.choice(
        [
            {"id": "another"},
            {"id": ""},
            {"name": "ü"},
            {"description": "\u0000"},
            {"created_time": None},
            {"created_time": 0},
            {"created_time": 2**63 - 1},
        ]
    )
    stage_metadata(life, kind="staged metadata", what=repr(fields), **fields)


def _protocol(life: Life, random: Random) -> None:
    _, protocol = life.foundation
    features = list(protocol.writer_features or [])
    odd: Protocol = random.choice(
        [
            Protocol(min_reader_version=1, min_writer_version=2),
            Protocol(min_reader_version=3, min_writer_version=7, reader_features=[], writer_features=features),
            Protocol(min_reader_version=2, min_writer_version=7, writer_features=[*features, "columnMapping"]),
            replace(protocol, min_reader_version=4),
            replace(protocol, writer_features=[*features, "unknownFeature"]),
            replace(protocol, writer_features=[*features, "deletionVectors"]),
            protocol,
        ]
    )
    life.attempt("protocol", repr(odd)[:150], lambda: life.commit([odd], read=True))


_FEATURES: Final = (
    "deletionVectors",
    "columnMapping",
    "typeWidening",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "rowTracking",
    "domainMetadata",
    "timestampNtz",
    "variantType",
    "clustering",
    "icebergCompatV1",
    "identityColumns",
    "allowColumnDefaults",
    "checkpointProtection",
    "variantShredding",
    "nothing",
)


def _feature(life: Life, random: Random) -> None:
    name = random.choice(_FEATURES)

    def act() -> None:
        with life.catalog.transaction() as tx:
            tx.upgrade_protocol(life.name, name)

    life.attempt("feature", name, act)


def _domain(life: Life, random: Random) -> None:
    name = random.choice(["mine", "ü \n", "delta.rowTracking", "delta.clustering", ""])
    text = random.choice(["{}", "", "no JSON", "ü" * 1000, "\u0000"])
    removed = random.random() < 0.2
    action = DomainMetadata(domain=name, configuration=text, removed=removed)
    life.attempt("domain", f"{name!r} {text[:10]!r} {removed}", lambda: life.commit([action], read=True))


def _application(life: Life, random: Random) -> None:
    written = life.write(random)
    version = random.choice([0, 1, 7, 2**63 - 1, -1])
    name = random.choice(["app", "ü", "", "a" * 500])

    def act() -> None:
        with life.catalog.transaction(rows_checked=True) as tx:
            tx.set_transaction(life.name, name, version)
            tx.append(life.name, [written.add])
        # An old version is no refusal: it was applied before, and nothing is added.
        seen = life.catalog.table(life.name).snapshot().files().column("path").to_pylist()
        applied.append(written.add.path in seen)

    applied: list[bool] = []

    def effect() -> None:
        if applied[-1]:
            life.live(written)

    life.attempt("application", f"{name[:10]!r} {version}", act, effect)


def _alter(life: Life, random: Random) -> None:
    words: dict[str, Any] = random.choice(
        [
            {"comment": "ü"},
            {"columns": ["extra_one int"]},
            {"columns": ["extra_two struct<a: int>"]},
            {"constraints": {"c": "1 = 1"}, "rows_checked": True},
            {"features": ["deletionVectors"]},
            {"properties": {"delta.columnMapping.mode": "name"}},
        ]
    )
    columns = life.model.columns

    def effect() -> None:
        if "columns" in words:
            one = "extra_one" in words["columns"][0]
            kind: Kind = "integer" if one else Struct((Column(life.uids(), "a", "integer"),))
            life.model.columns = (*columns, Column(life.uids(), "extra_one" if one else "extra_two", kind))

    life.attempt("alter", repr(words), lambda: life.catalog.table(life.name).alter(**words), effect)


CHANGE_STEPS: Final[Mapping[str, Step]] = {
    "add column": Step(_add_column, 4, valid=True),
    "drop column": Step(_drop_column, 2, valid=True),
    "replace column": Step(_replace_column, 2),
    "rename column": Step(_rename_column, 3, valid=True),
    "widen": Step(_widen, 4, valid=True),
    "retype": Step(_retype, 2),
    "nested": Step(_nested, 2, valid=True),
    "reorder": Step(_reorder, 1, valid=True),
    "nullability": Step(_nullability, 2, valid=True),
    "property": Step(_property, 4, valid=True),
    "staged property": Step(_staged_property, 3, valid=True),
    "staged partitions": Step(_staged_partitions, 1),
    "staged mapping": Step(_staged_mapping, 1),
    "staged schema text": Step(_staged_schema_text, 3, valid=True),
    "staged metadata": Step(_staged_other, 1, valid=True),
    "protocol": Step(_protocol, 2, valid=True),
    "feature": Step(_feature, 2, valid=True),
    "domain": Step(_domain, 2, valid=True),
    "application": Step(_application, 1, valid=True),
    "alter": Step(_alter, 2, valid=True),
}
