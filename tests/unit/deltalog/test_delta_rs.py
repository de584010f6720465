"""delta-rs reaches a store as we do: by the keys of settings, of a profile, or of the environment."""

from pathlib import Path

import pytest

from deltamirror.config import Secret, StorageSettings
from deltamirror.deltalog.delta_rs import storage_options
from deltamirror.errors import InvalidSettings
from deltamirror.storage.clients import Credentials

pytestmark = pytest.mark.requirement("R46")

PROFILE = """
[work]
aws_access_key_id = work-id
aws_secret_access_key = work-secret
aws_session_token = work-token
region = eu-west-1
endpoint_url = https://s3.example
"""


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text(PROFILE)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


def named(settings: StorageSettings, location: str = "s3://lake/t") -> dict[str, str]:
    return storage_options(location, settings, Credentials.of(settings))


def test_the_keys_region_and_address_of_a_profile_are_handed_over() -> None:
    assert named(StorageSettings(profile="work")) == {
        "AWS_ACCESS_KEY_ID": "work-id",
        "AWS_SECRET_ACCESS_KEY": "work-secret",
        "AWS_SESSION_TOKEN": "work-token",
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": "https://s3.example",
    }


def test_settings_and_the_environment_go_before_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    found = named(StorageSettings(profile="work", endpoint="https://other.example"))
    assert (found["AWS_ENDPOINT_URL"], "AWS_REGION" in found) == ("https://other.example", False)
    own = StorageSettings(profile="work", access_key_id="own", secret_access_key=Secret("s"), region="us-east-1")
    assert named(own) == {"AWS_ACCESS_KEY_ID": "own", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}


def test_a_profile_without_keys_is_an_error_for_s3_and_of_no_concern_elsewhere() -> None:
    with pytest.raises(InvalidSettings, match="profile 'absent'"):
        named(StorageSettings(profile="absent"))
    assert named(StorageSettings(profile="absent"), location="file:///data/t") == {}
