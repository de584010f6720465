"""Parameters and metrics of every operation that we author, member by member, as the reference writer words them."""

from collections.abc import Mapping

import msgspec
import pytest

from deltamirror.delta import commitinfo
from deltamirror.delta.actions import Add, DeletionVector, Protocol, Remove
from deltamirror.delta.columnchanges import PlacedColumn
from deltamirror.delta.commitinfo import RewriteMetrics, WriteMetrics
from deltamirror.delta.schema import Field, Primitive
from deltamirror.delta.schema.clauses import Position

pytestmark = [pytest.mark.requirement("R5"), pytest.mark.requirement("R6")]

VECTOR = DeletionVector(storage_type="i", path_or_inline_dv="x", size_in_bytes=1, cardinality=1)


def add(size: int, *, vector: DeletionVector | None = None, stats: str | None = None) -> Add:
    return Add(
        path="a",
        partition_values={},
        size=size,
        modification_time=0,
        data_change=True,
        deletion_vector=vector,
        stats=stats,
    )


def remove(size: int | None, *, vector: DeletionVector | None = None) -> Remove:
    return Remove(path="a", data_change=True, size=size, deletion_vector=vector)


def column(name: str, *, position: Position | None = None, **metadata: str) -> PlacedColumn:
    return PlacedColumn(("s", name), Field(name, Primitive("string"), metadata=dict(metadata)), position)


REWRITE = RewriteMetrics(
    added=[add(5), add(6)],
    removed=[remove(40), remove(None, vector=VECTOR), remove(3, vector=VECTOR)],
    change_files=7,
    scan_ms=100,
    rewrite_ms=20,
)
PLAIN = r'{"name":"s.c","type":"string","nullable":true,"metadata":{}}'


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        (commitinfo.predicate_parameters("id = 1"), {"predicate": '["id = 1"]'}),
        (commitinfo.predicate_parameters(None), {"predicate": "[]"}),
        (commitinfo.predicate_parameters(None, otherwise=["true"]), {"predicate": '["true"]'}),
        (
            commitinfo.merge_parameters(
                "t.id = s.id",
                matched=[("update", "s.x > 1"), ("delete", None)],
                not_matched=[("insert", None)],
                not_matched_by_source=[("delete", "t.y = 2")],
            ),
            {
                "predicate": '["t.id = s.id"]',
                "matchedPredicates": '[{"predicate":"s.x > 1","actionType":"update"},{"actionType":"delete"}]',
                "notMatchedPredicates": '[{"actionType":"insert"}]',
                "notMatchedBySourcePredicates": '[{"predicate":"t.y = 2","actionType":"delete"}]',
            },
        ),
        (commitinfo.change_column_parameters(column("c")), {"column": PLAIN}),
        (
            commitinfo.change_column_parameters(column("c", position=Position(after="b"))),
            {"column": PLAIN, "position": "AFTER b"},
        ),
        (
            commitinfo.change_columns_parameters([column("c"), column("c", position=Position())]),
            {"columns": f'[{PLAIN},{PLAIN[:-1]},"position":"FIRST"}}]'},
        ),
        (
            commitinfo.add_columns_parameters([column("c", position=Position())]),
            {"columns": f'[{{"column":{PLAIN},"position":"FIRST"}}]'},
        ),
        (
            commitinfo.add_columns_parameters([column("c", __CHAR_VARCHAR_TYPE_STRING="varchar(3)", comment="x")]),
            {
                "columns": '[{"column":{"name":"s.c","type":"varchar(3)","nullable":true,"metadata":{"comment":"x"}}}]',
            },
        ),
        (
            commitinfo.rename_column_parameters(("s", "a.b"), ("s", "c")),
            {"oldColumnPath": "s.`a.b`", "newColumnPath": "s.c"},
        ),
        (commitinfo.drop_columns_parameters([("s", "c"), ("d",)]), {"columns": '["s.c","d"]'}),
        (commitinfo.unset_properties_parameters(["a"], if_exists=False), {"properties": '["a"]', "ifExists": False}),
        (
            commitinfo.upgrade_protocol_parameters(
                Protocol(min_reader_version=1, min_writer_version=7, writer_features=["rowTracking", "invariants"])
            ),
            {
                "newProtocol": '{"minReaderVersion":1,"minWriterVersion":7,"readerFeatures":null,'
                '"writerFeatures":["rowTracking","invariants"]}'
            },
        ),
        (commitinfo.drop_feature_parameters("f"), {"featureName": "f", "truncateHistory": False}),
        (
            commitinfo.vacuum_start_parameters(True, default=604800000, specified=None),
            {"retentionCheckEnabled": True, "defaultRetentionMillis": 604800000},
        ),
        (
            commitinfo.vacuum_start_parameters(False, default=604800000, specified=0),
            {"retentionCheckEnabled": False, "defaultRetentionMillis": 604800000, "specifiedRetentionMillis": 0},
        ),
        (commitinfo.vacuum_end_parameters(is_complete=True), {"status": "COMPLETED"}),
        (commitinfo.vacuum_end_parameters(is_complete=False), {"status": "FAILED"}),
        (commitinfo.restore_parameters(3, None), {"version": 3, "timestamp": None}),
        (commitinfo.restore_parameters(None, "2026-01-01"), {"version": None, "timestamp": "2026-01-01"}),
        (
            commitinfo.optimize_parameters(None),
            {"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": False},
        ),
        (
            commitinfo.optimize_parameters("p = 0", zorder_by=["a"]),
            {"predicate": '["p = 0"]', "zOrderBy": '["a"]', "clusterBy": "[]", "auto": False},
        ),
        (
            commitinfo.optimize_parameters(None, cluster_by=["a", "b"]),
            {"clusterBy": '["a","b"]', "predicate": "[]", "auto": False, "isFull": False, "zOrderBy": "[]"},
        ),
    ],
)
def test_members_and_their_order_are_the_reference_writers(
    parameters: Mapping[str, object], wanted: Mapping[str, object]
) -> None:
    assert msgspec.json.encode(parameters) == msgspec.json.encode(wanted)


