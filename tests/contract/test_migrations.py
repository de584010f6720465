"""A catalog of an older release becomes one of this release, and keeps everything that it holds.

The default suite begins with every release on SQLite, and elsewhere with the oldest, whose way goes through all others,
and with the newest.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, create_engine, inspect, text

from deltamirror import Catalog
from deltamirror.config.overrides import switched_by
from deltamirror.errors import CatalogMismatch
from deltamirror.txnlog.database.migrations import SCHEMA_VERSION, _to_version_7
from tests.support.databases import schema_v1, schema_v2, schema_v3, schema_v4, schema_v5, schema_v6
from tests.support.databases.emptied import lake_url_of
from tests.support.lakes.lake import add, opened, paths
from tests.support.mirrors.claims import claimed, published, record, status_of, work_on

pytestmark = [
    pytest.mark.requirement("R107"),
    pytest.mark.default_when(
        parameters=lambda those: those["catalog_url"] == "sqlite" or those.get("schema") in (None, schema_v1)
    ),
]
FROM_THE_OLDEST = pytest.mark.default_when(parameters=lambda those: those["schema"] is schema_v1)
"""By all migrations, one after the other; what each of them leaves is compared with a fresh catalog."""

RELEASED = [
    pytest.param(schema, id=f"from version {number}")
    for number, schema in enumerate((schema_v1, schema_v2, schema_v3, schema_v4, schema_v5, schema_v6), 1)
]

SHAPE = {
    "postgresql": (
        "SELECT table_name, ordinal_position, column_name, data_type, is_nullable, column_default,"
        " col_description(table_name::regclass, ordinal_position)"
        " FROM information_schema.columns WHERE table_name LIKE 'dl%'",
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid::regclass::text LIKE 'dl%'",
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE tablename LIKE 'dl%'",
        "SELECT proname, prosrc FROM pg_proc WHERE proname LIKE 'dl%'",
        "SELECT viewname, definition FROM pg_views WHERE viewname LIKE 'dl%'",
        "SELECT relname, obj_description(oid) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'dl%'",
    ),
    "sqlite": (
        "SELECT m.name, c.* FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'",
        'SELECT m.name, l.name, l."unique", l.origin, i.seqno, i.name FROM sqlite_master m,'
        " pragma_index_list(m.name) l, pragma_index_info(l.name) i WHERE m.type = 'table'",
        "SELECT name, sql FROM sqlite_master WHERE type IN ('view', 'index')",
    ),
    "duckdb": (
        "SELECT table_name, column_index, column_name, data_type, is_nullable, column_default, comment"
        " FROM duckdb_columns()",
        "SELECT table_name, constraint_type, constraint_text FROM duckdb_constraints()",
        "SELECT table_name, index_name, sql FROM duckdb_indexes()",
        "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal",
        "SELECT table_name, comment FROM duckdb_tables()",
    ),
}


def engine_of(url: str) -> str:
    return url.partition(":")[0]


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def shape(url: str) -> list[tuple[object, ...]]:
    """Tables, columns in their order, types, nullability, keys, checks, indexes, views, functions, comments."""
    with connected(url) as connection:
        found = [tuple(row) for query in SHAPE[engine_of(url)] for row in connection.execute(text(query))]
        if engine_of(url) == "sqlite":
            looking = inspect(connection)
            found += [(name, check["sqltext"]) for name in looking.get_table_names()
                      for check in looking.get_check_constraints(name)]  # fmt: skip
    return sorted(found, key=repr)


def stored(url: str, schema: ModuleType) -> dict[str, list[dict[str, Any]]]:
    """The rows of the catalog, with the columns that an older schema has."""
    with connected(url) as connection:
        return {
            table: [
                {name: bytes(value) if isinstance(value, memoryview) else value for name, value in row.items()}
                for row in connection.execute(
                    text(f"SELECT {', '.join(rows[0])} FROM {table} ORDER BY 1, 2")
                ).mappings()
            ]
            for table, rows in schema.rows().items()
        }


@pytest.fixture(params=RELEASED)
def schema(request: pytest.FixtureRequest) -> ModuleType:
    """The schema of an older release."""
    found: ModuleType = request.param
    return found


@pytest.fixture
def old_url(catalog_url: str, schema: ModuleType) -> str:
    """A catalog of an older release with a table in it."""
    with connected(catalog_url) as connection:
        for statement in schema.statements(engine_of(catalog_url)):
            connection.execute(text(statement))
        for table, rows in schema.rows().items():
            for row in rows:
                marks = ", ".join(f":{name}" for name in row)
                connection.execute(text(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"), row)
    return catalog_url


@pytest.fixture
def fresh_url(catalog_url: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    (tmp_path / "fresh").mkdir()
    return lake_url_of(engine_of(catalog_url), request, tmp_path / "fresh")


def migrated(url: str) -> str:
    with Catalog(url) as catalog:
        assert catalog.init() == SCHEMA_VERSION
    return url


def test_a_migrated_catalog_has_the_shape_of_a_fresh_one(old_url: str, fresh_url: str) -> None:
    assert shape(old_url) != shape(fresh_url)
    assert shape(migrated(old_url)) == shape(fresh_url)


def test_a_migration_keeps_every_row(old_url: str, schema: ModuleType) -> None:
    before = stored(old_url, schema)
    assert {table: len(rows) for table, rows in before.items()} == {t: len(r) for t, r in schema.rows().items()}
    assert stored(migrated(migrated(old_url)), schema) == before
    with connected(old_url) as connection:
        facts = {row.key: row.value for row in connection.execute(text("SELECT key, value FROM dl_catalog"))}
    assert facts == {"application": "deltamirror", "schema_version": str(SCHEMA_VERSION)}


@FROM_THE_OLDEST
def test_an_older_catalog_is_refused_until_it_is_migrated(old_url: str) -> None:
    with Catalog(old_url) as catalog:
        acts: tuple[Callable[[], object], ...] = (catalog.check, catalog.tables, lambda: catalog.table("t"))
        for act in acts:
            with pytest.raises(CatalogMismatch, match=r"schema version [123456]$") as caught:
                act()
            assert "deltamirror init" in caught.value.hint
        catalog.init()
        assert [info.name for info in catalog.tables()] == ["t"]


@pytest.mark.requirement("R25")
@FROM_THE_OLDEST
def test_a_migrated_catalog_is_committed_to_and_mirrored(old_url: str) -> None:
    with opened(migrated(old_url)) as catalog:
        table = catalog.table("t")
        assert table.append([add("b")]).versions == {"t": 2}
        assert table.append([add("c")], token="through the general path").versions == {"t": 3}
        assert paths(table) == ["a", "b", "c"]
        assert table.commit_file(1).endswith(b'"dataChange":true}}\n')
        [found] = claimed(catalog)
        assert (found.published, found.head) == (0, 3)
        assert record(catalog, published(found.lease, 1)).published == 1
        assert status_of(catalog).pending == 2
        work_on(catalog)
        assert status_of(catalog).lag_versions == 0


@pytest.mark.requirement("R116")
def test_a_migration_keeps_what_tables_say_of_their_mirror_by_their_property(
    catalog_url: str,
) -> None:
    name = "deltamirror.mirrorEnabled"
    said = {name: ("true", "false", "True", "FALSE", "1", "0", "maybe"), name.upper(): ("false",), "k": (name,)}
    properties = dict(enumerate(["", *(f'"{key}":"{each}"' for key, values in said.items() for each in values)]))
    with connected(catalog_url) as connection:
        for statement in schema_v5.statements(engine_of(catalog_url)):
            connection.execute(text(statement))
        for version, configured in properties.items():
            row = {"version": version, "line": f'{{"metaData":{{"id":"1","configuration":{{{configured}}}}}}}'}
            connection.execute(
                text("INSERT INTO dl_metadata (table_id, version, line) VALUES (1, :version, :line)"), row
            )
    with connected(migrated(catalog_url)) as connection:
        found = connection.execute(text("SELECT mirror_enabled FROM dl_metadata ORDER BY version")).scalars().all()
    expected = [switched_by(msgspec.json.decode(f"{{{configured}}}")) for configured in properties.values()]
    assert [None if each is None else bool(each) for each in found] == expected
    assert expected == [None, True, False, True, False, True, False, None, None, None]


def test_records_of_maintenance_are_kept_and_take_a_further_chore(catalog_url: str) -> None:
    columns = "table_id, chore, version, num_files, num_bytes, attempts"
    engine = engine_of(catalog_url)
    with connected(catalog_url) as connection:
        for statement in (*schema_v6.statements(engine), *_to_version_7(engine)):
            connection.execute(text(statement))
        connection.execute(text(f"INSERT INTO dl_maintenance ({columns}) VALUES (1, 'vacuum', 7, 2, 3, 4)"))
        connection.execute(text("UPDATE dl_catalog SET value = '8' WHERE key = 'schema_version'"))
    migrated(catalog_url)
    with connected(catalog_url) as connection:
        connection.execute(text(f"INSERT INTO dl_maintenance ({columns}) VALUES (1, 'compact', 9, 0, 0, 0)"))
        found = connection.execute(text(f"SELECT {columns} FROM dl_maintenance ORDER BY chore")).all()
    assert [tuple(row) for row in found] == [(1, "compact", 9, 0, 0, 0), (1, "vacuum", 7, 2, 3, 4)]
