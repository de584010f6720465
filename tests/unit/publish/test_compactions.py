"""Compactions: which versions they have, what they hold, and that none replaces another."""

from pathlib import Path
from uuid import uuid4

import pytest

from deltamirror.config import StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.publish.compactions import MOST_BYTES, compacted_lines, full_ranges, put_compaction
from deltamirror.storage.open import store_at

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "maintenance.md"


@pytest.mark.parametrize(
    ("after", "upto", "expected"),
    [
        (-1, 8, []),
        (-1, 9, [(0, 9)]),
        (-1, 30, [(0, 9), (10, 19), (20, 29)]),
        (0, 19, [(10, 19)]),
        (9, 19, [(10, 19)]),
        (10, 19, []),
        (10, 29, [(20, 29)]),
        (40, 19, []),
    ],
)
def test_a_range_begins_at_a_multiple_of_its_length(after: int, upto: int, expected: list[tuple[int, int]]) -> None:
    found = list(full_ranges(after=after, upto=upto, length=10))
    assert [(each[0], each[-1]) for each in found] == expected


def test_lines_stay_as_they_are_and_the_last_one_of_a_file_remains() -> None:
    first = b'{"add": {"path":"a%20b","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,"new":[1]}}'
    vector = b'"deletionVector":{"storageType":"u","pathOrInlineDv":"x","sizeInBytes":1,"cardinality":1}'
    second = b'{"add":{"path":"c","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,%b}}' % vector
    gone = b'{"remove":{"path":"c","deletionTimestamp":5,"dataChange":true}}'
    info = b'{"commitInfo":{"timestamp":1}}'
    change = b'{"cdc":{"path":"d","partitionValues":{},"size":1,"dataChange":false}}'
    again = b'{"remove":{"path":"a%20b","deletionTimestamp":9,"dataChange":false}}'
    assert compacted_lines([info + b"\n" + first + b"\n", b"\n".join([info, second, gone, change])]) == b"".join(
        each + b"\n" for each in (first, second, gone)
    )
    assert compacted_lines([first, second, again + b"\r\n\n"]) == second + b"\n" + again + b"\n"


def test_the_last_protocol_metadata_and_domain_remain_and_so_does_the_removal_of_a_domain() -> None:
    protocols = [b'{"protocol":{"minReaderVersion":1,"minWriterVersion":%d}}' % version for version in (2, 4)]
    metadata = [
        b'{"metaData":{"id":"%b","format":{"provider":"parquet","options":{}},"schemaString":"{}",'
        b'"partitionColumns":[],"configuration":{}}}' % each
        for each in (b"a", b"b")
    ]
    set_twice = [b'{"domainMetadata":{"domain":"a","configuration":"%d","removed":false}}' % at for at in (1, 2)]
    ended = b'{"domainMetadata":{"domain":"b","configuration":"","removed":true}}'
    first = [protocols[0], metadata[0], set_twice[0], ended]
    last = [protocols[1], metadata[1], set_twice[1]]
    expected = b"\n".join([ended, *last, b""])
    assert compacted_lines([b"\n".join(first), b"\n".join(last)]) == expected


def test_the_guide_tells_how_many_bytes_of_commits_are_compacted() -> None:
    mebibytes, rest = divmod(MOST_BYTES, 1024 * 1024)
    assert rest == 0
    assert f"More than {mebibytes} MiB of commits are left as they are." in GUIDE.read_text()


def test_a_compaction_that_is_there_stays() -> None:
    store = store_at(f"memory://{uuid4()}/t", StorageSettings())
    commits = [b'{"txn":{"appId":"a","version":%d}}' % number for number in range(3)]
    key = f"{LOG_DIRECTORY}/{3:020}.{5:020}.compacted.json"
    assert put_compaction(store, range(3, 6), commits) == len(commits[2]) + 1
    found = store.read(key)
    assert found is not None
    assert found.data == commits[2] + b"\n"
    assert put_compaction(store, range(3, 6), [b'{"txn":{"appId":"b","version":1}}']) == 0
    assert store.read(key) == found
