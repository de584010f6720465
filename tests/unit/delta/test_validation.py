"""Every rule for writers has a case that breaks it and a neighbour that does not."""

import pickle
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import pytest

from deltamirror.delta.actions import (
    Action,
    CheckpointMetadata,
    DeletionVector,
    Format,
    Metadata,
    Sidecar,
)
from deltamirror.delta.features import FEATURES, FENCE_FEATURE, protocol_for
from deltamirror.delta.validation import RULES, check_actions
from deltamirror.errors import InvalidAction
from tests.admission.vectors import bitmap, described
from tests.support.lakes.validation import (
    ADD,
    ADD_AND_REMOVE,
    ALL_FEATURES,
    CDC,
    COLUMNS,
    DOMAIN,
    EXTENDED,
    INFO,
    INLINE,
    PLAIN,
    REMOVE,
    TABLE,
    TXN,
    VECTOR,
    Case,
    changed,
    mapped,
    metadata_of,
    of_add,
    of_metadata,
    of_protocol,
    protocol,
    vector,
    with_properties,
)

pytestmark = pytest.mark.requirement("R5")


def file_cases() -> list[Case]:
    feed = with_properties(enableChangeDataFeed="true")
    files: dict[str, tuple[Action, Metadata]] = {"add": (ADD, TABLE), "remove": (REMOVE, TABLE), "cdc": (CDC, feed)}
    bad_and_good: dict[str, tuple[dict[str, object], dict[str, object]]] = {
        "path.empty": ({"path": ""}, {"path": "a"}),
        "path.absolute-windows": ({"path": "C:\\data\\a.parquet"}, {"path": "C/data/a.parquet"}),
        "path.backslash": ({"path": "day\\a.parquet"}, {"path": "day%5Ca.parquet"}),
        "path.raw-character": ({"path": "a b.parquet"}, {"path": "a%20bé.parquet"}),
        "path.bad-escape": ({"path": "a%2.parquet"}, {"path": "a%25.parquet"}),
        "path.parent": ({"path": "x/%2e%2e/a.parquet"}, {"path": "x/..a..b/.hidden.parquet"}),
        "path.home": ({"path": "~/a.parquet"}, {"path": "~a.parquet"}),
        "path.point": ({"path": "./a.parquet"}, {"path": ".a/a.parquet"}),
        "path.empty-name": ({"path": "x//a.parquet"}, {"path": "x/a.parquet"}),
        "path.colon": ({"path": "ts=10:00/a.parquet"}, {"path": "ts=10%3A00/a.parquet"}),
        "path.not-text": ({"path": "a%FF.parquet"}, {"path": "aÿ.parquet"}),
        "path.log": ({"path": "_delta_log/a.parquet"}, {"path": "_delta_log.parquet"}),
        "path.long": ({"path": "a/" * 2048 + "b"}, {"path": "a/" * 2047 + "b"}),
        "size.negative": ({"size": -1}, {"size": 0}),
        "partition.unknown": ({"partition_values": {"day": None, "x": "1"}}, {"partition_values": {"day": ""}}),
    }
    return [
        Case(f"{name}.{rule}", [changed(action, **bad)], [changed(action, **good)], PLAIN, metadata)
        for name, (action, metadata) in files.items()
        for rule, (bad, good) in bad_and_good.items()
    ]


def new_file_cases() -> list[Case]:
    bad_and_good: dict[str, tuple[str, str]] = {
        "path.absolute": ("s3://b/a.parquet", "b/a.parquet"),
        "path.spelling": ("%61.parquet", "%25.parquet"),
    }
    feed = with_properties(enableChangeDataFeed="true")
    return [
        Case(f"{name}.{rule}", [changed(action, path=bad)], [changed(action, path=good)], metadata=feed)
        for name, action in (("add", ADD), ("cdc", CDC))
        for rule, (bad, good) in bad_and_good.items()
    ]


def partition_cases() -> list[Case]:
    required = partial(metadata_of, COLUMNS.replace("day date", "day date not null"))
    day: dict[str, Callable[..., Metadata]] = {"nullable": metadata_of, "not null": required}
    values: dict[str, tuple[dict[str, object], dict[str, object], str]] = {
        "partition.value": ({"day": "2024-02-30"}, {"day": "2024-02-29"}, "nullable"),
        "partition.missing": ({}, {"day": None}, "nullable"),
        "partition.null": ({"day": ""}, {"day": "2024-02-29"}, "not null"),
    }
    return [
        Case(
            f"{name}.{rule}",
            [changed(action, partition_values=bad)],
            [changed(action, partition_values=good)],
            metadata=day[table](configuration={"delta.enableChangeDataFeed": "true"}),
            words={"rows_checked": True},
        )
        for name, action in (("add", ADD), ("cdc", CDC))
        for rule, (bad, good, table) in values.items()
    ]


