"""A history from elsewhere is stored in parts, by one owner at a time, and is seen once all of it is there."""

import hashlib
import pickle
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from deltamirror import Catalog, Table
from deltamirror.delta import lines, names
from deltamirror.delta.actions import Action, Add, CommitInfo, DeletionVector, Remove, Txn
from deltamirror.delta.chunks import commit_digest
from deltamirror.delta.paths import path_identity
from deltamirror.delta.replay import State, checkpoint_actions, replay
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES
from deltamirror.errors import (
    AlreadyExists,
    CapacityExceeded,
    Internal,
    InvalidAction,
    InvalidInput,
    InvalidLine,
    InvalidLocation,
    LeaseLost,
    NotFound,
    Refused,
    Transient,
    Unsupported,
)
from deltamirror.txnlog.content.rows import file_row, remove_row
from deltamirror.txnlog.imports.importing import Import, ImportedCheckpoint
from deltamirror.txnlog.imports.parts import base_part, imported_commit_id
from deltamirror.txnlog.queue.backlog import (
    commit_work,
    count_files,
    fetch_chunks,
    replay_work,
    with_chunks,
    with_counts,
)
from tests.support.imports.parts import Part, abandon, base_parts, begun, file_parts, import_files
from tests.support.lakes.histories import PROTOCOL, History, histories, odd_adds, odd_removes, table_metadata
from tests.support.lakes.lake import add, adds_of, create, execute, paths, remove_of, row_counts
from tests.support.logs.checkpoint_rows import assert_same_rows
from tests.support.mirrors.claims import status_of
from tests.support.mirrors.local import append, log_of, make_table, mirror_of

METADATA = table_metadata()
OPENING: tuple[Action, ...] = (PROTOCOL, METADATA)


def commit(*actions: Action) -> bytes:
    return lines.encode_commit(actions)


def info(**fields: Any) -> CommitInfo:
    return CommitInfo(operation="WRITE", **fields)


def file(path: str, **fields: Any) -> Add:
    return add(path, partition_values={"p": None}, **fields)


HISTORY = {
    0: commit(info(timestamp=1, txn_id="the first"), *OPENING),
    1: commit(info(is_blind_append=True), file("a"), file("b"), Txn(app_id="app", version=7)),
    2: commit(remove_of(file("a")), info()),
    3: commit(info(), file("a", size=7), file("c")),
}


def stored(catalog: Catalog, files: Mapping[int, bytes] = HISTORY, **kind: object) -> Table:
    return import_files(catalog, files, **kind)  # type: ignore[arg-type]


def state_after(version: int, files: Mapping[int, bytes] = HISTORY) -> State:
    return replay(lines.decode_commit(data) for each, data in sorted(files.items()) if each <= version)


def as_checkpoint(state: State) -> State:
    """The same state, from a checkpoint: no file of it changes data."""
    found = State()
    found.apply(list(checkpoint_actions(state, tombstones_after=-1)))
    return found


def counted(catalog: Catalog, table: Table, version: int) -> int:
    with catalog.database.read() as connection:
        return count_files(connection, table.info().id, version)


# Parts: pure values


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(HISTORY[1], id="as the reference writer has it"),
        pytest.param(HISTORY[1].rstrip(b"\n"), id="without the last newline"),
        pytest.param(b"\n \n" + HISTORY[1].replace(b"\n", b"\r\n\n"), id="blank lines and returns"),
        pytest.param(b"", id="empty"),
        pytest.param(commit(*(file(f"{number:0>400}") for number in range(500))), id="large"),
    ],
)
@pytest.mark.parametrize("size", [None, 1, 3])
def test_the_parts_of_a_file_have_its_bytes_and_its_actions(data: bytes, size: int | None) -> None:
    parts = file_parts(9, 4, data, lines=size)
    decoded = lines.decode_commit(data)
    assert b"".join(part.chunk.decoded() for part in parts) == data
    assert [part.part for part in parts] == list(range(len(parts)))
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert sum(part.num_lines for part in parts) == len(decoded)
    if len(parts) == 1:
        assert parts[0].chunk.digest == hashlib.sha256(data).digest()
    commit_id, rows = imported_commit_id(9, 4), [row for part in parts for row in part.added]
    expected = [file_row(9, commit_id, number, each) for number, each in enumerate(decoded) if isinstance(each, Add)]
    assert rows == expected
    assert [each for part in parts for each in part.small] == [e for e in decoded if not isinstance(e, Add | Remove)]
    assert pickle.loads(pickle.dumps(parts))[0].chunk == parts[0].chunk  # noqa: S301  our own bytes


