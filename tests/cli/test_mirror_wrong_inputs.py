"""Stores that are not there, not ours, not writable or full: one clear error each, and the other tables go on (G7)."""

import json
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror.config import Secret, StorageSettings
from tests.support.interfaces.commands import can_mount, typed_on_a_disk, variables
from tests.support.interfaces.prompt import AddLine, Prompt
from tests.support.servers.seaweed_server import SeaweedServer
from tests.support.suite.skips import missing_kernel_feature

LOCAL = ("mirror", "--once", "--runner", "local")
SECRET = "hunter2-is-not-the-key"


@pytest.fixture
def two(orders: Prompt) -> Prompt:
    """The table ``orders`` and, on a disk that is fine, the table ``other``."""
    orders("table", "create", "other", "--location", "lake/other", "--schema", "id long")
    return orders


def typed(prompt: Prompt, *arguments: str, settings: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """What a command with these settings says, and how it ends."""
    done = prompt(*arguments, exits=None, settings=settings)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def in_bucket(prompt: Prompt, bucket: str, settings: StorageSettings) -> None:
    create = ["table", "create", "broken", "--location", f"s3://{bucket}/broken", "--schema", "id long"]
    done = typed(prompt, *create, settings=variables(settings))
    assert done.returncode == 0, done.stderr


def assert_only_one_table_fails(
    prompt: Prompt, done: subprocess.CompletedProcess[str], *, table: str, code: str, exits: int
) -> Mapping[str, Any]:
    """One failure, with its class; the status says the same; the others are published."""
    assert done.returncode == exits, done.stderr
    (failure,) = json.loads(done.stdout)["failures"]
    assert (failure["table"], failure["code"]) == (table, code)
    assert failure["message"]
    assert failure["hint"]
    assert SECRET not in done.stdout + done.stderr
    for other in prompt.json("status")["tables"]:
        if other["name"] == table:
            assert (other["failed"], other["error"]["code"], other["error"]["version"]) == (1, code, failure["version"])
        else:
            assert (other["lag_versions"], other["failed"], other["error"]) == (0, 0, None)
    return failure  # type: ignore[no-any-return]


def published_after_repair(prompt: Prompt, settings: Mapping[str, str], *, table: str) -> None:
    done = typed(prompt, *LOCAL, "--json", settings=settings)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["tables"]) == {table}


@pytest.mark.requirement("R46")
def test_a_wrong_key_is_permission_denied(two: Prompt, s3_bucket: str, s3_settings: StorageSettings) -> None:
    in_bucket(two, s3_bucket, s3_settings)
    wrong = replace(s3_settings, secret_access_key=Secret(SECRET))
    done = typed(two, *LOCAL, "--json", settings=variables(wrong))
    assert_only_one_table_fails(two, done, table="broken", code="permission-denied", exits=21)
    published_after_repair(two, variables(s3_settings), table="broken")


def test_a_bucket_that_does_not_exist_is_not_found(
    two: Prompt, seaweed_server: SeaweedServer, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    vanishing = seaweed_server.create_bucket()
    in_bucket(two, vanishing, s3_settings)
    seaweed_server.delete_bucket(vanishing)
    done = typed(two, *LOCAL, "--json", settings=variables(s3_settings))
    failure = assert_only_one_table_fails(two, done, table="broken", code="not-found", exits=11)
    assert vanishing in failure["message"]


def test_a_table_is_not_created_in_a_bucket_that_does_not_exist(two: Prompt, s3_settings: StorageSettings) -> None:
    create = ["table", "create", "broken", "--location", "s3://no-such-bucket/broken", "--schema", "id long"]
    done = typed(two, *create, settings=variables(s3_settings))
    assert done.returncode == 11
    assert "no-such-bucket" in done.stderr


def test_an_endpoint_that_is_down_is_unavailable(two: Prompt, s3_bucket: str, s3_settings: StorageSettings) -> None:
    in_bucket(two, s3_bucket, s3_settings)
    with socket.socket() as nobody:
        # Bound, but nobody listens: the port refuses, and is given to nobody else.
        nobody.bind(("127.0.0.1", 0))
        away = replace(s3_settings, endpoint=f"http://127.0.0.1:{nobody.getsockname()[1]}", retries=0)
        done = typed(two, *LOCAL, "--json", settings=variables(away))
    assert_only_one_table_fails(two, done, table="broken", code="unavailable", exits=20)
    published_after_repair(two, variables(s3_settings), table="broken")


def test_a_location_that_is_a_file_is_invalid(two: Prompt) -> None:
    (two.folder / "lake").mkdir()
    (two.folder / "lake/orders").write_text("in the way")
    done = typed(two, *LOCAL, "--json", settings={})
    failure = assert_only_one_table_fails(two, done, table="orders", code="invalid-location", exits=10)
    assert "is a file" in failure["message"]
    (two.folder / "lake/orders").unlink()
    published_after_repair(two, {}, table="orders")


def disk(prompt: Prompt, options: str) -> subprocess.CompletedProcess[str]:
    if not can_mount():
        missing_kernel_feature("a disk of its own for a process (unshare --map-root-user --mount)")
    place = prompt.folder / "lake/orders"
    place.mkdir(parents=True, exist_ok=True)
    return typed_on_a_disk(*LOCAL, "--json", folder=prompt.folder, mounted=place, options=options)


def test_a_read_only_disk_is_permission_denied(two: Prompt) -> None:
    failure = assert_only_one_table_fails(two, disk(two, "ro"), table="orders", code="permission-denied", exits=21)
    assert "Read-only" in failure["message"]
    published_after_repair(two, {}, table="orders")


def test_a_full_disk_is_capacity_exceeded_at_the_version_that_did_not_fit(two: Prompt, add: AddLine) -> None:
    for number in range(3):
        two("commit", "orders", "-", stdin=add(path=f"{number}.parquet"))
    done = disk(two, "size=8k")
    failure = assert_only_one_table_fails(two, done, table="orders", code="capacity-exceeded", exits=22)
    assert failure["version"] > 0
    [orders] = two.json("status", "orders")["tables"]
    assert orders["published"] == failure["version"] - 1


def test_the_location_of_another_table_is_refused_when_the_table_is_created(two: Prompt) -> None:
    create = ["table", "create", "third", "--schema", "id long", "--location"]
    assert two.error(*create, str(Path("lake/orders")), exits=12)["table"] == "orders"
