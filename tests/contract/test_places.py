"""One folder, and one log, is one table, whichever path or address leads there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from deltamirror import Catalog
from deltamirror.catalog import catalog as catalog_module
from deltamirror.catalog import places
from deltamirror.config import StorageSettings
from deltamirror.errors import AlreadyExists, DeltaMirrorError, InvalidLocation
from deltamirror.ops.imports.importing import ImportOrder
from deltamirror.ops.rebuild.rebuilding import rebuild
from deltamirror.storage import clients
from deltamirror.storage.open import store_at
from deltamirror.storage.presence import has_delta_log
from deltamirror.txnlog.tables import registry
from deltamirror.txnlog.tables.registry import insert_table, overlapping_table
from tests.support.databases.catalogs import ENGINES
from tests.support.imports.foreign_logs import HISTORY, put_log
from tests.support.imports.importers import imported, importer_of
from tests.support.imports.takers import IMPORTED, taken_at_once
from tests.support.lakes.lake import opened, row_counts

LOG = dict(enumerate(HISTORY))


@pytest.fixture
def catalog(sqlite_lake: str) -> Iterator[Catalog]:
    with opened(sqlite_lake) as found:
        yield found


@pytest.fixture
def links(tmp_path: Path) -> Path:
    """A folder with the folder ``blue``, and ``current``, which leads to it."""
    (tmp_path / "blue").mkdir()
    (tmp_path / "current").symlink_to("blue")
    return tmp_path


def create(catalog: Catalog, name: str, location: Path) -> None:
    catalog.create_table(name, location=location, schema="id long")


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_behind_a_link_is_the_same_folder(catalog: Catalog, links: Path, exists: bool) -> None:
    create(catalog, "t", links / "blue" / "t")
    if exists:
        (links / "blue" / "t").mkdir()
    with pytest.raises(AlreadyExists) as refused:
        create(catalog, "u", links / "current" / "t")
    assert (refused.value.table, refused.value.location) == ("t", f"file://{links}/current/t")
    assert f"{links}/current/t is the folder file://{links}/blue/t, which belongs to the table 't'" in str(
        refused.value
    )
    with pytest.raises(InvalidLocation, match="lie in one another, through a link"):
        create(catalog, "u", links / "current" / "t" / "inner")
    with pytest.raises(InvalidLocation, match="lie in one another, through a link"):
        create(catalog, "u", links / "current")
    create(catalog, "u", links / "current" / "u")
    with pytest.raises(AlreadyExists):
        create(catalog, "v", links / "blue" / "u")
    assert [table.location for table in catalog.tables()] == [f"file://{links}/blue/t", f"file://{links}/current/u"]


def test_a_link_counts_for_the_folder_that_it_leads_to_at_the_time(catalog: Catalog, links: Path) -> None:
    create(catalog, "t", links / "current" / "t")
    (links / "current").unlink()
    (links / "current").symlink_to("green")  # which is not there yet
    create(catalog, "u", links / "blue" / "t")
    with pytest.raises(AlreadyExists):
        create(catalog, "v", links / "green" / "t")


def test_a_link_that_leads_nowhere_is_a_place_of_its_own(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    create(catalog, "t", tmp_path / "t")
    with pytest.raises(DeltaMirrorError, match="loop"):
        create(catalog, "u", tmp_path / "loop" / "t")


@pytest.mark.parametrize("act", ["run", "check"])
def test_a_table_is_imported_once_whichever_path_leads_to_it(catalog: Catalog, links: Path, act: str) -> None:
    there = store_at(str(links / "blue" / "t"), StorageSettings())
    put_log(there, LOG)
    imported(catalog, there)
    with importer_of(catalog) as (importer, reader), pytest.raises(AlreadyExists, match="by another path"):
        getattr(importer, act)(ImportOrder(location=str(links / "current" / "t"), name="u"))
    assert reader.slices == []


@pytest.mark.parametrize("act", ["create", "import"])
def test_a_folder_that_is_taken_in_meanwhile_by_another_path_is_refused(
    catalog: Catalog, links: Path, sqlite_lake: str, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    others = iter([links / "blue" / "t"])

    def meanwhile(other: Catalog) -> None:
        for location in others:
            create(other, "t", location)

    with opened(sqlite_lake) as other:
        if act == "create":

            def looked(*given: Any) -> bool:
                meanwhile(other)
                return has_delta_log(*given)

            monkeypatch.setattr(catalog_module, "has_delta_log", looked)
            with pytest.raises(AlreadyExists, match="by another path"):
                create(catalog, "u", links / "current" / "t")
        else:
            there = store_at(str(links / "current" / "t"), StorageSettings())
            put_log(there, LOG)
            monkeypatch.setattr(catalog_module, "has_delta_log", lambda *_: False)
            with pytest.raises(AlreadyExists, match="by another path"):
                imported(catalog, there, meddling=lambda _: meanwhile(other))
    assert [table.name for table in catalog.tables()] == ["t"]
    assert row_counts(catalog)["dl_imports"] == 0


def test_of_two_processes_that_take_one_folder_in_by_two_paths_one_wins(links: Path, sqlite_lake: str) -> None:
    folders = [f"{kind}{number}" for number in range(4) for kind in ("created", IMPORTED)]
    for folder in folders:
        if folder.startswith(IMPORTED):
            put_log(store_at(str(links / "blue" / folder), StorageSettings()), LOG)
    told = taken_at_once(sqlite_lake, [f"{links}/blue", f"/{links}/current"], folders)
    assert [sorted(pair) for pair in zip(*told, strict=True)] == [["already-exists", "taken"]] * len(folders)
    with opened(sqlite_lake) as catalog:
        assert len(catalog.tables()) == len(folders)


@pytest.mark.default_on(*ENGINES)
def test_the_database_itself_keeps_two_tables_from_one_location(accepting: Catalog) -> None:
    def insert(table_id: int) -> None:
        with accepting.database.write() as session:
            insert_table(session, table_id, name=f"t{table_id}", location="file:///nowhere/t", created_at=0)

    insert(1)
    with pytest.raises(DeltaMirrorError, match="location"):
        insert(2)


def test_a_log_is_not_rebuilt_into_a_table_behind_a_link(catalog: Catalog, links: Path) -> None:
    create(catalog, "t", links / "blue" / "t")
    with pytest.raises(AlreadyExists, match="by another path"):
        rebuild(catalog.database, "t", to=store_at(str(links / "current" / "t"), StorageSettings()))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket that has a second name, as an access point of S3 is one: with ``-alias`` behind it."""
    name, plain = str(uuid4()), clients._memory
    monkeypatch.setattr(clients, "_memory", lambda bucket: plain(bucket.removesuffix("-alias")))
    return name


