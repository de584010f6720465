"""Imports that begin with a checkpoint, and the commits and checkpoints that follow an import."""

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror import Catalog, Table
from deltamirror.delta import lines, names
from deltamirror.delta.replay import replay
from deltamirror.errors import (
    NotFound,
)
from deltamirror.txnlog.imports.importing import ImportedCheckpoint
from deltamirror.txnlog.queue.backlog import (
    commit_work,
    fetch_chunks,
    replay_work,
    with_chunks,
)
from tests.support.imports.parts import Part, base_parts, begun, file_parts
from tests.support.imports.small_history import HISTORY, as_checkpoint, counted, file, state_after, stored
from tests.support.lakes.lake import add, adds_of, execute, paths, remove_of
from tests.support.logs.checkpoint_rows import assert_same_rows
from tests.support.mirrors.local import append, log_of, make_table, mirror_of

pytestmark = pytest.mark.default_on("sqlite", "postgresql")


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
        assert "never imported" in caught.value.hint
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


@pytest.mark.default_on("sqlite")
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


@pytest.mark.default_on("sqlite")
def test_a_base_that_is_gone_from_the_log_does_not_stop_checkpoints(catalog: Catalog, tmp_path: Path) -> None:
    files = lived(catalog, tmp_path)
    table = imported_from_checkpoint(catalog, tmp_path / "t", files, reuse=True, with_file=True)
    (log_of(table) / names.checkpoint_name(10)).unlink()
    with mirror_of(catalog) as engine:
        assert engine.checkpoint("t") == 12
    assert files_in(pq.read_table(log_of(table) / names.checkpoint_name(12))) == paths(table)


@pytest.mark.default_on("sqlite")
def test_the_first_version_gets_a_checkpoint_without_a_commit_file(catalog: Catalog, tmp_path: Path) -> None:
    files = lived(catalog, tmp_path, versions=10)
    table = imported_from_checkpoint(catalog, tmp_path / "t", files, reuse=False, with_file=False)
    (log_of(table) / names.checkpoint_name(10)).unlink()
    with mirror_of(catalog) as engine:
        assert engine.checkpoint("t") == 10
    assert files_in(pq.read_table(log_of(table) / names.checkpoint_name(10))) == paths(table)
