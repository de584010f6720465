"""The iteration order of Scala's mutable hash map. The expected orders and hashes were printed by a JVM."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta import hashorder
from deltamirror.delta.actions import Add, DomainMetadata, Remove, Txn
from deltamirror.delta.hashorder import (
    MutableHashMap,
    field_metadata,
    file_hash,
    live_domains,
    live_files,
    live_transactions,
)
from deltamirror.delta.order import java_hash
from deltamirror.delta.paths import path_identity

pytestmark = pytest.mark.requirement("R66")

ELEVEN = [
    "ingest",
    "orders",
    "clicks",
    "users-7",
    "flink/42",
    "étoile",
    "BB",
    "Aa",
    "z",
    "delta.clustering",
    "delta.rowTracking",
]


def filled(keys: list[str]) -> MutableHashMap[str, str]:
    found = MutableHashMap[str, str](java_hash)
    for key in keys:
        found.put(key, key)
    return found


def add(path: str) -> Add:
    return Add(path=path, partition_values={}, size=1, modification_time=1, data_change=True)


def test_eleven_keys_are_in_the_order_of_a_table_of_sixteen() -> None:
    expected = "BB Aa étoile delta.rowTracking flink/42 clicks users-7 orders z delta.clustering ingest"
    assert filled(ELEVEN).values() == expected.split()


def test_the_table_grows_even_if_the_key_is_there_already() -> None:
    expected = "BB Aa delta.rowTracking flink/42 users-7 delta.clustering ingest étoile clicks orders z"
    assert filled([*ELEVEN, "ingest"]).values() == expected.split()


def test_a_table_never_shrinks() -> None:
    found = filled([*ELEVEN, "ingest"])
    for key in ("orders", "clicks", "z", "never there"):
        found.remove(key)
    assert found.values() == [
        "BB",
        "Aa",
        "delta.rowTracking",
        "flink/42",
        "users-7",
        "delta.clustering",
        "ingest",
        "étoile",
    ]


@pytest.mark.parametrize("keys", [["Aa", "BB"], ["BB", "Aa"]])
def test_keys_of_equal_hash_keep_the_order_of_insertion(keys: list[str]) -> None:
    assert filled(keys).values() == keys
    assert filled([*keys, keys[0]]).values() == keys


@pytest.mark.parametrize(
    ("path", "vector", "expected"),
    [
        ("part-00000-a.parquet", None, 556730074),
        ("p=a%2fb/part-1.parquet", None, 2340036659),
        ("part-00000-a.parquet", "uab^-aqEH.-t@S}K{vb[*k^@1", 3772534052),
        ("s3://bucket/t/part-1.parquet", None, 1828527001),
    ],
)
def test_hash_of_a_file_is_that_of_the_reference_writer(path: str, vector: str | None, expected: int) -> None:
    assert file_hash((path_identity(path), vector)) == expected


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://bucket/a/b%20c.parquet", 526955960),
        ("file:/x/y.parquet", 3047282077),
        ("s3a://my_bucket/a", 4122638348),
        ("hdfs://node1.example.org:9000/a/b", 3839893773),
        ("abfss://c@acc.dfs.core.windows.net/p/q", 206050069),
        ("gs://b.1/x", 53650664),
        ("part-0%2fa.parquet", 3450544164),
    ],
)
def test_hash_of_a_uri_is_that_of_java(uri: str, expected: int) -> None:
    assert hashorder._uri_hash(path_identity(uri)) == expected


def test_a_removed_file_is_not_live_and_no_live_file_changes_data() -> None:
    gone = Remove(path="a%2Fb", data_change=True)
    found = live_files([add("a%2fb"), add("c")], [gone, add("d")])
    assert {each.path for each in found} == {"c", "d"}
    assert not any(each.data_change for each in found)


def test_the_newest_transaction_of_an_application_wins() -> None:
    before = [Txn(app_id="a", version=1), Txn(app_id="b", version=1)]
    assert set(live_transactions(before, [Txn(app_id="a", version=2)])) == {
        Txn(app_id="a", version=2),
        Txn(app_id="b", version=1),
    }


def test_a_removed_domain_is_not_live() -> None:
    before = [DomainMetadata(domain=name, configuration="{}", removed=False) for name in "ab"]
    after = live_domains(before, [DomainMetadata(domain="a", configuration="", removed=True)])
    assert [each.domain for each in after] == ["b"]


@pytest.mark.parametrize(
    "names",
    [
        ["delta.columnMapping.id", "comment", "delta.columnMapping.physicalName"],
        [f"delta.identity.{name}" for name in ("highWaterMark", "step", "allowExplicitInsert", "start")],
    ],
)
def test_metadata_of_a_column_is_in_the_order_in_which_the_reference_writer_has_it(names: list[str]) -> None:
    assert list(field_metadata({name: len(name) for name in sorted(names)}).items()) == [
        (name, len(name)) for name in names
    ]


@given(st.lists(st.text(max_size=4), max_size=60))
def test_order_is_a_permutation_of_the_distinct_keys(keys: list[str]) -> None:
    assert sorted(filled(keys).values()) == sorted(set(keys))
