"""Version checksums: what they say, and when there is none."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from deltamirror.delta.actions import (
    Action,
    Add,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltamirror.delta.checksum import Checksum, checksum_of, decode, encode, first_checksum, next_checksum
from deltamirror.delta.replay import replay

pytestmark = pytest.mark.requirement("R15")

SCHEMA = '{"type":"struct","fields":[{"name":"k","type":"long","nullable":true,"metadata":{}}]}'
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
VECTORS = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=["deletionVectors"],
    writer_features=["deletionVectors"],
)
METADATA = Metadata(
    id="t",
    format=Format(provider="parquet", options={}),
    schema_string=SCHEMA,
    partition_columns=[],
    configuration={},
)


def with_properties(**properties: str) -> Metadata:
    return replace(METADATA, configuration={f"delta.{key}": value for key, value in properties.items()})


def info(operation: str | None = "WRITE", *, at: int | None = None) -> CommitInfo:
    return CommitInfo(operation=operation, in_commit_timestamp=at, txn_id="x")


def add(path: str, *, size: int = 10, rows: int | None = None) -> Add:
    return Add(
        path=path, partition_values={}, size=size, modification_time=1, data_change=True, deletion_vector=vector(rows)
    )


def remove(path: str, *, size: int | None = 10, rows: int | None = None, extended: bool = True) -> Remove:
    return Remove(path=path, data_change=True, extended_file_metadata=extended, size=size, deletion_vector=vector(rows))


def vector(rows: int | None) -> DeletionVector | None:
    if rows is None:
        return None
    return DeletionVector(storage_type="u", path_or_inline_dv=f"v{rows}", size_in_bytes=1, cardinality=rows)


def adds(count: int, prefix: str = "f") -> list[Add]:
    return [add(f"{prefix}{index}") for index in range(count)]


def chain(*commits: Sequence[Action], protocol: Protocol = PROTOCOL, metadata: Metadata = METADATA) -> Checksum:
    """The checksum after a table was created and these commits followed."""
    found = first_checksum([info("CREATE TABLE"), metadata, protocol])
    for actions in commits:
        assert found is not None
        found = next_checksum(found, [info(), *actions])
    assert found is not None
    return found


@pytest.mark.requirement("R66")
def test_the_bytes_are_one_line_in_order_of_the_reference_writer() -> None:
    checksum = chain([Txn(app_id="a", version=1), add("f")])
    bounds = ",".join(
        map(str, checksum.file_size_histogram.sorted_bin_boundaries if checksum.file_size_histogram else ())
    )
    zeros = ",0" * 94
    assert encode(checksum).decode() == (
        '{"txnId":"x","tableSizeBytes":10,"numFiles":1,"numMetadata":1,"numProtocol":1,'
        '"setTransactions":[{"appId":"a","version":1}],"domainMetadata":[],'
        '"metadata":{"id":"t","format":{"provider":"parquet","options":{}},'
        '"schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":[{\\"name\\":\\"k\\",\\"type\\":\\"long\\",'
        '\\"nullable\\":true,\\"metadata\\":{}}]}","partitionColumns":[],"configuration":{}},'
        '"protocol":{"minReaderVersion":1,"minWriterVersion":2},'
        f'"fileSizeHistogram":{{"sortedBinBoundaries":[{bounds}],"fileCounts":[1{zeros}],"totalBytes":[10{zeros}]}},'
        '"allFiles":[{"path":"f","partitionValues":{},"size":10,"modificationTime":1,"dataChange":false}]}\n'
    )


@pytest.mark.requirement("R66")
def test_facts_of_features_have_the_names_of_the_reference_writer() -> None:
    properties = {"enableDeletionVectors": "true", "enableInCommitTimestamps": "true"}
    first = first_checksum([info("CREATE TABLE", at=5), with_properties(**properties), VECTORS, add("f", rows=3)])
    assert first is not None
    text = encode(first).decode()
    assert text.startswith(
        '{"txnId":"x","tableSizeBytes":10,"numFiles":1,"numDeletedRecordsOpt":3,"numDeletionVectorsOpt":1,'
        '"numMetadata":1,"numProtocol":1,"inCommitTimestampOpt":5,"setTransactions":[],"domainMetadata":[],'
    )
    assert '"deletedRecordCountsHistogramOpt":{"deletedRecordCounts":[0,1,0,0,0,0,0,0,0,0]},"allFiles":' in text


def test_a_checksum_survives_its_bytes() -> None:
    checksum = chain([add("f", rows=3)], protocol=VECTORS, metadata=with_properties(enableDeletionVectors="true"))
    assert decode(encode(checksum)) == checksum


def test_the_earlier_name_of_the_histogram_is_understood() -> None:
    checksum = chain([add("f")])
    assert decode(encode(checksum).replace(b'"fileSizeHistogram"', b'"histogramOpt"')) == checksum


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b"{", b"[" * 100_000])
def test_what_is_no_checksum_is_none(data: bytes) -> None:
    assert decode(data) is None


def test_a_checksum_that_counts_two_protocols_is_none() -> None:
    assert decode(encode(chain()).replace(b'"numProtocol":1', b'"numProtocol":2')) is None


def test_sizes_and_counts_follow_adds_and_removes() -> None:
    found = chain([add("a", size=10), add("b", size=9000)], [remove("a")])
    assert (found.table_size_bytes, found.num_files) == (9000, 1)
    assert found.file_size_histogram is not None
    assert (sum(found.file_size_histogram.file_counts), sum(found.file_size_histogram.total_bytes)) == (1, 9000)


def test_an_empty_file_goes_as_it_came() -> None:
    found = chain([add("a", size=0), add("b")], [remove("a", size=0)])
    assert (found.table_size_bytes, found.num_files) == (10, 1)


@pytest.mark.parametrize(
    "commit",
    [
        pytest.param([info(), remove("a", size=None)], id="remove without size"),
        pytest.param([info(), remove("a", extended=False)], id="remove without extended metadata"),
        pytest.param([info("RESTORE")], id="RESTORE"),
        pytest.param([info("CONVERT")], id="CONVERT"),
        pytest.param([info("CLONE")], id="CLONE"),
        pytest.param([info(None)], id="unknown operation"),
        pytest.param([add("b")], id="no commitInfo"),
        pytest.param([info(), add("a")], id="a live file is added again"),
        pytest.param([info("Manual Update"), add("a")], id="a live file is added again by hand"),
        pytest.param([info(), remove("b")], id="a file is removed that is not live"),
        pytest.param([info(), remove("a", size=11)], id="a file is removed with another size"),
        pytest.param([info(), with_properties(enableInCommitTimestamps="true")], id="no in-commit timestamp"),
    ],
)
def test_there_is_no_checksum_where_an_input_is_not_certain(commit: list[Action]) -> None:
    assert next_checksum(chain([add("a")]), commit) is None


def test_there_is_no_first_checksum_without_metadata_and_protocol() -> None:
    assert first_checksum([info(), PROTOCOL]) is None
    assert first_checksum([info(), METADATA]) is None


@pytest.mark.parametrize(
    "operation", ["COMPUTE STATS", "ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL", "DROP FEATURE"]
)
def test_files_that_are_added_again_are_not_counted_again(operation: str) -> None:
    again = replace(add("a"), base_row_id=7)
    found = next_checksum(chain([add("a")]), [info(operation), again])
    assert found is not None
    assert (found.num_files, found.table_size_bytes) == (1, 10)
    assert found.all_files == (replace(again, data_change=False),)


def test_tombstones_of_deletion_vectors_are_not_files() -> None:
    tombstone = remove("deletion_vector_x.bin", size=None, extended=False)
    found = next_checksum(chain([add("a")]), [info("Deletion Vector Tombstones"), tombstone])
    assert found is not None
    assert found.num_files == 1


def test_in_commit_timestamps_are_those_of_the_commit() -> None:
    metadata = with_properties(enableInCommitTimestamps="true")
    found = next_checksum(chain(), [info(at=5), metadata])
    assert found is not None
    assert found.in_commit_timestamp == 5
    without = next_checksum(found, [info(at=6), METADATA])
    assert without is not None
    assert without.in_commit_timestamp is None


def test_an_update_of_a_vector_counts_its_rows_once() -> None:
    metadata = with_properties(enableDeletionVectors="true")
    found = chain([add("a")], [add("a", rows=3), remove("a")], protocol=VECTORS, metadata=metadata)
    assert (found.num_files, found.num_deleted_records, found.num_deletion_vectors) == (1, 3, 1)
    assert found.deleted_record_counts is not None
    assert found.deleted_record_counts.deleted_record_counts == (0, 1, *[0] * 8)


def test_vectors_are_counted_from_the_commit_after_the_one_that_allows_them() -> None:
    allowed = chain([add("a")], [VECTORS, with_properties(enableDeletionVectors="true")])
    assert allowed.num_deletion_vectors is None
    found = next_checksum(allowed, [info(), add("b", rows=2)])
    assert found is not None
    assert (found.num_deletion_vectors, found.num_deleted_records) == (1, 2)


def test_vectors_of_a_table_whose_files_are_not_listed_are_counted_on() -> None:
    metadata = with_properties(enableDeletionVectors="true")
    found = chain(adds(51), [add("v", rows=3)], protocol=VECTORS, metadata=metadata)
    assert (found.all_files, found.num_deletion_vectors, found.num_deleted_records) == (None, 1, 3)


@pytest.mark.parametrize(
    ("protocol", "metadata"), [(VECTORS, METADATA), (PROTOCOL, with_properties(enableDeletionVectors="true"))]
)
def test_vectors_are_not_counted_where_none_may_be_written(protocol: Protocol, metadata: Metadata) -> None:
    state = replay([[metadata, protocol], [add("a")]])
    assert checksum_of(state).num_deletion_vectors is None


def test_vectors_stay_counted_until_the_feature_is_dropped() -> None:
    metadata = with_properties(enableDeletionVectors="true")
    disallowed = chain([add("a", rows=2)], [METADATA], protocol=VECTORS, metadata=metadata)
    assert disallowed.num_deletion_vectors == 1
    dropped = next_checksum(disallowed, [info("DROP FEATURE"), PROTOCOL])
    assert dropped is not None
    assert (dropped.num_deletion_vectors, dropped.deleted_record_counts) == (None, None)


def test_up_to_fifty_files_are_listed() -> None:
    assert len(chain(adds(50)).all_files or ()) == 50
    assert chain(adds(51)).all_files is None
    assert chain(adds(51), [remove("f0")]).all_files is None


def test_files_are_listed_again_when_they_are_few_and_known() -> None:
    many = chain(adds(51), [remove("f0")])
    before = adds(51)[1:]
    found = next_checksum(many, [info(), remove("f1")], files=lambda: before)
    assert found is not None
    assert {each.path for each in found.all_files or ()} == {each.path for each in before[1:]}
    unknown = next_checksum(many, [info(), remove("f1")])
    assert unknown is not None
    assert unknown.all_files is None


def test_a_change_of_schema_leaves_files_out_unless_there_are_none() -> None:
    wider = replace(METADATA, schema_string=SCHEMA.replace('"long"', '"string"'))
    assert chain([add("a")], [wider]).all_files is None
    assert chain([wider]).all_files == ()


def test_a_schema_that_is_only_spelled_differently_is_no_change() -> None:
    respelled = replace(METADATA, schema_string=SCHEMA.replace(",", ", "))
    assert len(chain([add("a")], [respelled]).all_files or ()) == 1


@pytest.mark.parametrize(
    "properties",
    [
        {"dataSkippingNumIndexedCols": "33"},
        {"dataSkippingNumIndexedCols": "many"},
        {"checkpoint.writeStatsAsJson": "false", "checkpoint.writeStatsAsStruct": "false"},
    ],
)
def test_files_without_common_statistics_are_not_listed(properties: dict[str, str]) -> None:
    assert chain([add("a")], metadata=with_properties(**properties)).all_files is None


@pytest.mark.parametrize(
    "properties",
    [
        {"dataSkippingNumIndexedCols": "-1"},
        {"dataSkippingNumIndexedCols": "32"},
        {"checkpoint.writeStatsAsJson": "false", "checkpoint.writeStatsAsStruct": "true"},
        {"checkpoint.writeStatsAsJson": "true", "checkpoint.writeStatsAsStruct": "false"},
    ],
)
def test_files_with_common_statistics_are_listed(properties: dict[str, str]) -> None:
    metadata = with_properties(**properties)
    found = chain([add("a")], metadata=metadata)
    assert len(found.all_files or ()) == 1
    assert checksum_of(replay([[metadata, PROTOCOL], [add("a")]])).all_files == found.all_files


def test_files_of_the_first_version_are_listed_whatever_its_properties_say() -> None:
    metadata = with_properties(dataSkippingNumIndexedCols="33")
    found = first_checksum([info("CREATE TABLE AS SELECT"), metadata, PROTOCOL, add("a")])
    assert found is not None
    assert [each.path for each in found.all_files or ()] == ["a"]
    assert found.metadata == metadata


def test_a_table_without_a_schema_lists_its_files_until_it_has_one() -> None:
    unknown = replace(METADATA, schema_string=None)
    assert len(chain([add("a")], [unknown], metadata=unknown).all_files or ()) == 1
    assert chain([add("a")], [METADATA], metadata=unknown).all_files is None
    assert chain([add("a")], [unknown]).all_files is None


def test_files_whose_paths_spark_would_respell_are_not_listed() -> None:
    for path in ("/abs/f", "a//f", "./f", "a/../f", "a?f", "a#f"):
        assert chain([add(path)]).all_files is None
    assert chain([add("s3://bucket/a/f")]).all_files is not None


def test_a_manual_update_has_totals_but_no_list() -> None:
    found = next_checksum(chain([add("a")]), [info("Manual Update"), add("b")])
    assert found is not None
    assert (found.num_files, found.all_files) == (2, None)


def test_transactions_are_listed_while_they_are_few_and_do_not_expire() -> None:
    txns = [Txn(app_id=f"a{index}", version=1) for index in range(101)]
    assert len(chain(txns[:100]).set_transactions or ()) == 100
    assert chain(txns).set_transactions is None
    assert chain(txns[:100], txns[100:]).set_transactions is None
    expiring = with_properties(setTransactionRetentionDuration="interval 1 day")
    assert chain(txns[:1], [expiring]).set_transactions is None
    assert chain(txns[:1], [expiring], [METADATA]).set_transactions is None


def test_domains_are_listed_while_they_are_few() -> None:
    domains = [DomainMetadata(domain=f"d{index}", configuration="", removed=False) for index in range(11)]
    assert len(chain(domains[:10]).domain_metadata or ()) == 10
    assert chain(domains).domain_metadata is None
    assert chain(domains[:1], [replace(domains[0], removed=True)]).domain_metadata == ()


def test_the_checksum_of_a_state_continues_like_that_of_its_commits() -> None:
    metadata = with_properties(enableDeletionVectors="true")
    commits: list[list[Action]] = [
        [info(), metadata, VECTORS],
        [info(), *adds(20, "g"), Txn(app_id="a", version=1)],
        [info(), remove("g3")],
    ]
    found = first_checksum(commits[0])
    for actions in commits[1:]:
        assert found is not None
        found = next_checksum(found, actions)
    assert checksum_of(replay(commits), info=info()) == found


def test_the_checksum_of_a_state_has_the_timestamp_of_its_commit() -> None:
    state = replay([[with_properties(enableInCommitTimestamps="true"), PROTOCOL]])
    assert checksum_of(state, info=info(at=7)).in_commit_timestamp == 7
    assert checksum_of(state).in_commit_timestamp is None
    assert checksum_of(replay([[METADATA, PROTOCOL]]), info=info(at=7)).in_commit_timestamp is None


def test_the_checksum_of_a_state_lists_up_to_fifty_files_with_statistics() -> None:
    assert len(checksum_of(replay([[METADATA, PROTOCOL], adds(50)])).all_files or ()) == 50
    assert checksum_of(replay([[METADATA, PROTOCOL], adds(51)])).all_files is None
    without = with_properties(dataSkippingNumIndexedCols="33")
    assert checksum_of(replay([[without, PROTOCOL], adds(1)])).all_files is None
