"""Every kind of action is stored and read back as it was committed, field by field and byte by byte."""

import hashlib
from collections.abc import Sequence

import pyarrow as pa
import pytest
from msgspec.structs import replace

from deltamirror import Add, Catalog, Cdc, CommitInfo, DeletionVector, DomainMetadata, Protocol, Remove, Table, Txn
from deltamirror.delta.actions import Action
from deltamirror.delta.lines import decode_commit, encode_commit
from deltamirror.delta.replay import reconciliation_key, replay
from deltamirror.errors import InvalidInput
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.lake import add, adds_of, body_of, create, execute, info_of, remove_of

pytestmark = [pytest.mark.requirement("R3"), pytest.mark.requirement("R37"), pytest.mark.default_on("sqlite")]

BEYOND_DOUBLES = 2**53 + 1
STATS = (
    r'{"numRecords":3,"minValues":{"s":"\u0000\u001f"},"maxValues":{"s":"' + "\x7f\u2028😀é" + r'\"\\"},"nullCount":{}}'
)
VECTOR = DeletionVector(
    storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", offset=4, size_in_bytes=40, cardinality=2
)
INLINE = DeletionVector(
    storage_type="i",
    path_or_inline_dv="^Bg9^0rr910000000000iXQKl0rr91000005c8Xg0rr91",
    size_in_bytes=34,
    cardinality=1,
)