def statistics_cases() -> list[Case]:
    cases: dict[str, tuple[dict[str, object], dict[str, object]]] = {
        "stats.json": ({"stats": '["numRecords"]'}, {"stats": "{}"}),
        "stats.depth": ({"stats": '{"x":' * 128 + "1" + "}" * 128}, {"stats": '{"x":' * 127 + "1" + "}" * 127}),
        "stats.repeated-key": (
            {"stats": '{"numRecords":1,"minValues":{"id":1,"id":2}}'},
            {"stats": '{"numRecords": 1, "minValues": {"id": 1.50, "s": "\\u00e9"}}'},
        ),
        "stats.num-records": ({"stats": '{"numRecords":-1}'}, {"stats": '{"numRecords":0}'}),
        "row-ids.negative": ({"base_row_id": -1}, {"base_row_id": 0, "default_row_commit_version": 0}),
        "row-ids.range": ({"base_row_id": 2**63 - 1}, {"base_row_id": 2**62}),
        "deletion-vector.storage-type": ({"deletion_vector": vector(storage_type="x")}, {"deletion_vector": VECTOR}),
        "deletion-vector.path": (
            {"deletion_vector": vector(path_or_inline_dv="short")},
            {"deletion_vector": vector(storage_type="p", path_or_inline_dv="s3://b/dv.bin")},
        ),
        "deletion-vector.offset": (
            {"deletion_vector": vector(storage_type="i", path_or_inline_dv=INLINE, size_in_bytes=36, offset=1)},
            {"deletion_vector": vector(storage_type="i", path_or_inline_dv=INLINE, size_in_bytes=36, offset=None)},
        ),
        "deletion-vector.size": (
            {"deletion_vector": vector(size_in_bytes=0)},
            {"deletion_vector": vector(size_in_bytes=1)},
        ),
        "deletion-vector.cardinality": (
            {"deletion_vector": vector(cardinality=-1)},
            {"deletion_vector": vector(cardinality=0)},
        ),
    }
    return [
        Case(f"{name}.{rule}", [changed(action, **bad)], [changed(action, **good)], EXTENDED)
        for name, action in ADD_AND_REMOVE.items()
        for rule, (bad, good) in cases.items()
    ]


def misfit_cases() -> list[Case]:
    """What delta-rs fails at."""
    counted = [changed(ADD, stats=f'{{"numRecords":1,"nullCount":{{"id":{count}}}}}') for count in ('"x"', "0")]
    placed = [changed(ADD, partition_values={"d": value}) for value in ("-1.50", "-1.00")]
    dated = [
        changed(ADD, partition_values={"h": "1"}, stats=f'{{"minValues":{{"day":"{day}"}}}}')
        for day in ("0000-12-31", "0001-01-01")
    ]
    return [
        Case("add.stats.type", counted[:1], counted[1:], EXTENDED),
        Case("add.partition.negative-fraction", placed[:1], placed[1:], metadata=metadata_of(partition_by=["d"])),
        Case("add.stats.date", dated[:1], dated[1:], metadata=metadata_of(partition_by=["h"])),
    ]


def nested(levels: int) -> Metadata:
    schema = '"long"'
    for _ in range(levels):
        schema = f'{{"type":"struct","fields":[{{"name":"c","type":{schema},"nullable":true,"metadata":{{}}}}]}}'
    return metadata_of(schema, partition_by=())


def feature_cases() -> list[Case]:
    """The table lacks the feature that the bad commit uses."""
    cases = []
    for name, action in ADD_AND_REMOVE.items():
        bad: dict[str, dict[str, object]] = {
            "deletion-vector.feature": {"deletion_vector": VECTOR},
            "row-ids.feature": {"base_row_id": 0},
        }
        cases += [Case(f"{name}.{rule}", [changed(action, **values)], [action]) for rule, values in bad.items()]
    return cases


def annotated(metadata: dict[str, object]) -> Metadata:
    field = {"name": "id", "type": "long", "nullable": True, "metadata": metadata}
    return metadata_of(msgspec.json.encode({"type": "struct", "fields": [field]}).decode(), partition_by=())


