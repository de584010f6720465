"""The commitInfo of authored commits, against what the reference writer logged."""

from collections.abc import Mapping

import pytest

from deltamirror.delta import commitinfo
from deltamirror.delta.actions import Action, Add, Protocol, Remove, Txn
from deltamirror.delta.columnchanges import PlacedColumn
from deltamirror.delta.commitinfo import commit_info, metrics_for
from deltamirror.delta.lines import encode
from deltamirror.delta.schema import Field, Primitive

pytestmark = [pytest.mark.requirement("R5"), pytest.mark.requirement("R6")]


def parameters_text(parameters: Mapping[str, object]) -> str:
    info = commit_info(
        operation="X",
        parameters=parameters,
        timestamp=1,
        in_commit_timestamp=None,
        read_version=None,
        isolation="Serializable",
        is_blind_append=True,
        metrics={},
        user_metadata=None,
        tags=None,
        engine_info="e",
        txn_id="t",
    )
    line = encode(info).decode()
    return line[line.index('"operationParameters":') + 22 : line.index(',"isolationLevel"')]


def add(size: int, stats: str | None) -> Add:
    return Add(path="a", partition_values={}, size=size, modification_time=0, data_change=True, stats=stats)


FIELD = PlacedColumn(("newc",), Field("newc", Primitive("integer"), metadata={"comment": "x"}), None)
FIELD_TEXT = r"{\"name\":\"newc\",\"type\":\"integer\",\"nullable\":true,\"metadata\":{\"comment\":\"x\"}}"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            commitinfo.create_table_parameters(
                partition_by=["part"],
                description="a/b é",
                properties={"delta.checkpointInterval": "3", "foo": "bar/é"},
            ),
            r'{"partitionBy":"[\"part\"]","clusterBy":"[]","description":"a/b é","isManaged":"false",'
            r'"properties":"{\"delta.checkpointInterval\":\"3\",\"foo\":\"bar/é\"}"}',
        ),
        (
            commitinfo.create_table_parameters(cluster_by=["id"]),
            r'{"partitionBy":"[]","clusterBy":"[\"id\"]","description":null,"isManaged":"false","properties":"{}"}',
        ),
        (commitinfo.write_parameters(), '{"mode":"Append","partitionBy":"[]"}'),
        (
            commitinfo.write_parameters("Overwrite", predicate="p=1"),
            '{"mode":"Overwrite","partitionBy":"[]","predicate":"p=1"}',
        ),
        (
            commitinfo.write_parameters("ErrorIfExists", partition_by=["p"]),
            r'{"mode":"ErrorIfExists","partitionBy":"[\"p\"]"}',
        ),
        (commitinfo.set_properties_parameters({"a": "1"}), r'{"properties":"{\"a\":\"1\"}"}'),
        (
            commitinfo.unset_properties_parameters(["delta.enableDeletionVectors"], if_exists=True),
            r'{"properties":"[\"delta.enableDeletionVectors\"]","ifExists":true}',
        ),
        (commitinfo.add_columns_parameters([FIELD]), r'{"columns":"[{\"column\":' + FIELD_TEXT + '}]"}'),
        (commitinfo.add_constraint_parameters("c1", "id >= 0"), '{"name":"c1","expr":"id >= 0"}'),
        (commitinfo.drop_constraint_parameters("c", "x > 0"), '{"name":"c","expr":"x > 0","existed":"true"}'),
        (commitinfo.drop_constraint_parameters("c", None), '{"name":"c","existed":"false"}'),
        (
            commitinfo.upgrade_protocol_parameters(Protocol(min_reader_version=1, min_writer_version=4)),
            r'{"newProtocol":"{\"minReaderVersion\":1,\"minWriterVersion\":4,'
            r'\"readerFeatures\":null,\"writerFeatures\":null}"}',
        ),
        ({}, "{}"),
        ({"s": "\x1f", "n": None, "i": 1, "b": False}, r'{"s":"\u001F","n":null,"i":1,"b":false}'),
    ],
)
def test_parameters_have_the_reference_writers_words(parameters: Mapping[str, object], text: str) -> None:
    assert parameters_text(parameters) == text


def test_every_field_has_its_place() -> None:
    info = commit_info(
        operation="WRITE",
        parameters=commitinfo.write_parameters(),
        timestamp=2,
        in_commit_timestamp=3,
        read_version=0,
        isolation="WriteSerializable",
        is_blind_append=False,
        metrics=dict.fromkeys(
            ["numFiles", "numOutputRows", "numOutputBytes", "numRemovedFiles", "numRemovedBytes"], "1"
        ),
        user_metadata="hello",
        tags={"delta.rowTracking.preserved": "true"},
        engine_info="engine",
        txn_id="id",
    )
    assert encode(info).decode() == (
        '{"commitInfo":{"inCommitTimestamp":3,"timestamp":2,"operation":"WRITE",'
        '"operationParameters":{"mode":"Append","partitionBy":"[]"},"readVersion":0,'
        '"isolationLevel":"WriteSerializable","isBlindAppend":false,"operationMetrics":{"numFiles":"1",'
        '"numRemovedFiles":"1","numRemovedBytes":"1","numOutputRows":"1","numOutputBytes":"1"},"userMetadata":"hello",'
        '"tags":{"delta.rowTracking.preserved":"true"},"engineInfo":"engine","txnId":"id"}}'
    )


def test_a_write_counts_files_rows_and_bytes() -> None:
    actions: list[Action] = [
        add(5, '{"numRecords":2,"minValues":{}}'),
        add(7, '{"numRecords":3}'),
        Txn(app_id="a", version=1),
    ]
    assert list(metrics_for(actions).items()) == [("numFiles", "2"), ("numOutputRows", "5"), ("numOutputBytes", "12")]


def test_a_write_that_removes_counts_that_too_in_the_reference_writers_order() -> None:
    remove = Remove(path="b", data_change=True, size=9)
    assert list(metrics_for([add(5, '{"numRecords":2}'), remove]).items()) == [
        ("numFiles", "1"),
        ("numRemovedFiles", "1"),
        ("numRemovedBytes", "9"),
        ("numOutputRows", "2"),
        ("numOutputBytes", "5"),
    ]


@pytest.mark.parametrize("stats", [None, "", "{}", "no json", '{"numRecords":"2"}'])
def test_a_sum_that_is_not_known_is_not_claimed(stats: str | None) -> None:
    assert "numOutputRows" not in metrics_for([add(1, '{"numRecords":2}'), add(1, stats)])
    assert "numRemovedBytes" not in metrics_for([Remove(path="b", data_change=True)])


def test_a_commit_without_files_has_no_metrics() -> None:
    assert metrics_for([Txn(app_id="a", version=1)]) == {}