def test_a_small_file_is_one_plain_chunk_and_a_large_one_is_compressed() -> None:
    large = commit(*(file(f"{number:0>400}") for number in range(500)))
    assert [part.chunk.codec for part in file_parts(1, 0, HISTORY[0])] == ["plain"]
    assert [part.chunk.codec for part in file_parts(1, 0, large)] == ["zstd"]
    assert {part.chunk.codec for part in file_parts(1, 0, HISTORY[1], lines=1)} == {"zstd"}


WRONG = [
    pytest.param(HISTORY[1][:-20], InvalidLine, "line 4", id="truncated"),
    pytest.param(HISTORY[1] + b"{}\n", InvalidLine, "line 5", id="no action"),
    pytest.param(HISTORY[1] + b'{"add":{"path":"x"}}', InvalidAction, "line 5", id="no add"),
    pytest.param(b"\n" + HISTORY[1] + b'{"magic":{}}', Unsupported, "line 6", id="unknown action"),
    pytest.param(commit(METADATA, PROTOCOL, METADATA), InvalidAction, "line 3", id="two metaData"),
    pytest.param(commit(PROTOCOL, PROTOCOL), InvalidAction, "line 2", id="two protocols"),
    pytest.param(commit(file("a%2f"), file("b"), file("a%2F")), InvalidAction, "line 3", id="a path twice"),
    pytest.param(commit(file("a"), remove_of(file("a"))), InvalidAction, "line 2", id="added and removed"),
    pytest.param(
        b'{"sidecar":{"path":"x","sizeInBytes":1,"modificationTime":1}}', InvalidAction, "line 1", id="sidecar"
    ),
]


@pytest.mark.parametrize(("data", "kind", "place"), WRONG)
@pytest.mark.parametrize("size", [None, 1])
def test_what_is_wrong_with_a_file_is_named_by_file_and_line(
    data: bytes, kind: type[Exception], place: str, size: int | None
) -> None:
    with pytest.raises(kind, match=f"7.json, {place}: ") as caught:
        file_parts(1, 7, data, lines=size)
    assert pickle.loads(pickle.dumps(caught.value)).message == str(caught.value)  # noqa: S301  our own bytes


@given(adds=st.lists(odd_adds, max_size=5), removes=st.lists(odd_removes, max_size=5))
def test_rows_made_by_columns_are_the_rows_made_one_by_one(adds: list[Add], removes: list[Remove]) -> None:
    state = State()
    state.files = {(str(number), None): each for number, each in enumerate(adds) if _fits(each)}
    state.tombstones = {(str(number), None): each for number, each in enumerate(removes) if _fits(each)}
    state.apply(OPENING)
    [part] = base_parts(3, 5, state)
    made = [each for each in checkpoint_actions(state, tombstones_after=-1) if isinstance(each, Add | Remove)]
    commit_id = imported_commit_id(3, 5)
    files = [file_row(3, commit_id, 0, _in_order(each)) for each in made if isinstance(each, Add)]
    tombstones = [remove_row(3, commit_id, 0, _in_order(each)) for each in made if isinstance(each, Remove)]
    assert sorted(map(repr, map(_without_ordinal, part.added))) == sorted(map(repr, map(_without_ordinal, files)))
    assert sorted(map(repr, map(_without_ordinal, part.removed))) == sorted(
        map(repr, map(_without_ordinal, tombstones))
    )
    assert [row[1] for row in part.added] == sorted(row[1] for row in part.added)
    assert len({row[3] for row in part.added}) == len(part.added)


def _fits(action: Add | Remove) -> bool:
    """Checkpoints have fewer bits than lines."""
    return action.deletion_vector is None or action.deletion_vector.cardinality >= 0


def _in_order(action: Any) -> Any:
    """Maps of a checkpoint are in the order of their keys."""
    maps = {name: getattr(action, name) for name in ("partition_values", "tags")}
    return replace(
        action, **{name: None if each is None else dict(sorted(each.items())) for name, each in maps.items()}
    )


def _without_ordinal(row: tuple[object, ...]) -> tuple[object, ...]:
    return (*row[:3], *row[4:])


def test_a_tag_without_a_value_is_no_tag_and_an_add_without_partition_values_has_none() -> None:
    row = {"path": "a", "size": 1, "modificationTime": 2, "tags": [("x", None), ("y", "1")]}
    [made] = base_part(
        pa.Table.from_pylist([row], FILES), REMOVES.empty_table(), [], table_id=1, version=2, part=0, modified=3
    ).added
    assert (made[6], made[9], made[11]) == ("{}", False, '{"y":"1"}')