OTHER_CASES = [
    Case("commit.type", [changed(ADD, size="10")], [ADD]),
    Case("commit.metadata-twice", [TABLE, TABLE], [TABLE]),
    Case("commit.protocol-twice", [PLAIN, PLAIN], [PLAIN]),
    Case("commit.app-id-twice", [TXN, TXN], [TXN, changed(TXN, app_id="other")]),
    Case("commit.domain-twice", [DOMAIN, DOMAIN], [DOMAIN, changed(DOMAIN, domain="other")], EXTENDED),
    Case("commit.add-twice", [ADD, changed(ADD, size=11)], [ADD, changed(ADD, path="b.parquet")]),
    Case("commit.remove-twice", [REMOVE, REMOVE], [REMOVE, changed(REMOVE, path="b.parquet")]),
    Case(
        "commit.added-and-removed",
        [ADD, changed(REMOVE, path=ADD.path)],
        [changed(ADD, deletion_vector=VECTOR), changed(REMOVE, path=ADD.path)],
        EXTENDED,
    ),
    Case("commitInfo.authored", [INFO, ADD], [ADD]),
    Case("commitInfo.twice", [INFO, INFO], [INFO], words={"verbatim": True}),
    Case(
        "commitInfo.first",
        [ADD, INFO],
        [INFO, ADD],
        protocol_for(["inCommitTimestamp", "variantType", "timestampNtz"]),
        with_properties(enableInCommitTimestamps="true"),
        {"verbatim": True},
    ),
    Case(
        "commitInfo.in-commit-timestamp",
        [changed(INFO, in_commit_timestamp=None)],
        [INFO],
        protocol_for(["inCommitTimestamp", "variantType", "timestampNtz"]),
        with_properties(enableInCommitTimestamps="true"),
        {"verbatim": True},
    ),
    Case(
        "commitInfo.in-commit-timestamp.range",
        [changed(INFO, in_commit_timestamp=2**63 - 1)],
        [changed(INFO, in_commit_timestamp=253_402_300_799_999)],
        protocol_for(["inCommitTimestamp", "variantType", "timestampNtz"]),
        with_properties(enableInCommitTimestamps="true"),
        {"verbatim": True},
    ),
    Case("checkpointMetadata.in-commit", [CheckpointMetadata(version=1)], [ADD]),
    Case("sidecar.in-commit", [Sidecar(path="a", size_in_bytes=1, modification_time=1)], [ADD]),
    of_add("modification-time.negative", {"modification_time": -1}, {"modification_time": 0}),
    of_add("modification-time.seconds", {"modification_time": 1_700_000_000}, {"modification_time": 1_700_000_000_000}),
    of_add(
        "deletion-vector.num-records",
        {"deletion_vector": VECTOR, "stats": "{}"},
        {"deletion_vector": VECTOR},
        protocol=EXTENDED,
    ),
    of_add(
        "deletion-vector.exceeds-records",
        {"deletion_vector": vector(cardinality=4)},
        {"deletion_vector": vector(cardinality=3)},
        protocol=EXTENDED,
    ),
    of_add(
        "deletion-vector.address",
        {"deletion_vector": vector(storage_type="p", path_or_inline_dv="http://x/y.bin")},
        {"deletion_vector": vector(storage_type="p", path_or_inline_dv="file:///y.bin")},
        protocol=EXTENDED,
    ),
    of_add(
        "deletion-vector.bitmap",
        {"deletion_vector": DeletionVector(**described(bitmap([0, 1])[:-2], 2))},
        {"deletion_vector": DeletionVector(**described(bitmap([0, 1]), 2))},
        protocol=EXTENDED,
    ),
    of_add(
        "deletion-vector.counts",
        {"deletion_vector": DeletionVector(**described(bitmap([0, 1]), 1))},
        {"deletion_vector": DeletionVector(**described(bitmap([0, 1]), 2))},
        protocol=EXTENDED,
    ),
    of_add("clustering.feature", {"clustering_provider": "liquid"}, {}),
    of_add(
        "iceberg.num-records",
        {"stats": None},
        {},
        metadata=with_properties(enableIcebergCompatV2="true"),
        words={"rows_checked": True},
    ),
    Case(
        "add.rows-unchecked",
        [ADD],
        [changed(ADD, data_change=False)],
        metadata=with_properties(**{"constraints.c": "x"}),
    ),
    Case("remove.deletion-timestamp.missing", [changed(REMOVE, deletion_timestamp=None)], [REMOVE]),
    Case("remove.deletion-timestamp.negative", [changed(REMOVE, deletion_timestamp=-1)], [REMOVE]),
    Case(
        "remove.append-only",
        [REMOVE],
        [changed(REMOVE, data_change=False)],
        metadata=with_properties(appendOnly="true"),
    ),
    Case("cdc.feature", [CDC], [ADD]),
    Case(
        "cdc.data-change",
        [changed(CDC, data_change=True)],
        [CDC],
        metadata=with_properties(enableChangeDataFeed="true"),
    ),
    Case("txn.app-id.empty", [changed(TXN, app_id="")], [TXN]),
    Case("txn.version.negative", [changed(TXN, version=-1)], [TXN]),
    Case("txn.last-updated.negative", [changed(TXN, last_updated=-1)], [changed(TXN, last_updated=0)]),
    Case("domainMetadata.feature", [DOMAIN], []),
    Case("domainMetadata.name.empty", [changed(DOMAIN, domain="")], [DOMAIN], EXTENDED),
    Case("domainMetadata.system", [changed(DOMAIN, domain="delta.clustering")], [DOMAIN], EXTENDED),
    of_protocol("version", protocol(4, 7), protocol(2, 6)),
    of_protocol("reader-list", protocol(2, 7, [], []), protocol(2, 7, None, [])),
    of_protocol("writer-list", protocol(1, 7), protocol(1, 7, None, [])),
    of_protocol("writer-behind-reader", protocol(3, 6, []), protocol(3, 7, [], [])),
    of_protocol(
        "feature-twice", protocol(1, 7, None, ["appendOnly", "appendOnly"]), protocol(1, 7, None, ["appendOnly"])
    ),
    of_protocol(
        "reader-subset", protocol(3, 7, ["v2Checkpoint"], []), protocol(3, 7, ["v2Checkpoint"], ["v2Checkpoint"])
    ),
    of_protocol("reader-unlisted", protocol(3, 7, [], ["columnMapping"]), protocol(2, 7, None, ["columnMapping"])),
    of_protocol(
        "dependency", protocol(1, 7, None, ["rowTracking"]), protocol(1, 7, None, ["rowTracking", "domainMetadata"])
    ),
    of_protocol("unsupported", protocol(1, 7, None, ["somethingElse"]), protocol(1, 7, None, [FENCE_FEATURE])),
    Case(
        "protocol.downgrade",
        [protocol(1, 7, None, ["appendOnly"])],
        [protocol(1, 7, None, ["appendOnly", "invariants", "inCommitTimestamp"])],
        protocol(1, 7, None, []),
        metadata_of("id long", partition_by=()),
        {"previous_protocol": protocol(1, 2)},
    ),
    Case(
        "protocol.downgrade",
        [protocol(1, 7, None, [FENCE_FEATURE, "appendOnly"])],
        [protocol(1, 2)],
        protocol(1, 7, None, []),
        metadata_of("id long", partition_by=()),
        {"previous_protocol": protocol(1, 7, None, [FENCE_FEATURE, "appendOnly", "invariants"])},
    ),
    of_metadata("id.empty", msgspec.structs.replace(TABLE, id=""), TABLE),
    of_metadata("format", msgspec.structs.replace(TABLE, format=Format(provider="orc", options={})), TABLE),
    of_metadata(
        "schema.repeated-key",
        metadata_of(str(TABLE.schema_string).replace('"nullable"', '"name":"x","nullable"')),
        TABLE,
    ),
    of_metadata(
        "sql",
        metadata_of(configuration={"delta.constraints.c": "id > 0)"}),
        metadata_of(configuration={"delta.constraints.c": "id > (0)"}),
        protocol_for(["variantType", "timestampNtz", "checkConstraints"]),
    ),
    of_metadata(
        "change-data-columns",
        metadata_of(
            "id long, _Change_Type string", configuration={"delta.enableChangeDataFeed": "true"}, partition_by=()
        ),
        metadata_of("id long, _change_type string", partition_by=()),
        protocol_for(["changeDataFeed"]),
    ),
    of_metadata("schema.depth", nested(43), nested(42)),
    of_metadata("schema.missing", msgspec.structs.replace(TABLE, schema_string=None), TABLE),
    of_metadata("schema.empty", metadata_of('{"type":"struct","fields":[]}', partition_by=()), TABLE),
    of_metadata("schema", msgspec.structs.replace(TABLE, schema_string="{}"), TABLE),
    of_metadata("created-time.negative", msgspec.structs.replace(TABLE, created_time=-1), TABLE),
    of_metadata("partition.unknown", metadata_of(partition_by=["Day"]), metadata_of(partition_by=["day"])),
    of_metadata("partition.nested", metadata_of(partition_by=["st.x"]), metadata_of(partition_by=["s"])),
    of_metadata("partition.twice", metadata_of(partition_by=["day", "day"]), metadata_of(partition_by=["day", "h"])),
    of_metadata("partition.type", metadata_of(partition_by=["v"]), metadata_of(partition_by=["bin"])),
    of_metadata("partition.all", metadata_of("day date"), metadata_of("day date, id long")),
    of_metadata(
        "configuration.protocol",
        with_properties(**{"feature.appendOnly": "supported"}),
        metadata_of(configuration={"feature.appendOnly": "supported"}),
    ),
    of_metadata(
        "configuration.value", with_properties(checkpointInterval="0"), with_properties(checkpointInterval="1")
    ),
    of_metadata("column-mapping.off", annotated({"delta.columnMapping.physicalName": "x"}), annotated({})),
    of_metadata("column-metadata", annotated({"comment": 5}), annotated({"comment": "five"})),
    of_metadata("column-mapping.id", mapped((1, "a"), (1, "b")), mapped((1, "a"), (2, "b")), ALL_FEATURES),
    of_metadata("column-mapping.physical-name", mapped((1, "a"), (2, "a")), mapped((1, "a"), (2, "b")), ALL_FEATURES),
    of_metadata("column-mapping.max-id", mapped((3, "a"), largest="2"), mapped((3, "a"), largest="3"), ALL_FEATURES),
    of_metadata(
        "in-commit-timestamp",
        with_properties(inCommitTimestampEnablementVersion="1"),
        with_properties(inCommitTimestampEnablementVersion="1", inCommitTimestampEnablementTimestamp="1"),
    ),
    of_metadata(
        "row-tracking",
        with_properties(enableRowTracking="true", rowTrackingSuspended="true"),
        with_properties(enableRowTracking="false", rowTrackingSuspended="true"),
    ),
    of_metadata(
        "row-tracking.materialized",
        with_properties(enableRowTracking="true"),
        with_properties(
            **{
                "enableRowTracking": "true",
                "rowTracking.materializedRowIdColumnName": "_row-id-col-1",
                "rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
            }
        ),
        EXTENDED,
    ),
    of_metadata("features", with_properties(enableDeletionVectors="true"), TABLE),
]

