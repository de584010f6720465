"""A table that the mirror published to Azure (azurite) is read there by delta-rs, version by version."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from deltamirror.config import Settings, StorageSettings
from deltamirror.wiring import open_catalog, open_engine
from tests.support.lakes.copies import Place, checkpoint_alone, copy_table, log_of
from tests.support.lakes.lake import settings_for
from tests.support.lakes.stories import INTERVAL, NEWEST, STORIES, Life
from tests.support.mirrors.local import local_settings
from tests.support.readers.reader import Reader, assert_same_table
from tests.support.servers.azurite_server import ACCOUNT, KEY

pytestmark = [pytest.mark.requirement("R7"), pytest.mark.requirement("R42")]

CHECKPOINTS = [INTERVAL, 2 * INTERVAL]


@pytest.fixture
def settings(sqlite_lake: str, azure_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    # Keys do not travel with units of work: whoever runs one finds its own.
    monkeypatch.setenv("DELTAMIRROR_STORAGE__AZURE_KEY", KEY)
    quick = local_settings(settings_for(sqlite_lake), checkpoint_sidecar_actions=4)
    return changed(quick, storage=azure_settings)


@pytest.fixture(params=["az", "abfss"])
def root(request: pytest.FixtureRequest, azure_container: str) -> str:
    """Where tables lie, in both of the spellings that Azure's locations have."""
    if request.param == "az":
        return f"az://{azure_container}/lake"
    return f"abfss://{azure_container}@{ACCOUNT}.dfs.core.windows.net/lake"


@pytest.fixture(params=["removed", "sidecars", "special"])
def life(request: pytest.FixtureRequest, settings: Settings, root: str, tmp_path: Path) -> Iterator[Life]:
    """A table that lived, and was mirrored whenever a checkpoint was due."""
    story = STORIES[request.param]
    with open_catalog(settings) as catalog, open_engine(settings) as engine:
        life = story.begin(catalog, "t", location=f"{root}/{story.folder}", folder=tmp_path / "data")
        for _ in story.steps(life):
            if life.table.info().head % INTERVAL == 0:
                engine.run(once=True)
        summary = engine.run(once=True)
        assert summary.failures == []
        Place(life.table.location, settings.storage).put(Place(str(life.folder)).objects())
        yield life


@pytest.mark.default_when(
    parameters=lambda those: (those["root"], those["life"]) in (("az", "special"), ("abfss", "sidecars"))
)
def test_delta_rs_sees_every_version_as_sql_does(life: Life, settings: Settings, delta_rs: Reader) -> None:
    place = Place(life.table.location, settings.storage)
    log = log_of(place)
    assert sorted(log.versions("json").values()) == sorted(log.versions("crc").values()) == list(range(NEWEST + 1))
    assert (log.checkpoints, log.pointer) == (CHECKPOINTS, CHECKPOINTS[-1])
    alone = copy_table(place, replace(place, location=f"{place.location}-cut"), checkpoint_alone(NEWEST))
    for where, versions in ((place, range(NEWEST + 1)), (alone, range(CHECKPOINTS[-1], NEWEST + 1))):
        for version in versions:
            found = delta_rs.snapshot(where.location, version, rows=True, store=where.store)
            assert_same_table([life.seen(version), found])
