"""A chain of checksums begins where it is certain, and goes on as long as it is."""

import copy
import json
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from msgspec.structs import replace

from deltamirror.config import StorageSettings
from deltamirror.delta.actions import Action, Add, CommitInfo, DomainMetadata, Format, Metadata, Protocol, Remove, Txn
from deltamirror.delta.checksum import Checksum, checksum_from_totals, decode, encode
from deltamirror.delta.lines import encode_commit
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.errors import Internal, LeaseLost, Transient, Unavailable
from deltamirror.publish.checksums import ChecksumChain, ChecksumTrail, is_true, stated_facts, write_checksum
from deltamirror.storage import files
from deltamirror.storage.disk import DiskStore
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Exists, Store
from deltamirror.work import Stage
from tests.support.logs.commit_units import commit_key, held, unit_of, watched, work_of

pytestmark = pytest.mark.requirement("R15")

KEY = commit_key(0, "crc")
INFO = CommitInfo(operation="WRITE", txn_id="x")
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
METADATA = Metadata(
    id="t",
    format=Format(provider="parquet", options={}),
    schema_string='{"type":"struct","fields":[]}',
    partition_columns=[],
    configuration={},
)
WIDER = replace(METADATA, schema_string='{"type":"struct","fields":[{"name":"a"}]}')


def add(number: int) -> Add:
    return Add(path=f"f{number}", partition_values={}, size=10, modification_time=1, data_change=True)


def begun(*actions: Action) -> tuple[ChecksumChain, Checksum]:
    chain = ChecksumChain(None)
    first = chain.after(0, [INFO, METADATA, PROTOCOL, *actions])
    assert first is not None
    return chain, first


@pytest.fixture
def store() -> Store:
    return store_at(f"memory://{uuid4()}/t", StorageSettings())


def test_a_chain_begins_at_version_0_or_after_a_checksum() -> None:
    _, first = begun()
    foundation: list[Action] = [INFO, METADATA, PROTOCOL]
    assert ChecksumChain(None).after(1, foundation) is None
    assert ChecksumChain(None).following(work_of(1, encode_commit(foundation)), encode_commit(foundation)) is None
    second = ChecksumChain(first).after(7, [INFO, add(1)])
    assert second is not None
    assert (second.num_files, second.table_size_bytes) == (1, 10)


def test_a_chain_that_has_ended_does_not_begin_again() -> None:
    chain, _ = begun()
    assert chain.after(1, [add(1)]) is None
    assert chain.after(2, [INFO, add(2)]) is None


def test_a_chain_ends_where_the_catalog_counts_otherwise() -> None:
    chain, _ = begun(add(1))
    assert chain.after(1, [INFO, add(2)], num_files=2) is not None
    assert chain.after(2, [INFO, add(3)], num_files=2) is None
    assert chain.after(3, [INFO, add(4)]) is None


def test_files_that_one_checksum_does_not_list_are_listed_by_the_next() -> None:
    chain, _ = begun(*map(add, range(49)))
    unlisted = chain.after(1, [INFO, WIDER, add(49)])
    assert unlisted is not None
    assert unlisted.all_files is None
    listed = chain.after(2, [INFO, Remove(path="f0", data_change=True, extended_file_metadata=True, size=10)])
    assert listed is not None
    assert {each.path for each in listed.all_files or ()} == {f"f{number}" for number in range(1, 50)}


def test_an_error_of_any_kind_is_noted_with_its_place_and_stops_nothing(store: Store) -> None:
    data = encode_commit([INFO, METADATA, PROTOCOL])
    for error, kind in ((Unavailable("gone"), Unavailable), (ZeroDivisionError("what?"), Internal)):

        def fail(operation: str, key: str, error: Exception = error) -> None:
            raise error

        failing, _ = watched(store, before=fail)
        with ChecksumTrail(unit_of([work_of(0, data)]), failing, held) as trail:
            trail.follow(work_of(0, data), data)
        assert trail.failure is not None
        assert (type(trail.failure.error), trail.failure.stage) == (kind, Stage.CHECKSUM)
        assert (trail.failure.version, trail.failure.key, trail.lost_at) == (0, KEY, None)
    assert trail.failure is not None
    assert trail.failure.error.message == f"no {KEY} for table 'sales.t': ZeroDivisionError: what?"


def test_a_checksum_is_written_once_and_replaced_if_it_is_wrong(store: Store) -> None:
    _, first = begun(add(1))
    assert write_checksum(store, KEY, first, guard=held) is True
    assert write_checksum(store, KEY, first, guard=held) is False
    store.put(KEY, encode(replace(first, num_files=9)))
    assert write_checksum(store, KEY, first, guard=held) is True
    found = store.read(KEY)
    assert found is not None
    assert decode(found.data) == first


