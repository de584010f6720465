"""The Azure server of a test session, and one fresh container a test.

A server that cannot start is an error of every test that asked for it, with the reason in the message.
"""

from collections.abc import Iterator

import pytest

from deltamirror.config import StorageSettings
from tests.support.servers.azurite_server import AzuriteServer, started_azurite
from tests.support.suite.inventory import record


@pytest.fixture(scope="session")
def azurite_server() -> Iterator[AzuriteServer]:
    """The session's Azure server. A test that stops it need not start it again."""
    with started_azurite() as server:
        record("server", f"azurite {server.version()}")
        yield server


@pytest.fixture
def azure_container(azurite_server: AzuriteServer) -> Iterator[str]:
    """The name of an empty container, deleted after the test."""
    azurite_server.ensure_running()
    name = azurite_server.create_container()
    yield name
    azurite_server.ensure_running()
    azurite_server.delete_container(name)


@pytest.fixture
def azure_settings(azurite_server: AzuriteServer, azure_container: str) -> StorageSettings:
    """The settings that reach the container's server."""
    return azurite_server.settings()
