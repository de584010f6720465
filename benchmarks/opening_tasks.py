"""What the processes do that measure the opening of tables; each has a fresh process for itself."""

import statistics
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

from deltalake import DeltaTable

from benchmarks.adds import PARTITION_COLUMN
from benchmarks.child import seconds_of
from benchmarks.copies import connected
from benchmarks.lab import Place
from benchmarks.publish_tasks import settings_of
from benchmarks.stock_spark import opener, stock_session
from deltamirror import Catalog
from deltamirror.ops.imports.importing import ImportOrder
from deltamirror.wiring import open_importer

_DAY: Final = "2024-03-05"
_TIMES: Final = 7
_LONG_SECONDS: Final = 1.0
_CONDITION: Final = f"{PARTITION_COLUMN} = '{_DAY}'"


def import_tables(*, place: dict[str, str], locations: dict[str, str]) -> None:
    """Bring tables into a catalog, by name."""
    settings = settings_of(Place(**place))
    with Catalog(settings=settings) as catalog, open_importer(catalog, settings, runner="local") as importer:
        for name, location in locations.items():
            importer.run(ImportOrder(location=location, name=name))


def write_checkpoint(*, folder: str) -> None:
    """A checkpoint of the newest version, as delta-rs writes it."""
    DeltaTable(folder).create_checkpoint()


def by_deltamirror(*, place: dict[str, str], warm: str, name: str) -> dict[str, float]:
    """Seconds from the address of a database to all files of a table, and to a scan of one day of it."""
    url = Place(**place).url

    def files(table: str) -> object:
        with Catalog(url) as catalog:
            return catalog.table(table).snapshot().files()

    def plan(table: str) -> object:
        with Catalog(url) as catalog:
            return catalog.table(table).scan(filter=_CONDITION)

    return _measured({"list": files, "plan": plan}, warm, name)


def by_driver(*, place: dict[str, str], name: str) -> dict[str, float]:
    """Seconds in which the driver alone connects and fetches the rows of these files, as Python has them."""
    where = Place(**place)
    found = "SELECT f.*, v.version FROM dl_files f JOIN dl_table_versions v ON v.commit_id = f.commit_id"
    of_table = f"{found} WHERE f.table_id = (SELECT table_id FROM dl_tables WHERE name = '{name}')"
    of_day = f"{of_table} AND f.partition_values LIKE '%{_DAY}%'"

    def fetched(query: str) -> int:
        with closing(connected(where)) as connection:
            return len(connection.cursor().execute(query).fetchall())

    assert 0 < fetched(of_day) < fetched(of_table)
    works = {"list": lambda _: fetched(of_table), "plan": lambda _: fetched(of_day)}
    return _measured(works, name, name)


def by_delta_rs(*, warm: str, folder: str) -> dict[str, float]:
    """The same from the log, by delta-rs."""
    day = [(PARTITION_COLUMN, "=", _DAY)]
    works = {"list": _all_files, "plan": lambda location: DeltaTable(location).file_uris(day)}
    return _measured(works, warm, folder)


def by_delta_spark(*, warm: str, folder: str) -> dict[str, float]:
    """The same by Delta Spark, which keeps no table open."""
    spark = stock_session()
    opened = opener(spark)
    works = {"list": opened, "plan": lambda location: opened(location, _CONDITION)}
    found = _measured(works, warm, folder)
    spark.stop()
    return found


def _all_files(location: str) -> object:
    return DeltaTable(location).get_add_actions()


def _measured(works: Mapping[str, Callable[[str], object]], warm: str, table: str) -> dict[str, float]:
    """Seconds by work. A small table is opened first: modules and classes that are loaded are not counted."""
    return {what: _seconds(work, warm, table) for what, work in works.items()}


def _seconds(work: Callable[[str], object], warm: str, table: str) -> float:
    """The median of some times: each opens the table anew. What takes seconds is done once."""
    work(warm)
    taken = [seconds_of(work, table)]
    while len(taken) < _TIMES and taken[0] < _LONG_SECONDS:
        taken.append(seconds_of(work, table))
    return statistics.median(taken)