@pytest.mark.parametrize("act", ["run", "check"])
def test_a_log_behind_another_address_is_known_by_its_objects(catalog: Catalog, bucket: str, act: str) -> None:
    there = store_at(f"memory://{bucket}/t", StorageSettings())
    put_log(there, LOG)
    imported(catalog, there)
    alias = ImportOrder(location=f"memory://{bucket}-alias/t", name="u")
    with importer_of(catalog) as (importer, _), pytest.raises(AlreadyExists, match="the same objects") as refused:
        getattr(importer, act)(alias)
    assert (refused.value.table, refused.value.location) == ("t", there.location)
    assert [table.name for table in catalog.tables()] == ["t"]


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_copy_of_a_log_is_a_table_of_its_own(catalog: Catalog, tmp_path: Path, kind: str) -> None:
    root = str(tmp_path) if kind == "disk" else f"memory://{uuid4()}"
    origin, copy = (store_at(f"{root}/{name}", StorageSettings()) for name in ("t", "copy"))
    put_log(origin, LOG)
    put_log(copy, LOG)
    imported(catalog, origin)
    with importer_of(catalog) as (importer, _):
        importer.run(ImportOrder(location=copy.location, name="copy"))
    assert [table.name for table in catalog.tables()] == ["copy", "t"]


def test_no_list_of_tables_is_needed_to_create_one_in_a_store(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would make the creation of each table slower than that of the last."""

    def refuse(*_: object) -> None:
        raise AssertionError("all tables are asked for")

    for module in (registry, places):
        monkeypatch.setattr(module, "places_on_disk", refuse)
    monkeypatch.setattr(registry, "list_tables", refuse)
    catalog.create_table("t", location="memory://no-list/t", schema="id long")
    with pytest.raises(InvalidLocation, match="'t', memory://no-list/t, lie in one another"):
        catalog.create_table("u", location="memory://no-list/t/u", schema="id long")
    catalog.create_table("u", location="memory://no-list/tu", schema="id long")
    catalog.create_table("v", location="memory://no-list/T", schema="id long")


@pytest.mark.parametrize(
    ("location", "other"),
    [
        ("s3://bucket/a", "s3://bucket/a"),
        ("s3://bucket/a/b", "s3://bucket/a"),
        ("s3://bucket/a", "s3://bucket/a/b/c"),
        ("s3://bucket/a", "s3://bucket/"),
        ("s3://bucket/", "s3://bucket/a"),
        ("s3://bucket/a_b/c", "s3://bucket/a_b"),
        ("az://box/a", "abfs://box@account.host/a/b"),
        ("abfs://box@account.host/a/b", "az://box/a"),
        ("abfs://box@account.host/a", "abfs://box@account.host/a/b"),
    ],
)
def test_locations_that_lie_in_one_another_are_found(catalog: Catalog, location: str, other: str) -> None:
    with catalog.database.write() as session:
        insert_table(session, 90, name="other", location=other, created_at=0)
        assert overlapping_table(session.connection, location) == ("other", other)


@pytest.mark.parametrize(
    ("location", "other"),
    [
        ("s3://bucket/a", "s3://bucket/ab"),
        ("s3://bucket/ab", "s3://bucket/a"),
        ("s3://bucket/a_b/c", "s3://bucket/a%b"),
        ("s3://bucket/a%", "s3://bucket/ab/c"),
        ("s3://bucket/a", "gs://bucket/a"),
        ("az://box/a", "abfs://other@account.host/a/b"),
        ("file:///lake/t", "file:///lake/T/x"),
    ],
)
def test_locations_beside_one_another_are_free(catalog: Catalog, location: str, other: str) -> None:
    with catalog.database.write() as session:
        insert_table(session, 90, name="other", location=other, created_at=0)
        assert overlapping_table(session.connection, location) is None