@pytest.mark.parametrize("synced", [True, False])
def test_the_name_of_a_checksum_is_synced_unless_a_unit_does_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: bool
) -> None:
    (tmp_path / LOG_DIRECTORY).mkdir()
    folders = list[Path]()
    monkeypatch.setattr(files, "sync_folder", folders.append)
    options = {} if synced else {"synced": False}
    assert write_checksum(DiskStore(tmp_path), KEY, begun(add(1))[1], guard=held, **options)
    assert len(folders) == synced


def test_nothing_is_written_or_replaced_without_the_lease(store: Store) -> None:
    _, first = begun()
    asked: list[int] = []

    def lost_at_last() -> None:
        asked.append(1)
        if len(asked) != 2:
            raise LeaseLost("another process has it")

    with pytest.raises(LeaseLost):
        write_checksum(store, KEY, first, guard=lost_at_last)
    assert store.read(KEY) is None
    store.put(KEY, b"theirs")
    with pytest.raises(LeaseLost):
        write_checksum(store, KEY, first, guard=lost_at_last)
    found = store.read(KEY)
    assert found is not None
    assert found.data == b"theirs"


def test_an_upload_that_came_to_nothing_is_tried_again(store: Store) -> None:
    _, first = begun()
    answers = {"create": iter([Exists()])}
    watching, calls = watched(store, before=lambda operation, key: next(answers.get(operation, iter(())), None))
    assert write_checksum(watching, KEY, first, guard=held) is True
    assert calls.of("create") == [KEY, KEY]


@pytest.mark.parametrize("schema", [None, "{"])
def test_metadata_is_compared_without_a_schema_too(schema: str | None) -> None:
    one = replace(METADATA, schema_string=schema)
    assert stated_facts(replace(FULL, metadata=one)) != stated_facts(replace(FULL, metadata=replace(one, id="u")))


def test_a_checksum_that_another_writer_always_changes_is_given_up_after_three_tries(store: Store) -> None:
    _, first = begun()
    tries: list[str] = []

    def change(operation: str, key: str) -> None:
        if operation == "replace":
            tries.append(key)
            store.put(KEY, b"%d" % len(tries))

    store.put(KEY, b"0")
    changing, _ = watched(store, before=change)
    with pytest.raises(Transient, match=f"^{KEY} keeps changing in memory://") as caught:
        write_checksum(changing, KEY, first, guard=held)
    assert tries == [KEY] * 3
    assert caught.value.hint == "another writer is at it; try again"


DOMAINS = tuple(DomainMetadata(domain=name, configuration="", removed=False) for name in "ab")
TRANSACTIONS = tuple(Txn(app_id=name, version=1) for name in "ab")
FULL = replace(
    begun(add(1), add(2))[1],
    num_deleted_records=1,
    num_deletion_vectors=2,
    in_commit_timestamp=3,
    set_transactions=TRANSACTIONS,
    domain_metadata=DOMAINS,
    protocol=replace(PROTOCOL, reader_features=["a", "b"], writer_features=["c", "d"]),
)
FILES = FULL.all_files or ()


@pytest.mark.parametrize(
    "other",
    [
        replace(FULL, txn_id="y"),
        replace(FULL, all_files=FILES[::-1]),
        replace(FULL, all_files=tuple(replace(each, tags={}) for each in FILES)),
        replace(FULL, set_transactions=TRANSACTIONS[::-1]),
        replace(FULL, domain_metadata=DOMAINS[::-1]),
        replace(FULL, protocol=replace(FULL.protocol, reader_features=["b", "a"], writer_features=["d", "c"])),
        replace(FULL, metadata=replace(METADATA, schema_string='{ "type":"struct", "fields":[] }')),
    ],
)
def test_facts_do_not_depend_on_spelling_and_order(other: Checksum) -> None:
    assert stated_facts(other) == stated_facts(FULL)


