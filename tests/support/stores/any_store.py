"""An empty store of each kind, for suites that have to pass on all of them."""

from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from deltamirror.config import StorageSettings
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from tests.support.servers.versity_server import VersityServer

STORES = ("memory", "disk", "s3", "versitygw", "azure")
ON_S3_TOO = pytest.mark.default_on("memory", "s3")
"""For what depends on the answers of a store, each of which every store gives in the contract of stores."""


@dataclass(frozen=True)
class StorePlace:
    """Where a table may lie, and how that is reached."""

    location: str
    settings: StorageSettings


@pytest.fixture(params=STORES)
def any_place(request: pytest.FixtureRequest, tmp_path: Path) -> StorePlace:
    """An empty place, once for each kind of store."""
    return place_of(request.param, request, tmp_path)


@pytest.fixture
def any_store(any_place: StorePlace) -> Store:
    """An empty store, once for each kind."""
    return store_at(any_place.location, any_place.settings)


def place_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> StorePlace:
    """An empty place of one kind; its server is started when asked for."""
    match kind:
        case "memory":
            return StorePlace(f"memory://{uuid4()}/lake/table", StorageSettings())
        case "disk":
            return StorePlace(str(folder / "lake" / "table"), StorageSettings())
        case "s3":
            settings = request.getfixturevalue("s3_settings")
            return StorePlace(f"s3://{request.getfixturevalue('s3_bucket')}/lake/table", settings)
        case "versitygw":
            server: VersityServer = request.getfixturevalue("versity_server")
            server.ensure_running()
            return StorePlace(f"s3://{server.create_bucket()}/lake/table", server.settings())
        case "azure":
            settings = request.getfixturevalue("azure_settings")
            return StorePlace(f"az://{request.getfixturevalue('azure_container')}/lake/table", settings)
        case _:
            raise ValueError(f"no such store: {kind}")