@pytest.mark.parametrize("field", ["path", "size", "modificationTime"])
def test_a_checkpoint_that_lacks_what_an_add_has_to_have_is_refused(field: str) -> None:
    row = {"path": "a", "size": 1, "modificationTime": 2, field: None}
    files = pa.Table.from_pylist([row], FILES)
    with pytest.raises(InvalidInput, match=f"add without {field}"):
        base_part(files, REMOVES.empty_table(), [], table_id=1, version=2, part=0, modified=3)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(CapacityExceeded, match="part 2048"):
        base_part(FILES.empty_table(), REMOVES.empty_table(), [], table_id=1, version=2, part=2048, modified=3)
    with pytest.raises(CapacityExceeded, match="4294967296"):
        imported_commit_id(1, 2**32)


# Nothing is seen before all of it is there


def test_nothing_is_visible_before_the_import_is_complete(catalog: Catalog) -> None:
    other = create(catalog, "other")
    importing = begun(catalog)
    for version, data in HISTORY.items():
        importing.store(file_parts(importing.table_id, version, data))
        assert [each.name for each in catalog.tables()] == ["other"]
        with pytest.raises(NotFound):
            catalog.table("t").snapshot()
    assert execute(catalog, "SELECT count(*) FROM dl_file_intervals") == [(0,)]
    assert importing.complete().name == "t"
    assert [each.name for each in catalog.tables()] == ["other", "t"]
    assert paths(catalog.table("t")) == ["a", "b", "c"]
    assert other.info().head == 0


def test_name_and_location_are_free_until_then_and_refused_after(catalog: Catalog) -> None:
    first, second = begun(catalog), begun(catalog, location="/nowhere/lake/elsewhere", owner="you")
    for each in (first, second):
        each.store(file_parts(each.table_id, 0, HISTORY[0]))
    assert first.table_id != second.table_id
    created = create(catalog, "u").info().id
    assert created not in (first.table_id, second.table_id)
    first.complete()
    with pytest.raises(AlreadyExists, match="'t'"):
        second.complete()
    with pytest.raises(AlreadyExists, match="belongs to the table"):
        begun(catalog, "x", location="/nowhere/lake/t/")
    with pytest.raises(InvalidLocation):
        begun(catalog, "x", location="/nowhere/lake/t/below")
    with pytest.raises(AlreadyExists):
        catalog.create_table("t", location="/nowhere/lake/x", schema="id long")
    with pytest.raises(InvalidInput, match="not a table name"):
        begun(catalog, "no name")
    second.discard()
    assert catalog.table("t").info().head == 0


def test_a_location_that_was_taken_meanwhile_is_refused_at_the_end(catalog: Catalog) -> None:
    importing = begun(catalog)
    importing.store(file_parts(importing.table_id, 0, HISTORY[0]))
    catalog.create_table("u", location="/nowhere/lake/t/inside", schema="id long")
    with pytest.raises(InvalidLocation):
        importing.complete()
    catalog.drop_table("u", unpublished=True)
    assert importing.complete().log_start == 0


def test_a_discarded_import_leaves_nothing_behind(catalog: Catalog) -> None:
    create(catalog, "other").append([add("x")])
    before = row_counts(catalog)
    importing = begun(catalog, first=2, base="c")
    importing.store(base_parts(importing.table_id, 2, state_after(2)))
    importing.store(file_parts(importing.table_id, 2, HISTORY[2]))
    importing.store(file_parts(importing.table_id, 3, HISTORY[3], lines=1)[:2])
    assert row_counts(catalog) != before
    importing.discard()
    assert row_counts(catalog) == before
    importing.discard()
    with pytest.raises(LeaseLost):
        importing.store(file_parts(importing.table_id, 3, HISTORY[3], lines=1)[2:])
    assert row_counts(catalog) == before


# One owner, every part once


def test_an_abandoned_import_goes_on_where_it_was_with_another_owner(catalog: Catalog) -> None:
    importing = begun(catalog, owner="one")
    table_id = importing.table_id
    importing.store([*file_parts(table_id, 0, HISTORY[0]), *file_parts(table_id, 1, HISTORY[1], lines=1)[:2]])
    del importing
    with pytest.raises(Refused, match="imported by one"):
        begun(catalog, owner="two")
    abandon(catalog)
    resumed = begun(catalog, owner="two")
    assert (resumed.table_id, resumed.next_version, resumed.next_part) == (table_id, 1, 2)
    resumed.store(file_parts(table_id, 1, HISTORY[1], lines=1))
    for version in (2, 3):
        resumed.store(file_parts(table_id, version, HISTORY[version]))
    resumed.complete()
    table = catalog.table("t")
    assert {version: table.commit_file(version) for version in HISTORY} == HISTORY
    assert [entry.num_lines for entry in table.history()] == [3, 2, 4, 3]
    assert [entry.num_added for entry in table.history()] == [2, 0, 2, 0]
    assert adds_of(table.snapshot().files()) == state_after(3).files


