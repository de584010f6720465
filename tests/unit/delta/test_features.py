"""Table features, protocols and properties: what we read, write, carry and refuse, in one table (G8)."""

import json

import pytest

from deltamirror.delta.actions import Format, Metadata, Protocol
from deltamirror.delta.features import (
    FEATURES,
    FENCE_FEATURE,
    Support,
    features_for,
    missing_features,
    protocol_for,
    reader_features_of,
    require_readable,
    require_writable,
    row_duties,
    row_tracking,
    table_features_from_properties,
    upgrade,
    writer_features_of,
)
from deltamirror.delta.features.protocols import DEFAULT_PROTOCOL
from deltamirror.delta.order import champ_order
from deltamirror.delta.properties import (
    append_only,
    byte_count,
    canonical_properties,
    change_data_feed,
    checkpoint_interval,
    checkpoint_policy,
    column_mapping_mode,
    deleted_file_retention_ms,
    deletion_vectors,
    expired_log_cleanup,
    find_invalid,
    in_commit_timestamps,
    interval_ms,
    log_retention_ms,
    max_column_id,
    transaction_retention_ms,
    write_stats_as_json,
    write_stats_as_struct,
)
from deltamirror.delta.schema import from_ddl, parse_schema, schema_string
from deltamirror.errors import InvalidInput, Unsupported
from tests.support.reference_logs.golden import reference

REFERENCE = reference()
DAY_MS = 86_400_000


def metadata_of(schema: str = "id long") -> Metadata:
    return metadata_with(schema_string(from_ddl(schema)), {})


def metadata_with(schema: str, configuration: dict[str, str]) -> Metadata:
    return Metadata(
        id="t",
        format=Format(provider="parquet", options={}),
        schema_string=schema,
        partition_columns=[],
        configuration=configuration,
    )


def with_property(key: str, value: str = "true") -> Metadata:
    return metadata_with(schema_string(from_ddl("id long")), {key: value})


def with_column_metadata(key: str) -> Metadata:
    column = {"name": "c", "type": "string", "nullable": True, "metadata": {key: "x"}}
    return metadata_with(schema_string(parse_schema({"type": "struct", "fields": [column]})), {})


def listed(reader: int, *features: str) -> Protocol:
    readers = list(features) if reader == 3 else None
    return Protocol(
        min_reader_version=reader, min_writer_version=7, reader_features=readers, writer_features=[*features]
    )


def legacy(reader: int, writer: int) -> Protocol:
    return Protocol(min_reader_version=reader, min_writer_version=writer)


@pytest.mark.requirement("R74")
@pytest.mark.parametrize("name", sorted(FEATURES))
def test_every_known_feature_is_read_and_written_as_the_table_says(name: str) -> None:
    feature = FEATURES[name]
    protocol = listed(3 if feature.reader else 1, name)
    if feature.support is Support.REFUSE:
        with pytest.raises(Unsupported) as caught:
            require_writable(protocol, table="sales.orders")
        assert caught.value.features == (name,)
        assert caught.value.table == "sales.orders"
    else:
        require_writable(protocol)
    if feature.support is Support.REFUSE and feature.reader:
        with pytest.raises(Unsupported):
            require_readable(protocol)
    else:
        require_readable(protocol)


@pytest.mark.requirement("R74")
def test_the_support_matrix_is_the_one_that_is_documented() -> None:
    by_support = {word: {name for name, row in FEATURES.items() if row.support is word} for word in Support}
    assert by_support[Support.CARRY] == {
        "checkConstraints",
        "checkpointProtection",
        "generatedColumns",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "identityColumns",
        "materializePartitionColumns",
    }
    assert by_support[Support.REFUSE] == {
        "adaptiveMetadata-preview",
        "catalogManaged",
        "collations",
        "collations-preview",
        "coordinatedCommits-preview",
        "geospatial",
        "geospatial-dev",
        "redirectReaderWriter-preview",
        "redirectWriterOnly-preview",
    }
    assert FENCE_FEATURE in by_support[Support.WRITE]
    assert not FEATURES[FENCE_FEATURE].reader


@pytest.mark.requirement("R74")
@pytest.mark.parametrize("writer", range(1, 7))
@pytest.mark.parametrize("reader", [1, 2])
def test_every_legacy_protocol_is_supported(reader: int, writer: int) -> None:
    require_writable(legacy(reader, writer))


@pytest.mark.requirement("R74")
@pytest.mark.parametrize("protocol", [legacy(4, 7), legacy(0, 2), legacy(1, 8), legacy(1, 0)])
def test_a_version_that_does_not_exist_is_refused(protocol: Protocol) -> None:
    with pytest.raises(Unsupported, match="version"):
        require_writable(protocol)


