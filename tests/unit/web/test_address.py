"""Where a process may be told to listen, and what it says where it cannot."""

import re

import pytest

from deltamirror.errors import InvalidInput, Unavailable
from deltamirror.web.address import ListenAddress


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("9180", "127.0.0.1", 9180),
        ("0", "127.0.0.1", 0),
        ("localhost:9180", "localhost", 9180),
        ("0.0.0.0:65535", "0.0.0.0", 65535),  # noqa: S104  it is only parsed
        ("[::1]:0", "::1", 0),
    ],
)
def test_an_address_is_a_port_with_or_without_a_host(text: str, host: str, port: int) -> None:
    assert ListenAddress.parse(text) == ListenAddress(host, port)


@pytest.mark.parametrize(
    "text", ["", "x", ":9180", "::1:9180", "host:", "host:http", "70000", "-1", "٣", "1e3", "[]:1x"]
)
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape("is not [HOST:]PORT")) as caught:
        ListenAddress.parse(text)
    assert "127.0.0.1:9180" in caught.value.hint


def test_port_0_becomes_one_that_is_free() -> None:
    address = ListenAddress.parse("0")
    with address.bound() as listening:
        port = listening.getsockname()[1]
        assert address.url_of(listening) == f"http://127.0.0.1:{port}"
        assert port > 0


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    with ListenAddress.parse("0").bound() as listening:  # not every machine has IPv6
        assert ListenAddress.parse("[::1]:0").url_of(listening) == f"http://[::1]:{listening.getsockname()[1]}"


def test_a_port_that_is_in_use_is_named() -> None:
    with ListenAddress.parse("0").bound() as listening:
        port = listening.getsockname()[1]
        with pytest.raises(Unavailable, match=f"cannot listen on 127.0.0.1:{port}: the port is in use"):
            ListenAddress.parse(str(port)).bound()


def test_a_host_of_another_machine_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"cannot listen on 192\.0\.2\.1:0") as caught:
        ListenAddress.parse("192.0.2.1:0").bound()
    assert "an address of this machine" in caught.value.hint