def test_the_same_owner_resumes_at_once(catalog: Catalog) -> None:
    first = begun(catalog)
    first.store(file_parts(first.table_id, 0, HISTORY[0]))
    assert (begun(catalog).table_id, begun(catalog).next_version) == (first.table_id, 1)


def test_who_was_taken_over_stores_nothing_more(catalog: Catalog) -> None:
    one = begun(catalog, owner="one")
    one.store(file_parts(one.table_id, 0, HISTORY[0]))
    abandon(catalog)
    two = begun(catalog, owner="two")
    before = row_counts(catalog)
    parts = file_parts(one.table_id, 1, HISTORY[1])
    for act in (lambda: one.store(parts), one.touch, one.complete):
        with pytest.raises(LeaseLost, match="took over"):
            act()
    one.discard()
    assert row_counts(catalog) == before
    two.store(parts)
    two.touch()
    assert two.complete().head == 1


def test_an_owner_who_is_heard_of_is_not_taken_over(catalog: Catalog) -> None:
    keeps: list[Callable[[Import], object]] = [
        lambda each: each.touch(),
        lambda each: each.store(file_parts(each.table_id, 0, HISTORY[0])),
    ]
    for keep in keeps:
        importing = begun(catalog, owner="one")
        abandon(catalog)
        keep(importing)
        with pytest.raises(Refused):
            begun(catalog, owner="two")
        importing.discard()


@pytest.mark.parametrize("other", [{"name": "u"}, {"first": 3}, {"base": "c"}], ids=str)
def test_what_was_left_of_another_import_of_the_location_is_discarded(catalog: Catalog, other: dict[str, Any]) -> None:
    before = row_counts(catalog)
    one = begun(catalog, owner="one")
    one.store(file_parts(one.table_id, 0, HISTORY[0]))
    wanted = {"location": "/nowhere/lake/t", **other}
    with pytest.raises(Refused):
        begun(catalog, **wanted, owner="two")
    abandon(catalog)
    two = begun(catalog, **wanted, owner="two")
    assert two.next_part == 0
    two.discard()
    assert row_counts(catalog) == before


def test_a_part_is_stored_once_and_in_order(catalog: Catalog) -> None:
    importing = begun(catalog)
    first, second, third = file_parts(importing.table_id, 0, HISTORY[0], lines=1)
    following = file_parts(importing.table_id, 1, HISTORY[1])
    for wrong in ([second], [first, third], following, [first, *following]):
        with pytest.raises(Internal, match="came to an import that is at part"):
            importing.store(wrong)
        assert (importing.next_version, importing.next_part) == (0, 0)
    importing.store([first, second])
    importing.store([first, second])
    assert (importing.next_version, importing.next_part) == (0, 2)
    with pytest.raises(Internal, match="version 0 is missing"):
        importing.complete()
    importing.store([first, second, third])
    with pytest.raises(Internal):
        importing.store([third])
    assert importing.complete().head == 0
    assert catalog.table("t").commit_file(0) == HISTORY[0]


def test_a_file_that_changed_while_it_was_imported_is_noticed(catalog: Catalog) -> None:
    importing = begun(catalog)
    importing.store(file_parts(importing.table_id, 0, HISTORY[0], lines=1)[:1])
    with pytest.raises(Transient, match="version 0"):
        importing.store(file_parts(importing.table_id, 0, HISTORY[0].replace(b"WRITE", b"MERGE"), lines=1))


def test_a_failure_in_the_middle_stores_nothing_of_the_transaction(catalog: Catalog) -> None:
    importing = begun(catalog)
    table_id = importing.table_id
    importing.store(file_parts(table_id, 0, HISTORY[0]))
    execute(catalog, "INSERT INTO dl_protocols VALUES (:table, 1, 'in the way')", table=table_id)
    before = row_counts(catalog)
    changing = file_parts(table_id, 1, commit(info(), PROTOCOL, file("a")))
    with pytest.raises(Transient):
        importing.store(changing)
    assert row_counts(catalog) == before
    execute(catalog, "DELETE FROM dl_protocols WHERE version = 1")
    importing.store(changing)
    assert importing.complete().head == 1


def test_a_log_without_protocol_is_refused(catalog: Catalog) -> None:
    importing = begun(catalog)
    importing.store(file_parts(importing.table_id, 0, commit(METADATA, file("a"))))
    with pytest.raises(InvalidInput, match="states no protocol"):
        importing.complete()
    assert catalog.tables() == []


