"""Two states of tables compared: every kind of difference is found, counted, and told with both values."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deltamirror.delta.actions import Add, DeletionVector, DomainMetadata, Protocol, Txn
from deltamirror.deltalog.checkpoint.content import CheckpointState, replay
from deltamirror.deltalog.checkpoint.layout import FILES
from deltamirror.deltalog.checkpoint.reconciliation import by_ranges
from deltamirror.ops.diff import comparing
from deltamirror.ops.diff.comparing import ComparedDifference, compare
from tests.support.lakes.histories import odd_adds, odd_texts
from tests.support.logs.checkpoints import COMMITTED_AT, STORY, commit, file, first_commit

VECTOR = DeletionVector(storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", size_in_bytes=4, cardinality=2)
RANGES = {"at once": by_ranges, "by ranges": partial(by_ranges, in_memory=0)}


@pytest.fixture(scope="module", autouse=True, params=RANGES.values(), ids=list(RANGES))
def _ranges(request: pytest.FixtureRequest) -> Iterator[None]:
    """Many files are compared range by range; here, few of them are, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "by_ranges", request.param)
        yield


def state(*commits: bytes, first: bytes | None = None) -> CheckpointState:
    lines = [[data] for data in (first_commit() if first is None else first, *commits)]
    return replay(lines, version=len(lines) - 1, committed_at=COMMITTED_AT, base=None)


def of(*files: Add) -> CheckpointState:
    return state(commit(*files))


def story() -> CheckpointState:
    return state(*STORY)


def metadata_with(taken: CheckpointState, **fields: Any) -> CheckpointState:
    return replace(taken, metadata=msgspec.structs.replace(taken.metadata, **fields))


def assert_found(found: ComparedDifference, first: str, **counts: int) -> None:
    assert not found.equal
    assert found.first == first
    assert found.counts == counts


def test_a_state_equals_itself() -> None:
    assert compare(story(), story()) == ComparedDifference(examples={}, counts={})
    assert compare(story(), story()).equal


def test_two_tables_without_files_are_equal() -> None:
    assert compare(state(), state()).equal


def test_the_order_of_files_features_and_properties_does_not_count() -> None:
    features = {"reader_features": ["a", "b"], "writer_features": ["c", "d"]}
    turned = {name: values[::-1] for name, values in features.items()}
    protocol = Protocol(min_reader_version=3, min_writer_version=7, **features)
    one = replace(metadata_with(story(), configuration={"a": "1", "b": "2"}), protocol=protocol)
    other = replace(
        metadata_with(one, configuration={"b": "2", "a": "1"}),
        protocol=msgspec.structs.replace(protocol, **turned),
        transactions=one.transactions[::-1],
        files=one.files.take(list(range(one.files.num_rows))[::-1]),
    )
    assert compare(one, other).equal


def test_files_in_many_pieces_equal_those_in_one() -> None:
    whole = story()
    pieces = pa.concat_tables([whole.files.slice(place, 1) for place in range(whole.files.num_rows)])
    assert pieces.column("path").num_chunks > 1
    assert compare(whole, replace(whole, files=pieces)).equal


def test_neither_versions_nor_tombstones_count() -> None:
    one = story()
    assert one.removes.num_rows
    assert compare(one, replace(one, version=99, removes=one.removes.slice(0, 0))).equal


def test_columns_of_typed_statistics_do_not_count() -> None:
    one = story()
    typed = one.files.append_column("stats_parsed", pa.array(range(one.files.num_rows)))
    assert compare(replace(one, files=typed), one).equal


def test_a_protocol_that_differs() -> None:
    one = state()
    other = replace(one, protocol=Protocol(min_reader_version=3, min_writer_version=7, reader_features=["x"]))
    assert_found(compare(one, other), "protocol minReaderVersion is 1 in A and 3 in B", protocol=3)
    assert compare(replace(one, protocol=other.protocol), other).equal


def test_no_features_are_as_good_as_an_empty_list() -> None:
    one = replace(state(), protocol=Protocol(min_reader_version=1, min_writer_version=2))
    other = replace(one, protocol=Protocol(min_reader_version=1, min_writer_version=2, reader_features=[]))
    assert compare(one, other).equal


