"""The levels of ``mirror.verify``: each finds what the ones before it cannot, at one of three points.

Writer input, before a put, after a put: for each there is a defect that it alone finds.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import Settings, StorageSettings, TableBlock
from deltamirror.delta.actions import Add, CommitInfo, Format, Metadata, Protocol
from deltamirror.delta.lines import encode_commit
from deltamirror.deltalog import delta_rs
from deltamirror.errors import Diverged, Internal, InvalidAction, InvalidInput, MissingExtra, Transient
from deltamirror.publish import readings
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Created, Store
from deltamirror.work import CommitOutcome, Stage, Verification
from tests.support.lakes.lake import add, execute
from tests.support.logs.commit_units import commit_key, log_of, publish, unit_of, watched, work_of
from tests.support.mirrors.local import append, committed_files, local_settings, make_table, mirror_of, published_files

pytestmark = [pytest.mark.requirement("R73"), pytest.mark.requirement("R112")]

LEVELS = list(Verification)
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
METADATA = Metadata(
    id="5b6c1a5e-0d5e-4b8e-9d3c-000000000001",
    format=Format(provider="parquet", options={}),
    schema_string=SCHEMA,
    partition_columns=[],
    configuration={},
)
FOUNDATION = encode_commit([CommitInfo(timestamp=0), METADATA, Protocol(min_reader_version=1, min_writer_version=2)])


def commit(**wrong: Any) -> bytes:
    right = Add(path="f", partition_values={}, size=10, modification_time=1, data_change=True)
    return encode_commit([CommitInfo(timestamp=1), msgspec.structs.replace(right, **wrong)])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(str(tmp_path / "by-hand"), StorageSettings())


@pytest.fixture
def catalog(sqlite_lake: str) -> Iterator[Catalog]:
    with Catalog(sqlite_lake, settings=local_settings()) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog, tmp_path: Path) -> Table:
    found = make_table(catalog, tmp_path)
    append(found, 2)
    return found


def at(level: Verification, store: Store, *commits: bytes, **fields: Any) -> CommitOutcome:
    """Commits, encoded by us, published at a level."""
    work = [work_of(version, data, **fields) for version, data in enumerate((FOUNDATION, *commits))]
    return publish(unit_of(work, verify=level), store)


def finding(find: Callable[[Verification], bool]) -> list[Verification]:
    """The levels that find something."""
    return [level for level in LEVELS if find(level)]


def failure_of(engine: MirrorEngine, table: Table) -> str:
    """Why a table is not published to its head; empty where it is."""
    try:
        engine.mirror(table.name)
    except Internal as error:
        return error.message
    return ""


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_publishes_what_is_in_order(catalog: Catalog, table: Table, level: Verification) -> None:
    with mirror_of(catalog, verify=level.value, checkpoint_interval=2) as engine:
        assert engine.mirror("t").checkpoint == 2
    assert published_files(table) == committed_files(table)


def test_writer_input_alone_refuses_a_change_that_the_protocol_allows(catalog: Catalog, table: Table) -> None:
    """A column whose type changed: the log is well formed, and the files that are there have another type."""
    retyped = msgspec.structs.replace(METADATA, schema_string=SCHEMA.replace("long", "string"))
    with pytest.raises(InvalidInput), catalog.transaction() as tx:
        tx.set_metadata("t", schema="id string")
    for level in LEVELS:
        store = store_at(f"memory://{level}-retyped/t", StorageSettings())
        assert at(level, store, encode_commit([CommitInfo(timestamp=1), retyped])).failure is None


def test_the_digest_alone_finds_stored_lines_that_changed_after_the_commit(catalog: Catalog, tmp_path: Path) -> None:
    """The lines are well formed, and what is put is what was fetched."""

    def is_found(level: Verification) -> bool:
        table = make_table(catalog, tmp_path, f"t_{level}")
        append(table)
        newest = "SELECT max(commit_id) FROM dl_table_versions"
        rotten = "CAST(replace(CAST(data AS TEXT), '.parquet', '.Parquet') AS BLOB)"
        execute(catalog, f"UPDATE dl_commit_chunks SET data = {rotten} WHERE commit_id = ({newest})")
        with mirror_of(catalog, verify=level.value) as engine:
            found = failure_of(engine, table)
        assert not found or "is damaged in the database" in found
        return len(published_files(table)) == 1

    assert finding(is_found) == [Verification.BASIC, Verification.STRICT, Verification.PARANOID]


def test_rules_before_a_put_alone_find_lines_that_were_encoded_wrongly(tmp_path: Path) -> None:
    """Digest and shape are in order, and so is what is read back."""

    def is_found(level: Verification) -> bool:
        store = store_at(str(tmp_path / level), StorageSettings())
        outcome = at(level, store, commit(size=-1))
        if outcome.failure is not None:
            error = outcome.failure.error
            assert isinstance(error, InvalidAction)
            assert (outcome.failure.stage, error.rule, error.field) == (Stage.CHECK, "add.size.negative", "add.size")
        return commit_key(1) not in log_of(store)

    assert finding(is_found) == [Verification.STRICT, Verification.PARANOID]


def test_lines_of_other_writers_are_carried_as_they_are(store: Store) -> None:
    assert at(Verification.STRICT, store, commit(size=-1), is_verbatim=True).failure is None


def test_reading_back_alone_finds_what_a_store_tore(tmp_path: Path) -> None:
    def is_found(level: Verification) -> bool:
        store = store_at(str(tmp_path / level), StorageSettings())

        def tear(operation: str, key: str) -> object:
            return Created(store.put(key, commit()[:-1])) if (operation, key) == ("create", commit_key(1)) else None

        failure = at(level, watched(store, before=tear)[0], commit()).failure
        assert failure is None or (type(failure.error), failure.stage) == (Diverged, Stage.VERIFY)
        return failure is not None

    assert finding(is_found) == [Verification.STRICT, Verification.PARANOID]


def test_a_reader_alone_finds_a_checkpoint_that_belongs_to_another_table(catalog: Catalog, tmp_path: Path) -> None:
    """Every commit is as it was committed, and readers do not go by the first ones."""
    other = make_table(catalog, tmp_path, "other")
    append(other)
    other.append([add("f.parquet"), add("g.parquet")])
    with mirror_of(catalog, checkpoint_interval=2) as engine:
        assert engine.mirror("other").checkpoint == 2
    checkpoint = tmp_path / "other" / "_delta_log" / f"{2:020}.checkpoint.parquet"

    def is_found(level: Verification) -> bool:
        table = make_table(catalog, tmp_path, f"t_{level}")
        append(table, 2)
        with mirror_of(catalog, verify=level.value, checkpoint_enabled=False) as engine:
            engine.mirror(table.name)
            shutil.copy(checkpoint, tmp_path / table.name / "_delta_log")
            append(table)
            found = failure_of(engine, table)
            [status] = engine.status(table.name)
        assert not found or ("delta-rs reads version 3" in found and "num_files is 4, not 3" in found)
        return status.published == 2

    assert finding(is_found) == [Verification.PARANOID]


def test_a_version_counts_once_a_reader_opened_it(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise OSError("connection reset")

    with mirror_of(catalog, verify="paranoid", retry_base=0.01) as engine:
        with monkeypatch.context() as patched:
            patched.setattr(readings, "open_table", away)
            with pytest.raises(Transient, match="connection reset"):
                engine.mirror("t")
        assert engine.status("t")[0].published == 1
        assert engine.mirror("t").published == 2


def test_our_own_reader_takes_the_place_of_one_that_knows_too_little(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limited(*_: object) -> None:
        raise ValueError("reader feature unknown is not supported")

    monkeypatch.setattr(readings, "open_table", limited)
    with mirror_of(catalog, verify="paranoid") as engine:
        assert engine.mirror("t").published == 2
        (Path(table.location.removeprefix("file://")) / "_delta_log" / f"{1:020}.json").write_bytes(commit())
        append(table)
        with pytest.raises(Internal, match="deltamirror reads version 3"):
            engine.mirror("t")


def _for_all(settings: Settings) -> Settings:
    return local_settings(settings, verify="paranoid")


def _for_some(settings: Settings) -> Settings:
    block = TableBlock(match="other*", values=(("mirror.verify", "paranoid"),))
    return msgspec.structs.replace(local_settings(settings), tables=(block,))


@pytest.mark.parametrize("asking", [_for_all, _for_some])
def test_without_the_reader_that_settings_ask_for_a_mirror_does_not_start(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch, asking: Callable[[Settings], Settings]
) -> None:
    monkeypatch.setattr(delta_rs, "find_spec", lambda _: None)
    with MirrorEngine(settings=asking(Settings()), database=catalog.database) as engine:
        with pytest.raises(MissingExtra, match="delta-rs") as caught:
            engine.run(once=True)
        assert "pip install 'deltamirror[delta-rs]'" in caught.value.hint
    assert published_files(table) == {}


def test_without_the_reader_a_table_that_asks_for_it_is_not_published_unread(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_rs, "find_spec", lambda _: None)
    asking = make_table(catalog, tmp_path, properties={"deltamirror.mirrorVerify": "paranoid"})
    plain = make_table(catalog, tmp_path, "plain")
    with mirror_of(catalog) as engine:
        [failure] = engine.run(once=True).failures
    assert isinstance(failure.error, MissingExtra)
    assert (published_files(asking), len(published_files(plain))) == ({}, 1)


def test_a_version_on_s3_is_opened_with_the_keys_of_the_settings(
    sqlite_lake: str, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    settings = msgspec.structs.replace(local_settings(verify="paranoid"), storage=s3_settings)
    with (
        Catalog(sqlite_lake, settings=settings) as catalog,
        MirrorEngine(settings=settings, database=catalog.database) as engine,
    ):
        append(catalog.create_table("t", location=f"s3://{s3_bucket}/t", schema="id long"))
        assert engine.run(once=True).failures == []