# What an imported table is


def test_an_imported_table_is_as_published_as_it_was(catalog: Catalog) -> None:
    checkpoint = ImportedCheckpoint(version=2, name="c.parquet", digest=b"digest", num_bytes=17, modified=2_500)
    importing = begun(catalog)
    for version, data in HISTORY.items():
        importing.store(file_parts(importing.table_id, version, data))
    table = importing.complete(base=checkpoint, checksum=b"{}")
    assert (table.head, table.published, table.log_start, table.unpublished) == (3, 3, 0, 0)
    status = status_of(catalog)
    assert (status.lag_versions, status.pending, status.failed) == (0, 0, 0)
    assert status.checkpoint is not None
    assert (status.checkpoint.version, status.checkpoint.num_bytes, status.checkpoint.at) == (2, 17, 2_500)
    published = "SELECT state, published_at FROM dl_mirror_status ORDER BY version"
    assert execute(catalog, published) == [("SUCCESS", 1_000 * (version + 1)) for version in HISTORY]
    assert execute(catalog, "SELECT version, data FROM dl_checksums") == [(3, b"{}")]
    assert execute(catalog, "SELECT count(*) FROM dl_imports") == [(0,)]


def test_the_history_of_an_imported_table_says_what_its_writers_said(catalog: Catalog) -> None:
    table = stored(catalog)
    entries = table.history()
    assert [entry.version for entry in entries] == [3, 2, 1, 0]
    assert {entry.kind for entry in entries} == {"verbatim"}
    assert [entry.operation for entry in entries] == ["WRITE"] * 4
    assert [entry.is_blind_append for entry in entries] == [False, False, True, False]
    assert [(entry.num_added, entry.num_removed) for entry in entries] == [(2, 0), (0, 1), (2, 0), (0, 0)]
    assert entries[-1].txn_id == "the first"
    assert len({entry.txn_id for entry in entries}) == 4
    for entry in entries:
        assert entry.num_bytes == len(HISTORY[entry.version])
        assert entry.digest == hashlib.sha256(HISTORY[entry.version]).hexdigest()


def test_what_a_commit_says_of_itself_is_found_wherever_it_stands(catalog: Catalog) -> None:
    last = commit(*OPENING, CommitInfo(operation="MERGE", engine_info="somebody", user_metadata="why"))
    [entry] = stored(catalog, {0: last}).history()
    assert (entry.operation, entry.engine_info, entry.user_metadata) == ("MERGE", "somebody", "why")


def test_times_are_those_of_the_commits_or_of_their_files_in_order(catalog: Catalog) -> None:
    files = {
        **{version: commit(info(), *(OPENING if version == 0 else ())) for version in range(4)},
        4: commit(info(in_commit_timestamp=5_000)),
        5: commit(info(in_commit_timestamp=5_007)),
        6: commit(info()),
    }
    times = {0: 3_000, 1: 2_000, 2: 3_001, 3: 4_000, 4: 9_000, 5: 9_000, 6: 1}
    table = stored(catalog, files, modified=times)
    assert [entry.timestamp for entry in reversed(table.history())] == [3_000, 3_001, 3_002, 4_000, 5_000, 5_007, 5_008]
    for moment, version in {3_000: 0, 3_001: 1, 3_999: 2, 4_999: 3, 5_006: 4, 9_999: 6}.items():
        assert table.snapshot(as_of=moment).version == version, moment
    with pytest.raises(NotFound, match="begins at"):
        table.snapshot(as_of=2_999)


def test_a_large_commit_is_one_version_however_many_parts_it_has(catalog: Catalog) -> None:
    data = commit(info(), *OPENING, *(file(f"f{number}") for number in range(1_000)))
    importing = begun(catalog)
    parts = file_parts(importing.table_id, 0, data, lines=100)
    importing.store(parts[:4])
    importing.store(parts[4:])
    importing.complete()
    table = catalog.table("t")
    assert table.commit_file(0) == data
    assert len(paths(table)) == counted(catalog, table, 0) == 1_000
    with catalog.database.read() as connection:
        [work] = commit_work(connection, table.info().id, first=0, last=0)
        assert (work.num_chunks, work.num_bytes) == (11, len(data))
        assert work.digest == commit_digest([chunk.digest for chunk in fetch_chunks(connection, work)])


def test_application_progress_comes_along(catalog: Catalog) -> None:
    table = stored(catalog)
    assert table.snapshot().transactions() == {"app": Txn(app_id="app", version=7)}
    with catalog.transaction() as tx:
        tx.set_transaction("t", "app", 7)
        tx.append("t", [file("again")])
    assert (tx.result.already_applied, tx.result.versions) == (True, {"t": 1})