@pytest.mark.requirement("R74")
def test_an_unknown_writer_feature_stops_writers_only() -> None:
    protocol = listed(1, "somethingElse")
    require_readable(protocol)
    with pytest.raises(Unsupported, match="somethingElse"):
        require_writable(protocol)


@pytest.mark.requirement("R74")
def test_an_unknown_reader_feature_stops_readers() -> None:
    with pytest.raises(Unsupported, match="somethingElse"):
        require_readable(listed(3, "somethingElse"))


@pytest.mark.parametrize(
    ("protocol", "readers", "writers"),
    [
        (legacy(1, 1), set(), set()),
        (legacy(1, 2), set(), {"appendOnly", "invariants"}),
        (legacy(1, 3), set(), {"appendOnly", "invariants", "checkConstraints"}),
        (
            legacy(2, 5),
            {"columnMapping"},
            {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"},
        ),
        (listed(2, "columnMapping"), {"columnMapping"}, {"columnMapping"}),
        (listed(3, "deletionVectors"), {"deletionVectors"}, {"deletionVectors"}),
    ],
)
def test_versions_stand_for_legacy_features(protocol: Protocol, readers: set[str], writers: set[str]) -> None:
    assert reader_features_of(protocol) == readers
    assert writer_features_of(protocol) == writers


def test_the_table_is_in_the_order_in_which_spark_enumerates() -> None:
    names = [name.lower() for name in FEATURES]
    enumerated = names[: names.index("clustering") + 1]
    assert champ_order(enumerated) == enumerated


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([], legacy(1, 2)),
        (["appendOnly"], legacy(1, 2)),
        (["checkConstraints"], legacy(1, 3)),
        (["columnMapping", "checkConstraints", "changeDataFeed", "generatedColumns"], legacy(2, 5)),
        (["inCommitTimestamp"], listed(1, "inCommitTimestamp", "invariants", "appendOnly")),
        (["columnMapping"], listed(2, "columnMapping", "invariants", "appendOnly")),
        (["rowTracking"], listed(1, "domainMetadata", "rowTracking", "invariants", "appendOnly")),
    ],
)
def test_a_table_begins_with_the_weakest_protocol(features: list[str], expected: Protocol) -> None:
    assert protocol_for(features) == expected


def logged_protocols(table: str) -> list[Protocol]:
    commits = sorted((REFERENCE.root / table / "_delta_log").glob("*0?.json"))
    lines = (line for path in commits for line in path.read_text(encoding="utf-8").splitlines())
    bodies = (json.loads(line)["protocol"] for line in lines if line.startswith('{"protocol"'))
    return [
        Protocol(
            min_reader_version=body["minReaderVersion"],
            min_writer_version=body["minWriterVersion"],
            reader_features=body.get("readerFeatures"),
            writer_features=body.get("writerFeatures"),
        )
        for body in bodies
    ]


@pytest.mark.requirement("R5")
@pytest.mark.reference
@pytest.mark.parametrize("table", REFERENCE.protocols)
def test_protocols_are_spelled_as_delta_spark_spells_them(table: str) -> None:
    previous: Protocol | None = None
    for protocol in logged_protocols(table):
        # A set has no order of its own, so neither has what we are given.
        features = sorted(writer_features_of(protocol))
        assert protocol == (protocol_for(features) if previous is None else upgrade(previous, features))
        previous = protocol


def test_an_upgrade_carries_what_versions_stood_for() -> None:
    assert writer_features_of(upgrade(legacy(2, 5), ["v2Checkpoint"])) == writer_features_of(legacy(2, 5)) | {
        "v2Checkpoint"
    }
    assert reader_features_of(upgrade(legacy(2, 5), ["v2Checkpoint"])) == {"columnMapping", "v2Checkpoint"}


def test_an_upgrade_to_what_is_there_changes_nothing() -> None:
    protocol = listed(1, "appendOnly", "inCommitTimestamp")
    assert upgrade(protocol, ["inCommitTimestamp"]) is protocol
    assert upgrade(legacy(1, 4), ["changeDataFeed"]) == legacy(1, 4)


def test_feature_names_are_found_without_regard_to_case() -> None:
    assert "deletionVectors" in writer_features_of(upgrade(DEFAULT_PROTOCOL, ["deletionvectors"]))


@pytest.mark.requirement("R74")
@pytest.mark.parametrize("name", ["catalogManaged", "nonsense"])
def test_an_upgrade_to_what_we_refuse_is_refused(name: str) -> None:
    with pytest.raises(Unsupported, match=name):
        upgrade(DEFAULT_PROTOCOL, [name])


