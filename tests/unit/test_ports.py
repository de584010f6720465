"""Ports of servers and proxies are theirs also while they do not listen: whoever asks for any port gets another."""

import socket

import pytest

from tests.support.faults.s3_proxy import S3Proxy
from tests.support.servers.ports import held_port
from tests.support.servers.postgres_server import prepared_server


def is_free(port: int) -> bool:
    with socket.socket() as somebody:
        try:
            somebody.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_a_held_port_refuses_clients_until_its_server_listens_however_often_that_starts() -> None:
    with held_port() as port:
        for _ in range(2):
            assert not is_free(port)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
            with socket.create_server(("127.0.0.1", port)):
                socket.create_connection(("127.0.0.1", port)).close()


def test_a_server_that_is_not_running_keeps_its_port() -> None:
    with prepared_server() as server:
        assert not is_free(server.port)


def test_a_proxy_that_refuses_keeps_its_port() -> None:
    with S3Proxy(("127.0.0.1", 1)).running() as proxy, proxy.refusing():
        assert not is_free(proxy.port)