# Beginning with a checkpoint


def based(catalog: Catalog, *, with_file: bool = True, **kind: Any) -> Table:
    """The history from version 2 on, whose state is that of a checkpoint."""
    files = {version: data for version, data in HISTORY.items() if version > 2 or (version == 2 and with_file)}
    return stored(catalog, files, first=2, base=state_after(2), **kind)


@pytest.mark.parametrize("with_file", [True, False])
def test_a_table_that_begins_with_a_checkpoint_has_its_state(catalog: Catalog, with_file: bool) -> None:
    table = based(catalog, with_file=with_file)
    expected = as_checkpoint(state_after(2))
    first = table.snapshot(2)
    assert adds_of(first.files()) == expected.files
    assert (first.protocol, first.metadata) == (expected.protocol, expected.metadata)
    assert first.transactions() == expected.txns
    assert sorted(paths(table)) == ["a", "b", "c"]
    assert [counted(catalog, table, version) for version in (2, 3)] == [1, 3]
    assert (table.info().log_start, table.info().published) == (2, 3)
    assert [entry.version for entry in table.history()] == [3, 2]
    assert table.history()[-1].num_added == 1
    assert execute(catalog, "SELECT published_at FROM dl_mirror_status WHERE version = 2") == [
        (3_000 if with_file else 500,)
    ]


def test_versions_before_the_first_are_not_found_and_the_hint_says_why(catalog: Catalog) -> None:
    table = based(catalog)
    for act in (lambda: table.snapshot(1), lambda: table.commit_file(1)):
        with pytest.raises(NotFound, match="it has 2 to 3") as caught:
            act()
        assert "imported from version 2 on" in caught.value.hint
    with pytest.raises(NotFound, match="no version 1"), catalog.transaction() as tx:
        tx.stage("t", [remove_of(file("b"))], read_version=1)


def test_the_first_commit_file_is_kept_if_there_was_one(catalog: Catalog) -> None:
    table = based(catalog)
    assert table.commit_file(2) == HISTORY[2]
    with catalog.database.read() as connection:
        assert [work.version for work in commit_work(connection, table.info().id, first=0, last=9)] == [2, 3]


def test_a_first_commit_file_that_was_missing_is_not_invented(catalog: Catalog) -> None:
    table = based(catalog, with_file=False)
    with pytest.raises(NotFound, match="no commit file of version 2"):
        table.commit_file(2)
    assert table.history()[-1].num_bytes == 0
    with catalog.database.read() as connection:
        assert [work.version for work in commit_work(connection, table.info().id, first=0, last=9)] == [3]


def test_a_base_alone_is_a_table(catalog: Catalog) -> None:
    table = stored(catalog, {}, first=2, base=state_after(2))
    assert (table.info().head, paths(table)) == (2, ["b"])
    assert table.append([file("d")]).versions == {"t": 3}


def test_an_import_goes_on_in_the_middle_of_its_base_and_of_the_file_after_it(catalog: Catalog) -> None:
    importing = begun(catalog, first=2, base="c")
    table_id = importing.table_id
    parts: list[Part] = [
        *base_parts(table_id, 2, state_after(2), rows=2),
        *file_parts(table_id, 2, HISTORY[2], lines=1),
        *file_parts(table_id, 3, HISTORY[3], lines=1),
    ]
    while parts:
        importing.store(parts[:1])
        del parts[0]
        importing = begun(catalog, first=2, base="c")
    importing.complete()
    table = catalog.table("t")
    assert {version: table.commit_file(version) for version in (2, 3)} == {2: HISTORY[2], 3: HISTORY[3]}
    assert [entry.timestamp for entry in table.history()] == [4_000, 3_000]
    assert adds_of(table.snapshot(2).files()) == as_checkpoint(state_after(2)).files
    assert counted(catalog, table, 3) == 3


def test_a_base_replays_to_its_state(catalog: Catalog) -> None:
    table = based(catalog, with_file=False)
    with catalog.database.read() as connection:
        work = replay_work(connection, table.info().id, last=3)
        assert [(each.version, each.is_base) for each in work] == [(2, True), (3, False)]
        after = replay_work(connection, table.info().id, last=3, after=2)
        assert [(each.version, each.is_base) for each in after] == [(3, False)]
        fetched = [b"".join(chunk.decoded() for chunk in fetch_chunks(connection, each)) for each in work]
        carried = [b"".join(chunk.decoded() for chunk in each.chunks or ()) for each in with_chunks(connection, work)]
    assert fetched == carried
    expected = as_checkpoint(state_after(2))
    found = replay([lines.decode_commit(fetched[0])])
    assert (found.protocol, found.metadata) == (expected.protocol, expected.metadata)
    assert (found.files, found.txns, found.domains) == (expected.files, expected.txns, expected.domains)
    assert found.tombstones == expected.tombstones
    assert fetched[1] == HISTORY[3]


