from pathlib import Path

import pytest
from obstore.store import S3Store

from deltamirror.config import Secret, StorageSettings
from deltamirror.errors import InvalidSettings
from deltamirror.storage.calls import BoundedStore
from deltamirror.storage.object_store import ObjectStore
from deltamirror.storage.open import store_at


def client_of(location: str, settings: StorageSettings) -> ObjectStore:
    store = store_at(location, settings)
    assert isinstance(store, BoundedStore)
    assert isinstance(store.inner, ObjectStore)
    return store.inner


@pytest.mark.requirement("R42")
@pytest.mark.parametrize(
    ("location", "kind", "path", "tag"),
    [
        ("s3://bucket/a/b", "S3Store", "a/b", "e_tag"),
        ("s3a://bucket/a//b/", "S3Store", "a/b", "e_tag"),
        ("gs://bucket/a", "GCSStore", "a", "version"),
        ("az://container/a", "AzureStore", "a", "e_tag"),
        ("abfss://container@account.dfs.core.windows.net/a", "AzureStore", "a", "e_tag"),
        ("memory://any/a", "MemoryStore", "a", "e_tag"),
    ],
)
def test_every_scheme_has_its_store(location: str, kind: str, path: str, tag: str) -> None:
    settings = StorageSettings(azure_account="account", azure_key=Secret("a2V5"))
    store = client_of(location, settings)
    assert type(store.clients.calls).__name__ == kind
    assert (store.path, store.clients.tag) == (path, tag)


def test_the_tables_of_a_bucket_share_its_clients() -> None:
    mine, yours = (StorageSettings(access_key_id=name, secret_access_key=Secret("s")) for name in ("me", "you"))
    one, other = (client_of(f"s3://bucket/{name}", mine) for name in "xy")
    assert one.clients is other.clients
    assert client_of("s3://bucket/x", yours).clients is not one.clients


@pytest.mark.parametrize(
    ("location", "settings"),
    [
        ("s3://bucket/x", StorageSettings(access_key_id="without a secret")),
        ("az://container/x", StorageSettings(azure_account="a", azure_key=Secret("not base64!"))),
        ("gs://bucket/x", StorageSettings(google_credentials="/no/such/file")),
    ],
)
def test_settings_that_make_no_client_are_told_before_anything_is_asked(
    location: str, settings: StorageSettings
) -> None:
    with pytest.raises(InvalidSettings, match="cannot use") as caught:
        store_at(location, settings)
    assert "not base64!" not in caught.value.message


def test_a_certificate_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    with pytest.raises(InvalidSettings, match="cannot use"):
        store_at("s3://bucket/x", StorageSettings(ca_file=str(tmp_path / "ca.pem")))


@pytest.mark.requirement("R46")
def test_times_and_retries_are_those_of_the_settings() -> None:
    store = client_of("s3://bucket/x", StorageSettings(timeout=7, transfer_timeout=70, retries=4, region="eu-west-1"))
    for client, seconds, words in ((store.clients.calls, 7, "7s"), (store.clients.transfers, 70, "1m 10s")):
        assert isinstance(client, S3Store)
        assert client.client_options is not None
        assert client.client_options["timeout"] == words
        assert client.retry_config is not None
        assert client.retry_config["max_retries"] == 4
        assert client.retry_config["retry_timeout"].total_seconds() == seconds
        assert client.config["region"] == "eu-west-1"


@pytest.mark.requirement("R46")
@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
def test_a_key_with_a_line_break_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "canary\n")
    with pytest.raises(InvalidSettings, match=f"{name} has a line break") as caught:
        store_at(f"s3://bucket-for-{name.lower()}/t", StorageSettings(region="x"))
    assert "canary" not in str(caught.value)
