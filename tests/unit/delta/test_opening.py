"""Properties that keep Delta Lake on Spark from opening a table: as it was tried out with Delta Lake 4.4."""

import pytest

from deltamirror.delta.actions import Format, Metadata, Protocol
from deltamirror.delta.validation.opening import barred_values

pytestmark = pytest.mark.requirement("R68")

OLD = Protocol(min_reader_version=1, min_writer_version=2)
FEATURES = Protocol(min_reader_version=1, min_writer_version=7, writer_features=["appendOnly"])
NO_VALUE = (
    ("delta.deletedFileRetentionDuration", ("garbage", "interval 1 month", "interval '1' day", "")),
    ("delta.setTransactionRetentionDuration", ("garbage",)),
    ("delta.dataSkippingNumIndexedCols", ("garbage", "99999999999")),
    ("delta.columnMapping.mode", ("garbage",)),
    ("delta.enableRowTracking", ("garbage",)),
)
NO_VALUE_WITH_FEATURES = (
    ("delta.checkpointPolicy", ("garbage", "V2")),
    *(
        (f"delta.{name}", ("yes", "x"))
        for name in (
            "appendOnly",
            "enableChangeDataFeed",
            "enableDeletionVectors",
            "enableTypeWidening",
            "enableInCommitTimestamps",
            "enableVariantShredding",
            "enableIcebergCompatV1",
            "enableIcebergCompatV2",
            "enableIcebergCompatV3",
            "enableMaterializePartitionColumnsFeature",
        )
    ),
)
OPENED = (
    ("delta.deletedFileRetentionDuration", ("7 days", "interval -1 days", "interval 1 weeks 1.5 seconds")),
    ("delta.deletedFileRetentionDuration", ("interval 10 microseconds",)),
    ("delta.dataSkippingNumIndexedCols", ("-2",)),
    ("delta.appendOnly", ("TRUE",)),
    ("delta.isolationLevel", ("WriteSerializable", "garbage")),
    ("delta.logRetentionDuration", ("interval 1 month", "garbage")),
    ("delta.checkpointInterval", ("0", "garbage")),
    ("delta.checkpoint.writeStatsAsJson", ("garbage",)),
    ("delta.targetFileSize", ("garbage",)),
    ("delta.unknown", ("garbage",)),
)


def barred(key: str, value: str, protocol: Protocol | None) -> list[str]:
    form = Format(provider="parquet", options={})
    metadata = Metadata(id="m", format=form, partition_columns=[], configuration={key: value})
    return [each.key for each in barred_values(metadata, protocol)]


def each_of(cases: tuple[tuple[str, tuple[str, ...]], ...]) -> list[tuple[str, str]]:
    return [(key, value) for key, values in cases for value in values]


@pytest.mark.parametrize(("key", "value"), each_of(NO_VALUE))
def test_some_properties_are_read_of_every_table(key: str, value: str) -> None:
    assert all(barred(key, value, protocol) == [key] for protocol in (None, OLD, FEATURES))


@pytest.mark.parametrize(("key", "value"), each_of(NO_VALUE_WITH_FEATURES))
def test_those_of_features_are_read_of_tables_with_features(key: str, value: str) -> None:
    assert barred(key, value, FEATURES) == [key]
    assert barred(key, value, OLD) == []


@pytest.mark.parametrize(("key", "value"), each_of(OPENED))
def test_other_values_keep_no_reader_out(key: str, value: str) -> None:
    assert barred(key, value, FEATURES) == []