def test_a_table_with_its_whole_history_has_no_base(catalog: Catalog) -> None:
    table = stored(catalog)
    with catalog.database.read() as connection:
        assert not any(work.is_base for work in replay_work(connection, table.info().id, last=3))


# Every version of any history


def lawful(history: History) -> list[tuple[Action, ...]]:
    """The commits, without a second add or remove of one path, which no writer has."""
    commits = []
    for actions in history.commits:
        seen: set[tuple[type[Action], str]] = set()
        kept = []
        for action in actions:
            key = (type(action), path_identity(action.path) if isinstance(action, Add | Remove) else repr(action))
            if key not in seen:
                kept.append(action)
            seen.add(key)
        commits.append(tuple(kept))
    return commits


@pytest.mark.default_on("sqlite", "postgresql")
@pytest.mark.requirement("R33")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(history=histories(), data=st.data())
def test_every_version_of_an_imported_history_is_what_replaying_it_gives(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, history: History, data: st.DataObject
) -> None:
    monkeypatch.setattr("deltamirror.txnlog.imports.file_ends._ACTIONS_AT_ONCE", 4)
    monkeypatch.setattr(
        "deltamirror.txnlog.imports.file_ends._FEW_HASHES", data.draw(st.sampled_from([0, 1, 100]), label="few")
    )
    commits = lawful(history)
    first = data.draw(st.integers(0, len(commits) - 1), label="first")
    has_base = first > 0 and data.draw(st.booleans(), label="base")
    first = first if has_base else 0
    name = f"t{uuid.uuid4().hex}"
    base = as_checkpoint(replay(commits[: first + 1])) if has_base else None
    table_id = begun(catalog, name, first=first, base="c" if has_base else None).table_id
    parts: list[Part] = [] if base is None else [*base_parts(table_id, first, base, rows=2)]
    for version, actions in enumerate(commits):
        if version >= first and not (has_base and version == first and data.draw(st.booleans(), label="no file")):
            size = data.draw(st.sampled_from([None, 1, 2]), label="lines")
            parts += file_parts(table_id, version, commit(*actions), lines=size)
    while parts:
        importing = begun(catalog, name, first=first, base="c" if has_base else None)
        taken = data.draw(st.integers(1, len(parts)), label="parts")
        importing.store(parts[:taken])
        del parts[:taken]
    begun(catalog, name, first=first, base="c" if has_base else None).complete()
    table, model = catalog.table(name), State() if base is None else base
    for version in range(first, len(commits)):
        if version > first or base is None:
            model.apply(commits[version])
        found = table.snapshot(version)
        assert adds_of(found.files()) == model.files
        assert (found.protocol, found.metadata) == (model.protocol, model.metadata)
        assert (found.transactions(), found.domain_metadata()) == (model.txns, model.domains)
        assert counted(catalog, table, version) == len(model.files)
    with catalog.database.read() as connection:
        work = replay_work(connection, table_id, last=len(commits) - 1)
        totals = [each.num_files for each in with_counts(connection, work, before=0)]
    assert totals[-1] == len(model.files)


def test_paths_whose_hashes_collide_end_apart(catalog: Catalog) -> None:
    one, other = "plumless", "buckeroo"  # the same crc32
    files = {0: commit(*OPENING, file(one), file(other)), 1: commit(remove_of(file(one))), 2: commit(file(one))}
    table = stored(catalog, files)
    assert [paths(table, version=version) for version in range(3)] == [[other, one], [other], [other, one]]


def test_a_deletion_vector_that_grows_ends_the_file_with_the_smaller_one(catalog: Catalog) -> None:
    small, large = (
        file(
            "a",
            deletion_vector=DeletionVector(storage_type="u", path_or_inline_dv=each, size_in_bytes=1, cardinality=1),
        )
        for each in "vw"
    )
    files = {0: commit(*OPENING, file("a")), 1: commit(remove_of(file("a")), small), 2: commit(remove_of(small), large)}
    table = stored(catalog, files)
    for version, expected in enumerate((file("a"), small, large)):
        assert list(adds_of(table.snapshot(version).files()).values()) == [expected]


# Going on: commits and checkpoints after an import


def lived(catalog: Catalog, folder: Path, *, versions: int = 12) -> dict[int, bytes]:
    """A log on disk with a checkpoint of version 10, of a table that the catalog has forgotten; its commits."""
    table = make_table(catalog, folder)
    append(table, 5)
    table.remove([paths(table)[0]])
    append(table, versions - 6)
    with mirror_of(catalog) as engine:
        engine.run(once=True)
    files = {version: table.commit_file(version) for version in range(versions + 1)}
    catalog.drop_table("t")
    return files