CASES = [
    *file_cases(),
    *new_file_cases(),
    *partition_cases(),
    *statistics_cases(),
    *misfit_cases(),
    *feature_cases(),
    *OTHER_CASES,
]


def check(case: Case, actions: Sequence[Action]) -> None:
    check_actions(actions, protocol=case.protocol, metadata=case.metadata, **case.words)  # type: ignore[arg-type]


@pytest.mark.requirement("R94")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_what_breaks_a_rule_is_refused_by_its_name(case: Case) -> None:
    with pytest.raises(InvalidAction) as caught:
        check(case, case.bad)
    error = caught.value
    assert error.rule == case.rule
    assert error.hint == RULES[case.rule].remedy
    assert error.action
    assert error.index is not None
    assert repr(error.found) in error.message
    assert pickle.loads(pickle.dumps(error)).rule == case.rule  # noqa: S301  (our own bytes)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_the_neighbour_of_what_breaks_a_rule_passes(case: Case) -> None:
    check(case, case.good)


def test_no_rule_is_without_a_case() -> None:
    # What a commit may be to the table before it has its cases in test_evolution.py, test_live_once.py,
    # test_staged_row_ids.py and test_timestamp_roads.py.
    of_history = (
        "metaData.change.",
        "metaData.in-commit-timestamp.enablement",
        "add.path.live-twice",
        "add.row-ids.others",
    )
    elsewhere = {rule for rule in RULES if rule.startswith(of_history)}
    assert {case.rule for case in CASES} == RULES.keys() - elsewhere


def test_rules_have_stable_ids_texts_and_remedies() -> None:
    for name, rule in RULES.items():
        assert rule.id == name
        assert rule.text
        assert rule.remedy


@pytest.mark.requirement("R74")
@pytest.mark.parametrize("name", sorted(FEATURES))
def test_the_protocol_of_every_supported_feature_is_in_order(name: str) -> None:
    if FEATURES[name].support != "refuse":
        made = protocol_for([name])
        check_actions([made], protocol=made, metadata=metadata_of("id long", partition_by=()))