def test_the_fence_shuts_out_writers_and_not_readers() -> None:
    protocol = upgrade(DEFAULT_PROTOCOL, [FENCE_FEATURE])
    assert protocol.min_reader_version == 1
    assert protocol.writer_features == [FENCE_FEATURE, "invariants", "appendOnly"]


@pytest.mark.parametrize(
    ("metadata", "features"),
    [
        (metadata_of(), set()),
        (metadata_of("id long not null"), {"invariants"}),
        (metadata_of("s struct<a: int not null>"), {"invariants"}),
        (metadata_of("a array<struct<x: int not null>>"), set()),
        (metadata_of("t timestamp_ntz"), {"timestampNtz"}),
        (metadata_of("m map<string, array<timestamp_ntz>>"), {"timestampNtz"}),
        (metadata_of("s struct<a: array<struct<v: variant>>>"), {"variantType"}),
        (with_property("delta.appendOnly"), {"appendOnly"}),
        (with_property("delta.appendOnly", "false"), set()),
        (with_property("delta.enableChangeDataFeed"), {"changeDataFeed"}),
        (with_property("delta.enableDeletionVectors"), {"deletionVectors"}),
        (with_property("delta.enableRowTracking"), {"rowTracking"}),
        (with_property("delta.enableTypeWidening"), {"typeWidening"}),
        (with_property("delta.enableInCommitTimestamps"), {"inCommitTimestamp"}),
        (with_property("delta.enableVariantShredding"), {"variantShredding"}),
        (with_property("delta.enableIcebergCompatV2"), {"icebergCompatV2"}),
        (with_property("delta.columnMapping.mode", "name"), {"columnMapping"}),
        (with_property("delta.columnMapping.mode", "none"), set()),
        (with_property("delta.checkpointPolicy", "v2"), {"v2Checkpoint"}),
        (with_property("delta.checkpointPolicy", "classic"), set()),
        (with_property("delta.constraints.c1", "id > 0"), {"checkConstraints"}),
        (with_column_metadata("delta.invariants"), {"invariants"}),
        (with_column_metadata("delta.generationExpression"), {"generatedColumns"}),
        (with_column_metadata("delta.identity.start"), {"identityColumns"}),
        (with_column_metadata("CURRENT_DEFAULT"), {"allowColumnDefaults"}),
        (with_column_metadata("delta.typeChanges"), {"typeWidening"}),
        (with_column_metadata("__COLLATIONS"), {"collations"}),
    ],
)
def test_metadata_demands_the_features_that_it_uses(metadata: Metadata, features: set[str]) -> None:
    assert features_for(metadata) == features


def test_a_preview_serves_in_place_of_its_feature() -> None:
    metadata = metadata_of("v variant")
    assert missing_features(metadata, listed(3, "variantType-preview")) == frozenset()
    assert missing_features(metadata, DEFAULT_PROTOCOL) == {"variantType"}


def test_rows_are_somebodys_duty_only_where_the_table_uses_the_feature() -> None:
    schema = from_ddl("id long not null")
    assert row_duties(metadata_of("id long not null"), schema) == {}
    assert list(row_duties(with_property("delta.constraints.c1", "id > 0"), schema)) == ["checkConstraints"]
    invariant = with_column_metadata("delta.invariants")
    assert list(row_duties(invariant, parse_schema(invariant.schema_string))) == ["invariants"]


def test_row_ids_are_assigned_unless_suspended() -> None:
    protocol = protocol_for(["rowTracking"])
    assert row_tracking(metadata_of(), protocol)
    assert not row_tracking(with_property("delta.rowTrackingSuspended"), protocol)
    assert not row_tracking(with_property("delta.enableRowTracking"), DEFAULT_PROTOCOL)


def test_words_about_the_protocol_are_taken_out_of_the_properties() -> None:
    properties = {
        "delta.feature.DeletionVectors": "supported",
        "delta.appendOnly": "true",
        "delta.minReaderVersion": "2",
        "delta.minWriterVersion": "5",
        "owner": "me",
    }
    rest, features = table_features_from_properties(properties)
    assert rest == {"delta.appendOnly": "true", "owner": "me"}
    assert features == writer_features_of(legacy(2, 5)) | {"deletionVectors"}


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.feature.deletionVectors": "yes"},
        {"delta.minWriterVersion": "x"},
        {"delta.minReaderVersion": "9"},
    ],
)
def test_a_wrong_word_about_the_protocol_is_named(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(properties))):
        table_features_from_properties(properties)


def test_properties_are_stored_in_canonical_spelling_and_given_order() -> None:
    given = {
        "Owner": "me",
        "DELTA.appendonly": "TRUE",
        "delta.Constraints.C1": "id > 0",
        "delta.checkpointinterval": "5",
    }
    assert list(canonical_properties(given).items()) == [
        ("Owner", "me"),
        ("delta.appendOnly", "TRUE"),
        ("delta.constraints.C1", "id > 0"),
        ("delta.checkpointInterval", "5"),
    ]