def imported_from_checkpoint(
    catalog: Catalog, folder: Path, files: Mapping[int, bytes], *, reuse: bool, with_file: bool, name: str = "t"
) -> Table:
    """The table from version 10 on; what lies before is deleted, and the commit file of that version, if told so."""
    log = folder / "_delta_log"
    for version in range(10 if with_file else 11):
        (log / names.commit_name(version)).unlink()
    data = (log / names.checkpoint_name(10)).read_bytes()
    digest = hashlib.sha256(data).digest()
    found = ImportedCheckpoint(
        version=10, name=names.checkpoint_name(10), digest=digest, num_bytes=len(data), modified=1
    )
    kept = {version: each for version, each in files.items() if version > 10 or (version == 10 and with_file)}
    kind = {"location": str(folder), "first": 10, "base": state_after(10, files)}
    return stored(catalog, kept, name=name, **kind, checkpoint=found if reuse else None)


def files_in(checkpoint: pa.Table) -> list[str]:
    return sorted(row["path"] for row in checkpoint["add"].drop_null().to_pylist())


@pytest.mark.default_on("sqlite", "postgresql")
def test_the_next_commit_follows_the_imported_ones_and_is_published(catalog: Catalog, tmp_path: Path) -> None:
    table = stored(catalog, lived(catalog, tmp_path), location=str(tmp_path / "t"))
    before = paths(table)
    assert table.append([add("later.parquet", stats='{"numRecords":1}')]).versions == {"t": 13}
    assert table.remove([before[0]]).versions == {"t": 14}
    with mirror_of(catalog) as engine:
        assert engine.mirror("t").versions == 2
    for version in range(15):
        assert (log_of(table) / names.commit_name(version)).read_bytes() == table.commit_file(version)
    assert paths(table) == sorted([*before[1:], "later.parquet"])
    assert table.info().published == 14


@pytest.mark.default_on("sqlite", "postgresql")
@pytest.mark.parametrize("with_file", [True, False])
def test_a_checkpoint_after_an_import_is_the_same_from_the_imported_one_and_from_the_rows(
    catalog: Catalog, tmp_path: Path, with_file: bool
) -> None:
    files = lived(catalog, tmp_path)
    shutil.copytree(tmp_path / "t", tmp_path / "u")
    written = []
    for name, reuse in (("t", True), ("u", False)):
        kind: dict[str, Any] = {"name": name, "reuse": reuse, "with_file": with_file}
        table = imported_from_checkpoint(catalog, tmp_path / name, files, **kind)
        gone = next(iter(state_after(12, files).files.values()))
        table.remove([remove_of(gone, deletion_timestamp=2**53)])
        with mirror_of(catalog) as engine:
            engine.mirror(name)
            assert engine.checkpoint(name) == 13
        based_on = "SELECT base_version FROM dl_checkpoints WHERE version = 13 AND table_id = :table"
        assert execute(catalog, based_on, table=table.info().id) == [(10 if reuse else None,)]
        written.append(pq.read_table(log_of(table) / names.checkpoint_name(13)))
        assert files_in(written[-1]) == paths(table)
        assert len(written[-1]["remove"].drop_null()) == 2
    assert_same_rows(*written)


@pytest.mark.default_on("sqlite", "postgresql")
def test_a_base_that_is_gone_from_the_log_does_not_stop_checkpoints(catalog: Catalog, tmp_path: Path) -> None:
    files = lived(catalog, tmp_path)
    table = imported_from_checkpoint(catalog, tmp_path / "t", files, reuse=True, with_file=True)
    (log_of(table) / names.checkpoint_name(10)).unlink()
    with mirror_of(catalog) as engine:
        assert engine.checkpoint("t") == 12
    assert files_in(pq.read_table(log_of(table) / names.checkpoint_name(12))) == paths(table)


@pytest.mark.default_on("sqlite", "postgresql")
def test_the_first_version_gets_a_checkpoint_without_a_commit_file(catalog: Catalog, tmp_path: Path) -> None:
    files = lived(catalog, tmp_path, versions=10)
    table = imported_from_checkpoint(catalog, tmp_path / "t", files, reuse=False, with_file=False)
    (log_of(table) / names.checkpoint_name(10)).unlink()
    with mirror_of(catalog) as engine:
        assert engine.checkpoint("t") == 10
    assert files_in(pq.read_table(log_of(table) / names.checkpoint_name(10))) == paths(table)