def test_metadata_that_differs_by_field_and_property() -> None:
    one = metadata_with(state(), name="orders", configuration={"delta.appendOnly": "true"})
    other = metadata_with(one, name=None, configuration={"delta.appendOnly": "false"})
    first = 'metaData configuration delta.appendOnly is "true" in A and "false" in B'
    assert_found(compare(one, other), first, metaData=2)
    assert compare(one, metadata_with(one, name=None)).first == 'metaData name is "orders" in A and absent in B'


def test_a_long_value_is_shown_where_it_differs() -> None:
    column = '{"name":"c%d","type":"long","nullable":true,"metadata":{}},'
    long = "".join(column % number for number in range(100))
    one = metadata_with(state(), schema_string=f"{long}one{long}")
    found = compare(one, metadata_with(one, schema_string=f"{long}other{long}"))
    assert found.first is not None
    assert len(found.first) < 600
    assert ",one{" in found.first
    assert ",other{" in found.first


def test_transactions_that_differ() -> None:
    one = replace(state(), transactions=(Txn(app_id="a", version=1), Txn(app_id="b", version=2)))
    other = replace(one, transactions=(Txn(app_id="b", version=3), Txn(app_id="c", version=4, last_updated=5)))
    assert_found(compare(one, other), 'txn a is {"appId":"a","version":1} in A and absent in B', txn=3)


def test_domains_that_differ() -> None:
    one = replace(state(), domains=(DomainMetadata(domain="d", configuration="1", removed=False),))
    other = replace(one, domains=(DomainMetadata(domain="d", configuration="2", removed=False),))
    assert_found(compare(one, other), 'domainMetadata d is "1" in A and "2" in B', domainMetadata=1)


def test_files_of_one_side_only() -> None:
    one, other = of(file("a"), file("b")), of(file("b"), file("c"), file("d"))
    assert_found(compare(one, other), "file day=1/a.parquet is in A and not in B", only_in_a=1, only_in_b=2)
    assert_found(compare(of(file("b")), one), "file day=1/a.parquet is in B and not in A", only_in_b=1)


def test_a_table_without_files_against_one_with_some() -> None:
    assert compare(state(), of(file("a"))).counts == {"only_in_b": 1}
    assert compare(of(file("a")), state()).counts == {"only_in_a": 1}


def test_a_deletion_vector_is_part_of_a_files_key() -> None:
    found = compare(of(file("a", deletion_vector=VECTOR)), of(file("a")))
    assert found.counts == {"only_in_a": 1, "only_in_b": 1}
    assert found.first is not None
    assert f"(deletion vector u{VECTOR.path_or_inline_dv}) is in A and not in B" in found.first


def test_spellings_of_one_path_are_one_file() -> None:
    one, other = (of(msgspec.structs.replace(file("a"), path=path)) for path in ("x%2fy", "x%2Fy"))
    assert compare(one, other).equal


@pytest.mark.parametrize(
    ("field", "wire", "one", "other", "told"),
    [
        ("partition_values", "partitionValues", {"day": "1"}, {"day": None}, '{"day":"1"} in A and {"day":null} in B'),
        ("size", "size", 1, 2, "1 in A and 2 in B"),
        ("modification_time", "modificationTime", 1, 2, "1 in A and 2 in B"),
        ("tags", "tags", {"k": "v"}, None, '{"k":"v"} in A and absent in B'),
        ("base_row_id", "baseRowId", None, 0, "absent in A and 0 in B"),
        ("default_row_commit_version", "defaultRowCommitVersion", 1, None, "1 in A and absent in B"),
        ("clustering_provider", "clusteringProvider", "", None, '"" in A and absent in B'),
        ("stats", "stats", '{"numRecords":1}', None, '"{\\"numRecords\\":1}" in A and absent in B'),
    ],
)
def test_files_that_differ_are_counted_by_field(field: str, wire: str, one: Any, other: Any, told: str) -> None:
    mine, theirs = (of(file("a", **{field: value}), file("b")) for value in (one, other))
    found = compare(mine, theirs)
    assert found.counts == {"differing": 1, f"differing.{wire}": 1}
    assert found.first is not None
    assert found.first.endswith(f"a.parquet: {wire} is {told}")


