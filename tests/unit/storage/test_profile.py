from datetime import UTC, datetime
from pathlib import Path

import pytest

from deltamirror.errors import InvalidSettings, Unsupported
from deltamirror.storage.profile import find_profile

CREDENTIALS = """
[default]
aws_access_key_id = default-id
aws_secret_access_key = default%secret

[temporary]
aws_access_key_id = temporary-id
aws_secret_access_key = temporary-secret
aws_session_token = token
"""
CONFIG = """
[default]
region = eu-north-1

[profile temporary]
region = eu-west-1
endpoint_url = https://s3.example

[profile in-config]
aws_access_key_id = config-id
aws_secret_access_key = config-secret

[profile by-sso]
sso_session = work
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text(CREDENTIALS)
    (tmp_path / "config").write_text(CONFIG)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path


@pytest.mark.requirement("R46")
def test_a_profile_is_put_together_from_both_files() -> None:
    profile = find_profile("temporary")
    assert profile is not None
    keys = profile()
    assert (keys["access_key_id"], keys["secret_access_key"], keys.get("token")) == (
        "temporary-id",
        "temporary-secret",
        "token",
    )
    assert profile.values()["region"] == "eu-west-1"
    in_config = find_profile("in-config")
    assert in_config is not None
    assert in_config()["access_key_id"] == "config-id"


@pytest.mark.requirement("R46")
def test_the_named_profile_goes_before_the_environment_and_that_before_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = find_profile(None)
    assert chosen is not None
    assert chosen()["secret_access_key"] == "default%secret"
    monkeypatch.setenv("AWS_PROFILE", "temporary")
    assert getattr(find_profile(None), "name", None) == "temporary"
    assert getattr(find_profile("in-config"), "name", None) == "in-config"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    assert find_profile(None) is None
    assert getattr(find_profile("in-config"), "name", None) == "in-config"


def test_keys_that_are_rotated_in_the_file_are_read_again(files: Path) -> None:
    profile = find_profile(None)
    assert profile is not None
    expires = profile()["expires_at"]
    assert expires is not None
    assert expires > datetime.now(UTC)
    (files / "credentials").write_text(CREDENTIALS.replace("default-id", "rotated-id"))
    assert profile()["access_key_id"] == "rotated-id"


def test_a_missing_default_is_no_error(files: Path) -> None:
    (files / "credentials").unlink()
    (files / "config").unlink()
    assert find_profile(None) is None


def test_a_named_profile_without_keys_is_told_and_a_way_out(files: Path) -> None:
    with pytest.raises(InvalidSettings, match="keys of a profile 'no-such'"):
        find_profile("no-such")
    with pytest.raises(Unsupported, match="sso_session") as caught:
        find_profile("by-sso")
    assert "export-credentials" in caught.value.hint
    (files / "credentials").write_text("aws_secret_access_key = hunter2\n")
    with pytest.raises(InvalidSettings) as broken:
        find_profile("temporary")
    assert "hunter2" not in broken.value.message
