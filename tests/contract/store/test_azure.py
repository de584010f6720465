"""What a real Azure server says to wrong inputs, and how keys reach it."""

import base64
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltamirror.config import StorageSettings
from deltamirror.errors import NotFound, PermissionDenied, Unavailable
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.open import open_store, store_at
from deltamirror.storage.presence import has_delta_log
from deltamirror.storage.store import Created, Replaced, Store
from tests.support.servers import azurite_server as azurite
from tests.support.servers.azurite_server import ACCOUNT, KEY, AzuriteFailedToStart, AzuriteServer

USES: dict[str, Callable[[Store], Any]] = {
    "create": lambda store: store.create("k", b"x"),
    "put": lambda store: store.put("k", b"x"),
    "read": lambda store: store.read("k"),
    "list": lambda store: list(store.list()),
    "delete": lambda store: store.delete(["k"]),
    "copy": lambda store: store.copy("k", "l"),
}


@pytest.fixture
def keyless(azure_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch) -> StorageSettings:
    """Settings that reach the server, without keys; nothing of the machine's own keys is seen."""
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    return azure_settings.without_credentials()


def at(container: str, settings: StorageSettings) -> Store:
    return open_store(StoreAddress.of(f"az://{container}/lake/table/", settings))


@pytest.mark.requirement("R46")
@pytest.mark.parametrize("use", USES)
def test_a_wrong_key_is_permission_denied(azurite_server: AzuriteServer, azure_container: str, use: str) -> None:
    wrong = azurite_server.settings(base64.b64encode(b"wrong").decode())
    with pytest.raises(PermissionDenied, match="HTTP 403 AuthorizationFailure"):
        USES[use](store_at(f"az://{azure_container}/table", wrong))


@pytest.mark.requirement("R47")
@pytest.mark.parametrize("use", USES)
def test_a_container_that_does_not_exist_is_not_found(azure_settings: StorageSettings, use: str) -> None:
    with pytest.raises(NotFound, match=r"HTTP 404 .*The specified container does not exist") as caught:
        USES[use](store_at("az://no-such-container/table", azure_settings))
    assert "create the bucket" in caught.value.hint


@pytest.mark.requirement("R47")
def test_a_server_that_went_away_is_unavailable_and_back_when_it_is_back(
    azurite_server: AzuriteServer, azure_container: str, azure_settings: StorageSettings
) -> None:
    store = store_at(f"az://{azure_container}/table", azure_settings)
    store.create("k", b"x")
    azurite_server.stop(signal.SIGTERM)
    with pytest.raises(Unavailable):
        store.create("l", b"x")
    azurite_server.start()
    assert isinstance(store.create("l", b"x"), Created)
    assert store.read("k") is not None


def test_what_a_listing_names_a_content_is_what_a_replace_takes(
    azure_container: str, azure_settings: StorageSettings
) -> None:
    store = store_at(f"az://{azure_container}/table", azure_settings)
    store.create("k", b"x")
    (listed,) = store.list()
    assert isinstance(store.replace("k", b"y", if_match=listed.etag), Replaced)


@pytest.mark.requirement("R46")
@pytest.mark.parametrize("variable", ["AZURE_STORAGE_ACCOUNT_KEY", "DELTAMIRROR_STORAGE__AZURE_KEY"])
def test_the_key_comes_from_the_environment(
    keyless: StorageSettings, azure_container: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, KEY)
    assert isinstance(at(azure_container, keyless).create("k", b"x"), Created)


@pytest.mark.requirement("R46")
def test_without_any_key_it_is_permission_denied(
    keyless: StorageSettings, azure_container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine in a cloud would find an identity of its own there.
    monkeypatch.setenv("AZURE_MSI_ENDPOINT", "http://127.0.0.1:1/metadata/identity/oauth2/token")
    with pytest.raises(PermissionDenied, match="there are no credentials"):
        at(azure_container, keyless).create("k", b"x")


@pytest.mark.requirement("R42")
def test_both_spellings_of_a_location_lead_to_the_same_objects(
    azure_container: str, azure_settings: StorageSettings
) -> None:
    store_at(f"az://{azure_container}/table", azure_settings).create("k", b"x")
    other = store_at(f"abfss://{azure_container}@{ACCOUNT}.dfs.core.windows.net/table", azure_settings)
    found = other.read("k")
    assert found is not None
    assert found.data == b"x"


def test_a_log_is_present_when_there_is_an_object_in_it(azure_container: str, azure_settings: StorageSettings) -> None:
    location = f"az://{azure_container}/lake/table"
    assert not has_delta_log(location, azure_settings)
    store_at(location, azure_settings).put("_delta_log/00000000000000000000.json", b"{}")
    assert has_delta_log(location, azure_settings)


def test_a_server_that_is_not_installed_fails_whoever_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(azurite, "_PACKAGE", tmp_path / "missing")
    with pytest.raises(AzuriteFailedToStart, match="make test"), azurite.started_azurite():
        pass
