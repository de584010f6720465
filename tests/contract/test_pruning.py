"""Pruned histories on every database: the catalog forgets what the log does not hold; all others are as they were."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import StorageSettings
from deltamirror.deltalog.retention import DAY
from deltamirror.errors import Conflict, NotFound, Refused
from deltamirror.ops.rebuild.rebuilding import rebuild
from deltamirror.ops.reconcile.reconciling import Strategy
from deltamirror.steps import Moment, Step, observed
from deltamirror.storage.open import store_at
from deltamirror.txnlog.queue.backlog import count_files
from deltamirror.txnlog.tables.changes import version_changes
from tests.support.databases.emptied import lake_url_of
from tests.support.lakes.aging import HEAD, START, age, cleaning, lived, store_of
from tests.support.lakes.lake import add, execute, opened, paths
from tests.support.mirrors.reconcilers import reconciled
from tests.support.readers.reader import Reader

pytestmark = pytest.mark.default_on("sqlite", "postgresql")

MONTH = timedelta(days=30)
KEPT = range(START, HEAD + 1)
_STEPS = 6
"""Of this pruning: the start, two files, three windows of versions."""
_DUMPED = (
    "dl_table_versions", "dl_commit_chunks", "dl_files", "dl_removes", "dl_file_ends", "dl_metadata", "dl_protocols",
    "dl_app_transactions", "dl_domain_metadata", "dl_mirror_status", "dl_mirror_attempts",
)  # fmt: skip


def cleaned(catalog: Catalog, engine: MirrorEngine, folder: Path) -> Table:
    """A table whose log starts with version 10, after its versions up to 12 have grown old."""
    table = lived(catalog, engine, str(folder / "t"))
    age(catalog, upto=12)
    engine.clean("t")
    return table


def seen(table: Table) -> dict[int, Any]:
    """What the catalog says of every version that the log holds."""
    return {version: (paths(table, version=version), table.commit_file(version)) for version in KEPT}


def earlier_versions(catalog: Catalog) -> list[int]:
    """The versions before the start of the history of which a row is left."""
    found = execute(catalog, f"SELECT version FROM dl_table_versions WHERE version < {START} ORDER BY version")
    return [row.version for row in found]


def rows_of(catalog: Catalog) -> dict[str, list[str]]:
    """All rows that pruning has to do with."""
    return {name: sorted(map(repr, map(tuple, execute(catalog, f"SELECT * FROM {name}")))) for name in _DUMPED}


@pytest.mark.default_on("sqlite", "postgresql")
def test_versions_that_the_log_does_not_hold_are_forgotten_and_all_others_stay(
    catalog: Catalog, tmp_path: Path, delta_rs: Reader
) -> None:
    with cleaning(catalog) as engine:
        table = cleaned(catalog, engine, tmp_path)
        before = seen(table)
        planned = engine.prune("t", keep=MONTH, dry_run=True)
        assert (planned.raised_from, planned.history_start, table.info().history_start) == (0, START, 0)
        done = engine.prune("t", keep=MONTH)
        assert (done.history_start, done.num_files) == (START, 2)  # of versions 2 and 6, removed by 4 and 8
        assert table.info().history_start == engine.status("t")[0].history_start == START
        assert [entry.version for entry in table.history()] == list(reversed(KEPT))
        assert seen(table) == before
        [counted] = execute(catalog, "SELECT count(*) AS chunks FROM dl_commit_chunks")
        assert counted.chunks == len(KEPT)
        assert earlier_versions(catalog) == [1, 3, 4, 5, 7, 8, 9]  # which added live files, or have tombstones
        with catalog.database.read() as connection:
            assert [count_files(connection, 1, version) for version in KEPT] == [len(before[each][0]) for each in KEPT]
        again = engine.prune("t", keep=MONTH)
        assert (again.raised_from, again.history_start, again.num_files) == (START, START, 0)
        execute(catalog, f"UPDATE dl_removes SET deletion_timestamp = deletion_timestamp - {60 * DAY}")
        engine.prune("t", keep=MONTH)
        assert earlier_versions(catalog) == [1, 3, 5, 7, 9]
        table.append([add("later.parquet")])
        engine.mirror("t")
        engine.checkpoint("t")
        assert delta_rs.snapshot(str(tmp_path / "t")).paths == paths(table)


@pytest.mark.default_on("sqlite")
def test_a_log_that_is_lost_comes_back_from_a_pruned_history(
    catalog: Catalog, tmp_path: Path, delta_rs: Reader
) -> None:
    with cleaning(catalog) as engine:
        table = cleaned(catalog, engine, tmp_path)
        engine.prune("t", keep=MONTH)
        store = store_of(table)
        store.delete([meta.key for meta in store.list("_delta_log")])
        found, _ = reconciled(engine, Strategy.FULL)
        assert found.error is None
        engine.run(once=True)
        elsewhere = store_at(str(tmp_path / "again"), StorageSettings())
        rebuild(catalog.database, "t", to=elsewhere)
        for version in KEPT:
            expected = paths(table, version=version)
            assert delta_rs.snapshot(str(tmp_path / "t"), version).paths == expected
            assert delta_rs.snapshot(str(tmp_path / "again"), version).paths == expected


@pytest.mark.default_on("sqlite")
def test_reads_of_pruned_versions_say_so(catalog: Catalog, tmp_path: Path) -> None:
    with cleaning(catalog) as engine:
        table = cleaned(catalog, engine, tmp_path)
        taken = table.snapshot(version=START - 1)
        engine.prune("t", keep=MONTH)
    begins = f"it has {START} to {HEAD}"
    for read in (
        lambda: table.snapshot(version=START - 1),
        lambda: table.commit_file(0),
        lambda: table.restore(START - 1),
        taken.files,
        taken.count_files,
    ):
        with pytest.raises(NotFound, match=begins) as refused:
            read()
        assert "pruned" in refused.value.hint
    with pytest.raises(NotFound, match="it begins at"):
        table.snapshot(as_of=0)
    with pytest.raises(NotFound, match=f"its history begins with version {START}"):
        version_changes(catalog.database, 1, START - 1, HEAD)


@pytest.mark.default_on("sqlite")
def test_old_transactions_conflict_and_old_tokens_have_their_answers(catalog: Catalog, tmp_path: Path) -> None:
    with cleaning(catalog) as engine:
        table = catalog.create_table("t", location=tmp_path / "t", schema="id long")
        with catalog.transaction(token="once") as first:
            first.append("t", [add("a.parquet")])
            first.set_transaction("t", "app", 7)
        old = catalog.transaction()
        old.read("t", all=True)
        old.append("t", [add("old.parquet")])
        for number in range(8):
            table.append([add(f"b-{number}.parquet")])
            engine.mirror("t")
        table.remove(["a.parquet"])
        age(catalog, upto=6)
        engine.clean("t")
        assert engine.prune("t", keep=MONTH).history_start == 5
    with pytest.raises(Conflict, match="were pruned") as refused:
        old.commit()
    assert refused.value.reason == "history-pruned"
    with catalog.transaction(token="once") as again:
        again.append("t", [add("a.parquet")])
        again.set_transaction("t", "app", 7)
    assert again.result.versions == first.result.versions
    assert table.snapshot().transactions()["app"].version == 7
    with catalog.transaction() as applied:
        applied.append("t", [add("a.parquet")])
        applied.set_transaction("t", "app", 7)
    assert applied.result.already_applied


@pytest.mark.default_on("sqlite")
def test_nothing_is_pruned_that_the_log_holds_or_that_is_young(catalog: Catalog, tmp_path: Path) -> None:
    with cleaning(catalog) as engine:
        table = lived(catalog, engine, str(tmp_path / "t"))
        with pytest.raises(Refused, match="every version of table 't' is kept"):
            engine.prune("t")
        age(catalog, upto=12)
        assert engine.prune("t", keep=0).history_start == 0  # the log has it all
        engine.clean("t")
        assert engine.prune("t", keep=timedelta(days=50)).history_start == 0
        assert paths(table, version=0) == []


@pytest.mark.default_on("sqlite")
def test_a_service_prunes_after_a_checkpoint_what_the_settings_do_not_keep(catalog: Catalog, tmp_path: Path) -> None:
    with cleaning(catalog, enabled=True, interval=0.0) as engine:
        table = lived(catalog, engine, str(tmp_path / "t"), properties={"deltamirror.historyKeep": "30"})
        age(catalog, upto=12)
        table.append([add("x.parquet")])
        table.append([add("y.parquet")])
        engine.run(once=True)
        assert (table.info().log_start, table.info().history_start) == (START, START)


@pytest.mark.parametrize(("moment", "done"), [(Moment.BEFORE, 1), (Moment.AFTER, 0)])
def test_a_pruning_that_ends_at_any_step_is_finished_by_the_next(
    lake: Catalog, tmp_path: Path, moment: Moment, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltamirror.txnlog.queue.pruning._ROWS_AT_ONCE", 1)
    monkeypatch.setattr("deltamirror.txnlog.queue.pruning._VERSIONS_AT_ONCE", 4)
    monkeypatch.setattr("deltamirror.txnlog.queue.pruning._HASHES_AT_ONCE", 1)
    with cleaning(lake) as engine:
        table = cleaned(lake, engine, tmp_path)
        before, struck = seen(table), 0
        while struck < _STEPS and not is_pruned(engine, moment, done):
            struck += 1
            assert seen(table) == before
            with lake.database.read() as connection:
                assert [count_files(connection, 1, each) for each in KEPT] == [len(before[each][0]) for each in KEPT]
        assert struck >= _STEPS - 1
        engine.prune("t", keep=MONTH)
        assert seen(table) == before
        assert earlier_versions(lake) == [1, 3, 4, 5, 7, 8, 9]
        for records in ("dl_commit_chunks", "dl_mirror_status"):
            [counted] = execute(lake, f"SELECT count(*) AS number FROM {records}")
            assert counted.number == len(KEPT)
        ended = rows_of(lake)
        engine.prune("t", keep=MONTH)
        assert rows_of(lake) == ended


class Killed(BaseException):
    """What nothing catches."""


def is_pruned(engine: MirrorEngine, moment: Moment, done: int) -> bool:
    """Prune, and die at the step after so many; whether there was no such step."""
    count = 0

    def die(at: Moment, step: Step) -> None:
        nonlocal count
        if at is moment and step in (Step.RAISE_HISTORY_START, Step.PRUNE_ROWS):
            count += 1
            if count > done:
                raise Killed

    try:
        with observed(die):
            engine.prune("t", keep=MONTH)
    except Killed:
        return False
    return True


@pytest.mark.postgres
def test_commits_go_on_amid_every_transaction_of_a_pruning(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = lake_url_of("postgresql", request, tmp_path)  # on the others, one transaction at a time writes
    with opened(url) as catalog, cleaning(catalog) as engine, opened(url) as other:
        cleaned(catalog, engine, tmp_path)
        versions: list[int] = []

        def commit(at: Moment, step: Step) -> None:
            if at is Moment.BEFORE and step in (Step.RAISE_HISTORY_START, Step.PRUNE_ROWS):
                versions.append(other.table("t").append([add(f"amid-{len(versions)}.parquet")]).versions["t"])

        with observed(commit):
            engine.prune("t", keep=MONTH)
    assert versions == list(range(HEAD + 1, HEAD + 1 + len(versions)))
    assert len(versions) >= 3  # the start, files, versions
