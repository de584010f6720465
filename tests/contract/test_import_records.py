"""A history from elsewhere is seen once all of it is there, at every version as its writers left it."""

import hashlib
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltamirror import Catalog
from deltamirror.delta.actions import Action, Add, CommitInfo, DeletionVector, Remove, Txn
from deltamirror.delta.chunks import commit_digest
from deltamirror.delta.paths import path_identity
from deltamirror.delta.replay import State, replay
from deltamirror.errors import (
    AlreadyExists,
    InvalidInput,
    InvalidLocation,
    LeaseLost,
    NotFound,
)
from deltamirror.txnlog.imports.importing import ImportedCheckpoint
from deltamirror.txnlog.queue.backlog import (
    commit_work,
    fetch_chunks,
    replay_work,
    with_counts,
)
from tests.support.imports.parts import Part, base_parts, begun, file_parts
from tests.support.imports.small_history import (
    HISTORY,
    OPENING,
    as_checkpoint,
    commit,
    counted,
    file,
    info,
    state_after,
    stored,
)
from tests.support.lakes.histories import History, histories
from tests.support.lakes.lake import add, adds_of, create, execute, paths, remove_of, row_counts
from tests.support.mirrors.claims import status_of

pytestmark = pytest.mark.default_on("sqlite", "postgresql")


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


@pytest.mark.default_on("sqlite")
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