def test_a_restore_counts_files_and_bytes_of_both_directions() -> None:
    assert commitinfo.restore_metrics([add(1), add(2)], [add(4)], num_files=9, num_bytes=90) == {
        "tableSizeAfterRestore": "90",
        "numOfFilesAfterRestore": "9",
        "numRemovedFiles": "1",
        "numRestoredFiles": "2",
        "removedFilesSize": "4",
        "restoredFilesSize": "3",
    }


def test_an_optimize_has_the_quartiles_of_the_sizes_that_it_wrote() -> None:
    sizes = [80, 10, 70, 20, 60, 30, 50, 40]
    assert commitinfo.optimize_metrics([add(size) for size in sizes], [add(1, vector=VECTOR), add(2), add(4)]) == {
        "numRemovedFiles": "3",
        "numRemovedBytes": "7",
        "numAddedFiles": "8",
        "numAddedBytes": "360",
        "numDeletionVectorsRemoved": "1",
        "minFileSize": "10",
        "p25FileSize": "30",
        "p50FileSize": "50",
        "p75FileSize": "70",
        "maxFileSize": "80",
    }


def test_an_optimize_that_writes_no_file_has_sizes_of_zero() -> None:
    metrics = commitinfo.optimize_metrics([], [add(1)])
    assert {metrics[f"{name}FileSize"] for name in ("min", "p25", "p50", "p75", "max")} == {"0"}


def test_a_delete_counts_the_files_that_it_rewrote() -> None:
    assert list(commitinfo.delete_metrics(REWRITE, copied=8, deleted=9).items()) == [
        ("numRemovedFiles", "3"),
        ("numRemovedBytes", "43"),
        ("numCopiedRows", "8"),
        ("numDeletionVectorsAdded", "0"),
        ("executionTimeMs", "120"),
        ("numDeletionVectorsUpdated", "0"),
        ("numAddedFiles", "2"),
        ("numDeletionVectorsRemoved", "2"),
        ("numAddedChangeFiles", "7"),
        ("numDeletedRows", "9"),
        ("scanTimeMs", "100"),
        ("numAddedBytes", "11"),
        ("rewriteTimeMs", "20"),
    ]
    assert "numDeletedRows" not in commitinfo.delete_metrics(REWRITE, copied=8, deleted=None)


def test_an_update_counts_its_rows() -> None:
    metrics = commitinfo.update_metrics(REWRITE, copied=8, updated=9)
    assert (metrics["numCopiedRows"], metrics["numUpdatedRows"]) == ("8", "9")
    assert metrics.keys() == commitinfo.delete_metrics(REWRITE, copied=8, deleted=9).keys() - {"numDeletedRows"} | {
        "numUpdatedRows"
    }


def test_a_merge_counts_rows_by_what_became_of_them() -> None:
    metrics = commitinfo.merge_metrics(
        REWRITE, source_rows=1000, copied=500, inserted=4, matched=(10, 200), by_source=(3000, 60000)
    )
    assert metrics == {
        "numSourceRows": "1000",
        "numTargetRowsInserted": "4",
        "numTargetRowsUpdated": "3010",
        "numTargetRowsMatchedUpdated": "10",
        "numTargetRowsNotMatchedBySourceUpdated": "3000",
        "numTargetRowsDeleted": "60200",
        "numTargetRowsMatchedDeleted": "200",
        "numTargetRowsNotMatchedBySourceDeleted": "60000",
        "numTargetRowsCopied": "500",
        "numOutputRows": "3514",
        "numTargetFilesAdded": "2",
        "numTargetFilesRemoved": "3",
        "numTargetBytesAdded": "11",
        "numTargetBytesRemoved": "43",
        "numTargetChangeFilesAdded": "7",
        "numTargetDeletionVectorsAdded": "0",
        "numTargetDeletionVectorsUpdated": "0",
        "numTargetDeletionVectorsRemoved": "2",
        "executionTimeMs": "120",
        "materializeSourceTimeMs": "0",
        "scanTimeMs": "100",
        "rewriteTimeMs": "20",
    }


def test_a_rewrite_without_times_and_change_files_has_none() -> None:
    files = RewriteMetrics(added=[], removed=[]).files()
    assert set(files.values()) == {0}


def test_removes_of_an_optimize_keep_the_number_of_rows_alone() -> None:
    assert commitinfo.record_count('{"numRecords":2,"minValues":{"a":1}}') == '{"numRecords":2}'
    assert commitinfo.record_count('{"minValues":{"a":1}}') is None
    assert commitinfo.record_count(None) is None


def test_adds_that_are_counted_at_once_count_as_one_by_one() -> None:
    together, known = WriteMetrics(), WriteMetrics()
    known.see_files([5, 7], [2, 3])
    together.see_files([5, 7], [2, None])
    together.see_files([1], [4])
    assert known.texts() == {"numFiles": "2", "numOutputRows": "5", "numOutputBytes": "12"}
    assert together.texts() == {"numFiles": "3", "numOutputBytes": "13"}
