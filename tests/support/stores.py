"""An empty store of each kind, for suites that have to pass on all of them."""

from pathlib import Path
from uuid import uuid4

import pytest

from deltamirror.config import StorageSettings
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store

__all__ = ["STORES", "any_store", "store_of"]

STORES = ("memory", "disk", "s3", "azure")


@pytest.fixture(params=STORES)
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store, once for each kind."""
    return store_of(request.param, request, tmp_path)


def store_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Store:
    """An empty store of one kind; its server is started when asked for."""
    match kind:
        case "memory":
            return store_at(f"memory://{uuid4()}/lake/table", StorageSettings())
        case "disk":
            return store_at(str(folder / "lake" / "table"), StorageSettings())
        case "s3":
            settings = request.getfixturevalue("s3_settings")
            return store_at(f"s3://{request.getfixturevalue('s3_bucket')}/lake/table", settings)
        case "azure":
            settings = request.getfixturevalue("azure_settings")
            return store_at(f"az://{request.getfixturevalue('azure_container')}/lake/table", settings)
        case _:
            raise ValueError(f"no such store: {kind}")