FIELDS = [
    ("path", pa.string()),
    ("size", pa.int64()),
    ("modification_time", pa.int64()),
    ("data_change", pa.bool_()),
    ("stats", pa.string()),
    ("partition_values", pa.string()),
    ("tags", pa.map_(pa.string(), pa.string())),
]


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return create(
        catalog,
        partition_by=["day"],
        properties={"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
        features=["domainMetadata"],
    )


def committed(catalog: Catalog, actions: Sequence[Action]) -> list[Action]:
    with catalog.transaction() as tx:
        tx.stage("t", actions)
    return decode_commit(catalog.table("t").commit_file(tx.result.versions["t"]))


def everything(table: Table) -> list[Action]:
    """One commit with every action that a commit can have, after one that added ``gone``."""
    taken = table.snapshot()
    gone = add("day=2024-05-01/gone", day="2024-05-01", stats=STATS, tags={"z": "1", "a": "\x00"})
    table.append([gone])
    upgraded = replace(
        taken.protocol,
        writer_features=[*(taken.protocol.writer_features or []), "vacuumProtocolCheck"],
        reader_features=[*(taken.protocol.reader_features or []), "vacuumProtocolCheck"],
    )
    metadata = replace(
        taken.metadata, name="näme", description="what\nfor", configuration={**taken.metadata.configuration, "k": "v"}
    )
    return [
        metadata,
        upgraded,
        Txn(app_id="app\u00e9\x01", version=2**62, last_updated=1_700_000_000_123),
        DomainMetadata(domain="my.domain", configuration='{"a":"\\u0000","b":[1]}', removed=False),
        add("day=2024-05-01/a%20b", day="2024-05-01", size=BEYOND_DOUBLES, stats=STATS, tags={"T": "1", "é": ""},
            deletion_vector=VECTOR),
        add("day=__HIVE_DEFAULT_PARTITION__/n", day=None, modification_time=BEYOND_DOUBLES),
        add("inline", day="x'\"\\\x1f", stats='{"numRecords":9}', deletion_vector=INLINE),
        remove_of(gone, tags={"z": "1", "a": "\x00"}, stats=STATS, deletion_timestamp=BEYOND_DOUBLES),
        Cdc(path="_change_data/cdc-1", partition_values={"day": None}, size=0, tags={"t": "u"}, data_change=False),
        Cdc(path="_change_data/cdc-2", partition_values={"day": "2024-05-01"}, size=7, data_change=False),
    ]  # fmt: skip


@pytest.mark.default_on(*ENGINES)
def test_one_commit_with_every_action_is_read_back_unchanged(catalog: Catalog, table: Table) -> None:
    actions = everything(table)
    info, *found = committed(catalog, actions)
    assert isinstance(info, CommitInfo)
    assert found == actions
    assert body_of(table, 2) == encode_commit(actions)


@pytest.mark.default_on(*ENGINES)
def test_the_projections_say_the_same_as_the_lines(catalog: Catalog, table: Table) -> None:
    committed(catalog, everything(table))
    for version in range(3):
        state = replay(decode_commit(table.commit_file(earlier)) for earlier in range(version + 1))
        found = table.snapshot(version)
        assert (found.protocol, found.metadata) == (state.protocol, state.metadata)
        assert adds_of(found.files()) == state.files
        assert found.transactions() == state.txns
        assert found.domain_metadata() == state.domains


def test_the_digest_is_that_of_the_bytes(catalog: Catalog, table: Table) -> None:
    committed(catalog, everything(table))
    for entry in table.history():
        data = table.commit_file(entry.version)
        assert entry.digest == hashlib.sha256(data).hexdigest()
        assert (entry.num_bytes, entry.num_lines) == (len(data), data.count(b"\n"))


def test_commit_info_is_the_first_line_and_its_time_the_first_member(catalog: Catalog, table: Table) -> None:
    committed(catalog, everything(table))
    for version in range(3):
        assert table.commit_file(version).startswith(b'{"commitInfo":{"inCommitTimestamp":')
        assert list(info_of(table, version))[:2] == ["inCommitTimestamp", "timestamp"]


def test_metadata_and_protocol_come_first_and_the_rest_keeps_its_order(catalog: Catalog, table: Table) -> None:
    metadata, protocol, *others = everything(table)
    shuffled = [*reversed(others), protocol, metadata]
    _, *found = committed(catalog, shuffled)
    assert found == [metadata, protocol, *reversed(others)]


@pytest.mark.default_on(*ENGINES)
def test_statistics_of_megabytes_are_stored(catalog: Catalog, table: Table) -> None:
    stats = '{"numRecords":1,"minValues":{"s":"' + "Wörter, " * 600_000 + '"}}'
    table.append([add("day=1/big", day="1", stats=stats)])
    [stored] = table.snapshot().files().column("stats").to_pylist()
    assert stored == stats
    assert decode_commit(table.commit_file(1))[1] == add("day=1/big", day="1", stats=stats)


def test_a_time_that_the_writer_leaves_out_is_filled_in(catalog: Catalog, table: Table) -> None:
    table.append([add("day=1/f", day="1")])
    remove = Remove(path="day=1/f", data_change=True)
    _, txn, removed = committed(catalog, [Txn(app_id="a", version=1), remove])
    assert isinstance(txn, Txn)
    assert isinstance(removed, Remove)
    assert txn.last_updated == removed.deletion_timestamp is not None
    assert txn.last_updated is not None
    assert abs(txn.last_updated - table.info().head_timestamp) < 60_000


def test_a_deletion_vector_replaces_the_file_that_had_none(catalog: Catalog, table: Table) -> None:
    bare = add("day=1/f", day="1", stats='{"numRecords":9}')
    with_vector, with_other = replace(bare, deletion_vector=VECTOR), replace(bare, deletion_vector=INLINE)
    table.append([bare])
    committed(catalog, [remove_of(bare), with_vector])
    committed(catalog, [remove_of(with_vector), with_other])
    for version, file in enumerate((bare, with_vector, with_other), 1):
        assert adds_of(table.snapshot(version).files()) == {reconciliation_key(file): file}


def test_a_domain_is_removed_by_its_tombstone(catalog: Catalog, table: Table) -> None:
    with catalog.transaction() as tx:
        tx.set_domain("t", "mine", "one")
    with catalog.transaction() as tx:
        tx.remove_domain("t", "mine")
    assert decode_commit(table.commit_file(2))[1] == DomainMetadata(domain="mine", configuration="one", removed=True)
    assert {v: list(table.snapshot(v).domain_metadata()) for v in (0, 1, 2)} == {0: [], 1: ["mine"], 2: []}


@pytest.mark.default_on(*ENGINES)
def test_every_field_of_an_add_has_its_column(catalog: Catalog) -> None:
    table = create(
        catalog, "rows", properties={"delta.enableRowTracking": "true"}, features=["clustering", "domainMetadata"]
    )
    file = add("f", stats='{"numRecords":5}', clustering_provider="liquid")
    table.append([file, replace(file, path="g")])
    stored = adds_of(table.snapshot().files())
    assert sorted((f.path, f.base_row_id, f.default_row_commit_version) for f in stored.values()) == [
        ("f", 0, 1),
        ("g", 5, 1),
    ]
    assert stored == replay(decode_commit(table.commit_file(v)) for v in (0, 1)).files
    table.append([replace(file, path="h")])
    assert adds_of(table.snapshot().files())["h", None].base_row_id == 10


@pytest.mark.default_on(*ENGINES)
def test_a_nul_is_kept_or_refused_in_words(catalog: Catalog, table: Table) -> None:
    """To Delta a NUL is text like any other; PostgreSQL has no such text."""
    actions: list[Action] = [DomainMetadata(domain="nul", configuration="\x00", removed=False)]
    if catalog.database.name == "postgresql":
        with pytest.raises(InvalidInput, match="0x00"):
            committed(catalog, actions)
        with pytest.raises(InvalidInput, match="NUL"):
            table.append([add("day=1/f", day="1")], token="\x00")
        assert table.info().head == 0
    else:
        assert committed(catalog, actions)[1:] == actions
        assert table.snapshot().domain_metadata() == {"nul": actions[0]}


def test_the_status_row_is_written_with_the_commit(catalog: Catalog, table: Table) -> None:
    table.append([add("day=1/f", day="1")])
    rows = execute(catalog, "SELECT version, state, attempts, updated_at FROM dl_mirror_status ORDER BY version")
    times = {entry.version: entry.timestamp for entry in table.history()}
    assert [tuple(row) for row in rows] == [(version, "PENDING", 0, times[version]) for version in (0, 1)]


def test_a_protocol_that_nobody_knows_is_refused(catalog: Catalog, table: Table) -> None:
    unknown = Protocol(min_reader_version=3, min_writer_version=7, reader_features=["x"], writer_features=["x"])
    with pytest.raises(InvalidInput, match="x"):
        committed(catalog, [unknown])
    assert table.info().head == 0


def test_adds_from_mappings_and_arrow_are_the_same_lines(catalog: Catalog, table: Table) -> None:
    file = add("day=1/f", day="1", stats=STATS, tags={"a": "b"})
    mapping = {"path": "day=1/f", "partitionValues": {"day": "1"}, "size": 100, "modificationTime": 1_700_000_000_000}
    columns = {name: [getattr(file, name)] for name in ("path", "size", "modification_time", "data_change", "stats")}
    maps = {"partition_values": ['{"day":"1"}'], "tags": [[("a", "b")]]}
    arrow = pa.table({**columns, **maps}, schema=pa.schema([*FIELDS]))
    table.append([file])
    table.append([{**mapping, "stats": STATS, "tags": {"a": "b"}}])
    table.append(arrow)
    assert body_of(table, 1) == body_of(table, 2) == body_of(table, 3) == encode_commit([file])
    assert isinstance(decode_commit(body_of(table, 3))[0], Add)