def test_every_field_of_a_file_is_compared_but_its_path_and_whether_it_changed_data() -> None:
    compared = {"partitionValues", "size", "modificationTime", "tags", "deletionVector", "baseRowId"}
    compared |= {"defaultRowCommitVersion", "clusteringProvider", "stats"}
    assert set(FILES.names) - compared == {"path", "dataChange"}


def test_the_cardinality_of_a_deletion_vector_counts() -> None:
    vectors = (VECTOR, msgspec.structs.replace(VECTOR, cardinality=3))
    found = compare(*(of(file("a", deletion_vector=vector)) for vector in vectors))
    assert found.counts == {"differing": 1, "differing.deletionVector": 1}


def test_a_file_that_differs_in_two_fields_is_one_file() -> None:
    one = of(file("a", size=1, stats=None), file("b", size=1))
    other = of(file("a", size=2, stats="{}"), file("b", size=2))
    assert compare(one, other).counts == {"differing": 2, "differing.size": 2, "differing.stats": 1}


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ('{"numRecords":1}', '{ "numRecords" : 1 }', True),
        ('{"a":1,"b":{"c":2.50}}', '{"b":{"c":2.5},"a":1}', True),
        ('{"a":0.12345678901234567890}', '{"a":0.12345678901234567891}', False),
        ("{", "{ ", False),
    ],
)
def test_statistics_are_compared_by_what_they_say(one: str, other: str, *, equal: bool) -> None:
    assert compare(of(file("a", stats=one)), of(file("a", stats=other))).equal is equal


def test_no_tags_are_as_good_as_an_empty_map() -> None:
    assert compare(of(file("a", tags={})), of(file("a", tags=None))).equal


CHANGES: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "partitionValues": ("partition_values", st.dictionaries(odd_texts, st.none() | odd_texts, max_size=3)),
    "size": ("size", st.integers(-(2**63), 2**63 - 1)),
    "modificationTime": ("modification_time", st.integers(0, 2**53)),
    "tags": ("tags", st.none() | st.dictionaries(odd_texts, odd_texts, max_size=3)),
    "baseRowId": ("base_row_id", st.none() | st.integers(0, 9)),
    "clusteringProvider": ("clustering_provider", st.none() | odd_texts),
}
unique_files = st.lists(odd_adds, min_size=1, max_size=6, unique_by=lambda each: each.path).map(
    lambda files: [msgspec.structs.replace(each, path=f"f{place}") for place, each in enumerate(files)]
)


@given(files=unique_files, data=st.data())
def test_one_changed_field_of_one_file_is_all_that_is_found(files: list[Add], data: st.DataObject) -> None:
    wire = data.draw(st.sampled_from(sorted(CHANGES)))
    name, values = CHANGES[wire]
    place, value = data.draw(st.integers(0, len(files) - 1)), data.draw(values)
    before = getattr(files[place], name)
    assume((value or None) != (before or None) if wire == "tags" else value != before)
    changed = [*files]
    changed[place] = msgspec.structs.replace(files[place], **{name: value})
    found = compare(of(*files), of(*data.draw(st.permutations(changed))))
    assert found.counts == {"differing": 1, f"differing.{wire}": 1}
    assert found.first is not None
    assert found.first.startswith(f"file f{place}")


@given(files=unique_files, data=st.data(), swap=st.booleans())
def test_files_that_are_missing_are_all_that_is_found(files: list[Add], data: st.DataObject, *, swap: bool) -> None:
    missing = data.draw(st.sets(st.integers(0, len(files) - 1)))
    fewer = [each for place, each in enumerate(files) if place not in missing]
    turn: Callable[[list[Any]], list[Any]] = (lambda pair: pair[::-1]) if swap else list
    found = compare(*turn([of(*files), of(*data.draw(st.permutations(fewer)))]))
    kind = "only_in_b" if swap else "only_in_a"
    assert found.counts == ({kind: len(missing)} if missing else {})