@pytest.mark.parametrize(
    ("other", "fact"),
    [
        (replace(FULL, table_size_bytes=9), "size"),
        (replace(FULL, num_files=9), "files"),
        (replace(FULL, num_deleted_records=9), "deleted"),
        (replace(FULL, num_deletion_vectors=9), "vectors"),
        (replace(FULL, in_commit_timestamp=9), "timestamp"),
        (replace(FULL, in_commit_timestamp=None), "timestamp"),
        (replace(FULL, set_transactions=TRANSACTIONS[:1]), "transactions"),
        (replace(FULL, domain_metadata=DOMAINS[:1]), "domains"),
        (replace(FULL, all_files=FILES[:1]), "listed"),
        (replace(FULL, all_files=tuple(replace(each, tags={"a": "b"}) for each in FILES)), "listed"),
        (replace(FULL, protocol=replace(FULL.protocol, min_reader_version=2)), "protocol"),
        (replace(FULL, protocol=replace(FULL.protocol, min_writer_version=3)), "protocol"),
        (replace(FULL, protocol=replace(FULL.protocol, reader_features=["a"])), "protocol"),
        (replace(FULL, protocol=replace(FULL.protocol, writer_features=None)), "protocol"),
        (replace(FULL, metadata=WIDER), "metadata"),
        (replace(FULL, metadata=replace(METADATA, id="u")), "metadata"),
        (replace(FULL, metadata=replace(METADATA, schema_string=None)), "metadata"),
        (replace(FULL, metadata=replace(METADATA, schema_string="{")), "metadata"),
    ],
)
def test_every_other_difference_is_one_of_facts(store: Store, other: Checksum, fact: str) -> None:
    ours, theirs = stated_facts(FULL), stated_facts(other)
    assert {name for name in ours if ours[name] != theirs[name]} == {fact}
    store.put(KEY, encode(other))
    assert write_checksum(store, KEY, FULL, guard=held) is True


def test_facts_that_another_writer_does_not_state_are_no_difference(store: Store) -> None:
    silent = replace(
        FULL,
        num_deleted_records=None,
        num_deletion_vectors=None,
        set_transactions=None,
        domain_metadata=None,
        all_files=None,
    )
    assert stated_facts(silent).keys() == {"size", "files", "timestamp", "protocol", "metadata"}
    store.put(KEY, encode(silent))
    assert write_checksum(store, KEY, FULL, guard=held) is False


def full_checksum() -> Checksum:
    """One that states everything that a checksum can state."""
    metadata = replace(METADATA, configuration={"delta.enableDeletionVectors": "true"})
    features = ["deletionVectors", "domainMetadata"]
    return checksum_from_totals(
        sizes=pa.array([10, 70_000], pa.int64()),
        cardinalities=pa.array([], pa.int64()),
        files=[add(1), replace(add(2), size=70_000)],
        transactions=[Txn(app_id="a", version=1)],
        domains=[DomainMetadata(domain="d", configuration="c", removed=False)],
        protocol=Protocol(
            min_reader_version=3, min_writer_version=7, reader_features=features[:1], writer_features=features
        ),
        metadata=metadata,
        info=INFO,
    )


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    match value:
        case dict() | list():
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                yield from leaves(each, (*place, key))
        case _:
            yield place


def altered(document: Any, place: tuple[Any, ...]) -> bytes:
    """The document with another value at a place."""
    changed = copy.deepcopy(document)
    inner = reduce(getitem, place[:-1], changed)
    was = inner[place[-1]]
    inner[place[-1]] = not was if isinstance(was, bool) else was + 1 if isinstance(was, int) else f"{was}x"
    return json.dumps(changed).encode()


def test_no_fact_of_a_checksum_can_be_altered_unnoticed() -> None:
    ours = full_checksum()
    document = json.loads(encode(ours))
    assert is_true(json.dumps(document).encode(), ours), "spelling tells nothing"
    unnoticed = [place for place in leaves(document) if is_true(altered(document, place), ours)]
    # Bins with another boundary may be as true; who states no file between both says nothing wrong.
    assert {place[1] for place in unnoticed if place[0] == "fileSizeHistogram"} <= {"sortedBinBoundaries"}
    assert [place for place in unnoticed if place[0] != "fileSizeHistogram"] == []


def test_what_another_writer_leaves_out_or_adds_is_not_wrong() -> None:
    ours = full_checksum()
    document = json.loads(encode(ours))
    needed = {"tableSizeBytes", "numFiles", "numMetadata", "numProtocol", "metadata", "protocol"}
    for name in document.keys() - needed:
        assert is_true(json.dumps({key: each for key, each in document.items() if key != name}).encode(), ours), name
    assert is_true(json.dumps({**document, "theirOwn": 1}).encode(), ours)


def test_a_histogram_of_other_bins_is_held_against_what_both_have() -> None:
    ours = full_checksum()
    document = json.loads(encode(ours))
    few = {"sortedBinBoundaries": [0, 65536], "fileCounts": [1, 1], "totalBytes": [10, 70_000]}
    assert is_true(json.dumps({**document, "fileSizeHistogram": few}).encode(), ours)
    assert not is_true(json.dumps({**document, "fileSizeHistogram": {**few, "fileCounts": [2, 0]}}).encode(), ours)
