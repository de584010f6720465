"""What two real S3 servers say to wrong inputs, and how keys reach it."""

import hashlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from deltamirror.config import Secret, StorageSettings
from deltamirror.errors import NotFound, PermissionDenied, Unavailable
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.open import open_store, store_at
from deltamirror.storage.presence import has_delta_log
from deltamirror.storage.store import Created, Store
from tests.support.servers.s3 import ON_BOTH_SERVERS
from tests.support.servers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, S3Server

pytestmark = [ON_BOTH_SERVERS, pytest.mark.requirement("R41")]

WRITER = """
import hashlib, os, sys
from deltamirror.config import load
from deltamirror.storage.open import store_at
store = store_at(sys.argv[1], load(environment=os.environ).settings.storage)
print("ready", flush=True)
copies = 33 if sys.argv[2] == "multipart" else 1
for number in range(10_000):
    content = os.urandom(2 << 20)
    data = (hashlib.sha256(content).digest() + content) * copies
    store.put("overwritten", data)
    print("put", flush=True)
    store.create(f"{sys.argv[2]}-{number}", data)
"""


@pytest.fixture
def keyless(s3_server: S3Server, s3_bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StorageSettings:
    """Settings that reach the server, without keys; nothing of the machine's own keys is seen."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return s3_server.settings().without_credentials()


def at(bucket: str, settings: StorageSettings) -> Store:
    return open_store(StoreAddress.of(f"s3a://{bucket}/lake/table/", settings))


@pytest.mark.requirement("R46")
def test_a_wrong_key_is_permission_denied(s3_server: S3Server, s3_bucket: str) -> None:
    store = store_at(f"s3://{s3_bucket}/table", s3_server.settings(secret="wrong"))
    with pytest.raises(PermissionDenied, match="SignatureDoesNotMatch"):
        store.create("k", b"x")
    for use in (
        lambda: store.read("k"),
        lambda: store.head("k"),
        lambda: list(store.list()),
        lambda: store.delete(["k"]),
    ):
        with pytest.raises(PermissionDenied):
            use()


@pytest.mark.requirement("R47")
def test_a_bucket_that_does_not_exist_is_not_found(s3_server: S3Server) -> None:
    store = store_at("s3://no-such-bucket/table", s3_server.settings())
    for use in (
        lambda: store.create("k", b"x"),
        lambda: store.put("k", b"x"),
        lambda: store.read("k"),
        lambda: list(store.list()),
        lambda: store.delete(["k"]),
    ):
        with pytest.raises(NotFound, match="NoSuchBucket") as caught:
            use()
        assert "create the bucket" in caught.value.hint


@pytest.mark.requirement("R47")
def test_a_server_that_went_away_is_unavailable_and_back_when_it_is_back(
    s3_server: S3Server, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    store = store_at(f"s3://{s3_bucket}/table", s3_settings)
    store.create("k", b"x")
    s3_server.stop()
    with pytest.raises(Unavailable):
        store.create("l", b"x")
    s3_server.start()
    assert isinstance(store.create("l", b"x"), Created)
    assert store.read("k") is not None


@pytest.mark.requirement("R46")
def test_keys_come_from_the_environment(
    keyless: StorageSettings, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    at(s3_bucket, keyless).create("k", b"x")


@pytest.mark.requirement("R46")
def test_keys_come_from_our_own_variables_where_the_store_is_opened(
    keyless: StorageSettings, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELTAMIRROR_STORAGE__ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY", SECRET_KEY)
    at(s3_bucket, keyless).create("k", b"x")


@pytest.mark.requirement("R46")
@pytest.mark.parametrize("how", ["setting", "variable", "default"])
def test_keys_come_from_a_profile(
    keyless: StorageSettings, s3_bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    name = "default" if how == "default" else "lake"
    (tmp_path / ".aws").mkdir()
    keys = f"[{name}]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    (tmp_path / ".aws" / "credentials").write_text(keys)
    settings = keyless
    if how == "setting":
        settings = StorageSettings(profile="lake", allow_http=True)
        monkeypatch.setenv("AWS_ENDPOINT_URL", str(keyless.endpoint))
        monkeypatch.setenv("AWS_REGION", REGION)
    if how == "variable":
        monkeypatch.setenv("AWS_PROFILE", "lake")
    at(s3_bucket, settings).create("k", b"x")


@pytest.mark.requirement("R46")
def test_without_any_keys_it_is_permission_denied(
    keyless: StorageSettings, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine in a cloud would find an identity of its own there.
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(PermissionDenied, match="there are no credentials"):
        at(s3_bucket, keyless).create("k", b"x")


def test_a_log_is_present_when_there_is_an_object_in_it(s3_bucket: str, s3_settings: StorageSettings) -> None:
    location = f"s3://{s3_bucket}/lake/table"
    assert not has_delta_log(location, s3_settings)
    store_at(location, s3_settings).put("_delta_log/00000000000000000000.json", b"{}")
    assert has_delta_log(location, s3_settings)


@pytest.mark.requirement("R43")
@pytest.mark.crash
@pytest.mark.default_when(parameters=lambda those: those["s3_server"] == "seaweedfs")
def test_an_uploader_killed_at_any_moment_leaves_no_short_object(
    s3_server: S3Server, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    location = f"s3://{s3_bucket}/table"
    environment = {
        **os.environ,
        "DELTAMIRROR_STORAGE__ACCESS_KEY_ID": ACCESS_KEY,
        "DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY": SECRET_KEY,
        "DELTAMIRROR_STORAGE__ENDPOINT": s3_server.endpoint,
        "DELTAMIRROR_STORAGE__ALLOW_HTTP": "true",
        "PYTHONPATH": str(Path(__file__).parents[3] / "src"),
    }
    for writer in ("1", "2", "3", "multipart"):
        command = [sys.executable, "-c", WRITER, location, writer]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        if writer == "1":
            process.stdout.readline()  # there is an object to look at, however slow the server is
        time.sleep(random.uniform(0.2, 0.8))
        process.kill()
        process.wait()
        process.stdout.close()
    store = store_at(location, s3_settings)
    listed = list(store.list())
    assert listed
    for meta in listed:
        found = store.read(meta.key)
        assert found is not None
        part = found.data[: len(found.data) // 33] if len(found.data) > 4 << 20 else found.data
        assert found.data == part * (len(found.data) // len(part))
        assert hashlib.sha256(part[32:]).digest() == part[:32], meta.key


def test_a_session_token_is_sent(s3_bucket: str, s3_settings: StorageSettings) -> None:
    settings = replace(s3_settings, session_token=Secret("of nobody"))
    with pytest.raises(PermissionDenied):
        store_at(f"s3://{s3_bucket}/table", settings).create("k", b"x")