@pytest.mark.requirement("R75")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.appendOnly", "yes"),
        ("delta.checkpointInterval", "0"),
        ("delta.checkpointInterval", "ten"),
        ("delta.checkpointPolicy", "v3"),
        ("delta.columnMapping.mode", "names"),
        ("delta.dataSkippingNumIndexedCols", "-2"),
        ("delta.isolationLevel", "WriteSerializable"),
        ("delta.logRetentionDuration", "interval 1 month"),
        ("delta.deletedFileRetentionDuration", "a week"),
        ("delta.columnMapping.maxColumnId", "3"),
        ("delta.inCommitTimestampEnablementVersion", "3"),
        ("delta.inCommitTimestampEnablementTimestamp", "3"),
        ("delta.rowTracking.materializedRowIdColumnName", "x"),
        ("delta.targetFileSize", "x"),
        ("delta.targetFileSize", "0"),
        ("delta.targetFileSize", "1.5gb"),
        ("delta.noSuchThing", "x"),
    ],
)
def test_a_property_that_delta_would_not_take_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=key):
        canonical_properties({key: value})


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("134217728", 2**27), ("128mb", 2**27), ("1 GB", 2**30), ("2k", 2_048), ("1GiB", 2**30)],
)
def test_a_size_of_files_is_in_bytes_or_has_a_unit(text: str, size: int) -> None:
    assert canonical_properties({"delta.targetFileSize": text}) == {"delta.targetFileSize": text}
    assert byte_count(text) == size


def test_a_wish_of_another_writer_that_cannot_be_read_is_no_fault_of_a_commit() -> None:
    assert list(find_invalid({"delta.targetFileSize": "x"})) == []


def test_a_property_in_two_spellings_is_refused() -> None:
    with pytest.raises(InvalidInput, match="twice"):
        canonical_properties({"delta.appendOnly": "true", "delta.appendonly": "false"})


def test_a_property_is_a_text() -> None:
    with pytest.raises(InvalidInput, match="text"):
        canonical_properties({"delta.checkpointInterval": 10})  # type: ignore[dict-item]  # what users do


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 30 days", 30 * DAY_MS),
        ("INTERVAL 1 WEEK", 7 * DAY_MS),
        ("2 hours", 7_200_000),
        ("interval 1 day 1 minute 1 second 1 millisecond", DAY_MS + 61_001),
        ("interval 0 seconds", 0),
    ],
)
def test_intervals_have_a_length(text: str, milliseconds: int) -> None:
    assert interval_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "interval", "interval 1", "interval 1 month", "1 year", "interval x days", "7 dayz"]
)
def test_an_interval_without_a_length_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not an interval"):
        interval_ms(text)


@pytest.mark.requirement("R75")
def test_properties_have_the_defaults_of_delta() -> None:
    metadata = metadata_of()
    assert checkpoint_interval(metadata) == 10
    assert checkpoint_policy(metadata) == "classic"
    assert column_mapping_mode(metadata) == "none"
    assert log_retention_ms(metadata) == 30 * DAY_MS
    assert deleted_file_retention_ms(metadata) == 7 * DAY_MS
    assert transaction_retention_ms(metadata) is None
    assert max_column_id(metadata) is None
    on = (expired_log_cleanup, write_stats_as_json, write_stats_as_struct)
    off = (append_only, change_data_feed, deletion_vectors, in_commit_timestamps)
    assert all(getter(metadata) for getter in on)
    assert not any(getter(metadata) for getter in off)


@pytest.mark.requirement("R75")
def test_properties_take_effect() -> None:
    assert checkpoint_interval(with_property("delta.checkpointInterval", "3")) == 3
    assert checkpoint_policy(with_property("delta.checkpointPolicy", "V2")) == "v2"
    assert log_retention_ms(with_property("delta.logRetentionDuration", "interval 2 days")) == 2 * DAY_MS
    assert transaction_retention_ms(with_property("delta.setTransactionRetentionDuration", "1 hour")) == 3_600_000
    assert max_column_id(with_property("delta.columnMapping.maxColumnId", "7")) == 7
    assert append_only(with_property("delta.appendOnly", "True"))
    assert not expired_log_cleanup(with_property("delta.enableExpiredLogCleanup", "false"))


def test_a_value_that_nobody_can_read_is_named_when_it_is_needed() -> None:
    with pytest.raises(InvalidInput, match=r"delta\.checkpointInterval"):
        checkpoint_interval(with_property("delta.checkpointInterval", "every ten"))
