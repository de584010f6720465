"""Every reference log that can be imported comes back from SQL: its commits bit for bit, and every state."""

import shutil
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.config import StorageSettings
from deltamirror.ops.diff import compare
from deltamirror.ops.importing import Imported, ImportOrder
from deltamirror.ops.rebuild import rebuild
from deltamirror.ops.sides import location_state, table_state
from deltamirror.storage.open import store_at
from deltamirror.wiring import open_importer
from tests.support.lake import opened
from tests.support.logfolder import read_log
from tests.support.mirrors import local_settings
from tests.support.reference import LOGS, WITHOUT_METADATA, WITHOUT_PROTOCOL, WITHOUT_SCHEMA, name_of

pytestmark = pytest.mark.requirement("R66")

REFUSED = {"golden/deltalog-invalid-protocol-version", *WITHOUT_SCHEMA, *WITHOUT_METADATA, *WITHOUT_PROTOCOL}
IMPORTABLE = [log for log in LOGS if name_of(log) not in REFUSED]


def test_most_reference_logs_can_be_imported() -> None:
    assert len(IMPORTABLE) > 90


def imported(catalog: Catalog, folder: Path) -> Imported:
    with open_importer(catalog, local_settings(), runner="local") as importer:
        return importer.run(ImportOrder(location=str(folder), name="t"))


@pytest.mark.parametrize("log", IMPORTABLE, ids=name_of)
def test_an_imported_log_is_rebuilt_bit_for_bit_and_says_the_same(log: Path, sqlite_lake: str, tmp_path: Path) -> None:
    home, again = tmp_path / "home", tmp_path / "again"
    shutil.copytree(log, home / "_delta_log")
    stores = [store_at(str(folder), StorageSettings()) for folder in (home, again)]
    with opened(sqlite_lake) as catalog:
        done = imported(catalog, home)
        rebuild(catalog.database, "t", to=stores[1], checkpoints=True)
        published = {version: data for version, data in read_log(home).items() if version >= done.first}
        assert read_log(again) == published
        for version in range(done.first, done.last + 1):
            state = table_state(catalog.database, "t", version)
            for found in (compare(state, location_state(store, version)) for store in stores):
                assert found.equal, (version, found.first)
