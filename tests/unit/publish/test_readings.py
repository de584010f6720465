"""A version as a reader sees it, held against what was committed."""

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec.structs import replace as replace_fields

from deltamirror.config import StorageSettings
from deltamirror.delta.actions import Action, Add, CommitInfo, Format, Metadata, Protocol
from deltamirror.delta.checksum import first_checksum
from deltamirror.delta.lines import encode_commit
from deltamirror.errors import Internal, NotFound, Transient
from deltamirror.publish import readings
from deltamirror.publish.readings import OpenedVersion, read_by_delta_rs, require_as_committed
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.clients import Credentials
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from tests.support.logs.commit_units import commit_key

pytestmark = pytest.mark.requirement("R112")

INFO = CommitInfo(operation="WRITE", txn_id="x")
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
METADATA = Metadata(
    id="t",
    format=Format(provider="parquet", options={}),
    schema_string='{"type":"struct","fields":[{"name":"k","type":"long","nullable":true,"metadata":{}}]}',
    partition_columns=["p"],
    configuration={"k": "v"},
)
FILES = [
    Add(path=path, partition_values={"p": "1"}, size=size, modification_time=1, data_change=True)
    for path, size in (("a", 10), ("b", 20))
]
COMMITTED = OpenedVersion(
    num_files=2,
    num_bytes=30,
    min_reader_version=1,
    min_writer_version=2,
    metadata_id="t",
    partition_columns=["p"],
    configuration={"k": "v"},
)


VALID = replace_fields(METADATA, id="5b6c1a5e-0d5e-4b8e-9d3c-000000000001", partition_columns=[], configuration={})
EMPTY = OpenedVersion.of(PROTOCOL, VALID, num_files=0, num_bytes=0)


def address_of(folder: Path, *actions: Action) -> StoreAddress:
    """A table on disk, whose version 0 has these actions beside its metadata."""
    store_at(str(folder), StorageSettings()).put(commit_key(0), encode_commit([INFO, VALID, PROTOCOL, *actions]))
    return StoreAddress.of(str(folder), StorageSettings())


@pytest.fixture
def store() -> Store:
    """A log whose version 0 has two files."""
    found = store_at(f"memory://{uuid4()}/t", StorageSettings())
    found.put(commit_key(0), encode_commit([INFO, METADATA, PROTOCOL, *FILES]))
    return found


def test_a_checksum_says_what_a_reader_has_to_see() -> None:
    checksum = first_checksum([INFO, METADATA, PROTOCOL, *FILES])
    assert checksum is not None
    assert OpenedVersion.of_checksum(checksum) == COMMITTED


@pytest.mark.parametrize(
    ("seen", "difference"),
    [
        (replace(COMMITTED, num_files=3), "num_files is 3, not 2"),
        (replace(COMMITTED, num_bytes=31), "num_bytes is 31, not 30"),
        (replace(COMMITTED, min_reader_version=3), "min_reader_version is 3, not 1"),
        (replace(COMMITTED, min_writer_version=7), "min_writer_version is 7, not 2"),
        (replace(COMMITTED, metadata_id="u"), "metadata_id is 'u', not 't'"),
        (replace(COMMITTED, partition_columns=[]), "partition_columns is [], not ['p']"),
        (replace(COMMITTED, configuration={}), "configuration is {}, not {'k': 'v'}"),
        (replace(COMMITTED, num_files=3, num_bytes=31), "num_files is 3, not 2"),
    ],
)
def test_the_first_field_that_a_reader_sees_otherwise_is_told(
    store: Store, seen: OpenedVersion, difference: str
) -> None:
    assert (seen.difference(COMMITTED), COMMITTED.difference(COMMITTED)) == (difference, "")
    with pytest.raises(Internal) as caught:
        require_as_committed(lambda version: seen, store, 0, table="t", expected=COMMITTED)
    assert caught.value.message == (
        f"delta-rs reads version 0 of table 't' in {store.location} otherwise than it was committed: {difference}"
    )
    assert caught.value.hint.startswith("`deltamirror verify t --level paranoid` shows what is wrong")


def test_facts_that_are_not_known_are_no_difference(store: Store) -> None:
    unknown = replace(COMMITTED, num_files=None, num_bytes=None)
    assert COMMITTED.difference(unknown) == ""
    require_as_committed(lambda version: COMMITTED, store, 0, table="t", expected=unknown)
    require_as_committed(lambda version: unknown, store, 0, table="t", expected=None)


def test_our_own_reader_takes_the_place_of_one_that_knows_too_little(store: Store) -> None:
    opened: list[int] = []
    require_as_committed(opened.append, store, 0, table="t", expected=COMMITTED)
    assert opened == [0]
    with pytest.raises(Internal, match=r"^deltamirror reads version 0 .*: num_files is 2, not 3$"):
        require_as_committed(opened.append, store, 0, table="t", expected=replace(COMMITTED, num_files=3))
    with pytest.raises(NotFound):
        require_as_committed(opened.append, store, 1, table="t", expected=None)


def test_delta_rs_sees_files_sizes_protocol_and_metadata(tmp_path: Path) -> None:
    files = [replace_fields(each, partition_values={}) for each in FILES]
    full = address_of(tmp_path / "full", *files)
    assert read_by_delta_rs(full, Credentials(), 0) == replace(EMPTY, num_files=2, num_bytes=30)
    assert read_by_delta_rs(address_of(tmp_path / "empty"), Credentials(), 0) == EMPTY


def test_our_own_reader_sees_a_table_without_files(tmp_path: Path) -> None:
    address_of(tmp_path)
    store = store_at(str(tmp_path), StorageSettings())
    require_as_committed(lambda version: None, store, 0, table="t", expected=EMPTY)


def test_a_store_in_memory_is_not_read_by_another_library() -> None:
    assert read_by_delta_rs(StoreAddress.of("memory://here/t", StorageSettings()), Credentials(), 0) is None


def test_a_version_that_delta_rs_cannot_open_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(
        Transient, match=r"^delta-rs cannot open version 3 of the log in .*: [A-Za-z]+: [A-Z]"
    ) as caught:
        read_by_delta_rs(address_of(tmp_path), Credentials(), 3)
    assert caught.value.hint.startswith("the mirror tries again; `deltamirror validate file:///")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_order_to_stop_is_no_error_of_delta_rs(
    tmp_path: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise error

    monkeypatch.setattr(readings, "open_table", stop)
    with pytest.raises(error):
        read_by_delta_rs(address_of(tmp_path), Credentials(), 0)


def test_a_feature_that_delta_rs_does_not_know_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "knows_too_little", lambda message: message == "DeltaError: unsupported")

    class DeltaError(BaseException):
        """Not even an Exception, as panics are."""

    def refuse(*_: object) -> None:
        raise DeltaError("unsupported")

    monkeypatch.setattr(readings, "open_table", refuse)
    assert read_by_delta_rs(address_of(tmp_path), Credentials(), 0) is None
