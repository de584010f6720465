"""Where the page listens, and which names of the host a request may carry."""

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from deltamirror.config import ServeSettings
from deltamirror.errors import InvalidSettings
from deltamirror.web.address import LARGEST_PORT, ListenAddress

_HOST: Final = re.compile(
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?))(?::(?P<port>[0-9]{0,5}))?"
)
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """An address that may be listened at, and what that means for readers."""

    address: ListenAddress
    tls: tuple[str, str] | None
    """Certificate and key."""
    hosts: Collection[str] | None
    """The names of the host that requests may carry; None: any."""
    reads_without_token: bool
    is_behind_proxy: bool
    """Whether a proxy in front says who asks, and whether by TLS."""

    def accepts(self, host: str) -> bool:
        """Whether a request for this host is for us: a page of another site may lead its name to this address."""
        return self.hosts is None or host in self.hosts


def binding_of(settings: ServeSettings, *, insecure_http: bool) -> Binding:
    """What the settings ask for; refused where others could read along."""
    address, tls = ListenAddress.parse(settings.listen), _tls(settings)
    is_loopback = _is_loopback(address.host)
    if not is_loopback and tls is None and not insecure_http:
        raise InvalidSettings(
            f"{settings.listen} can be reached from other machines, and nothing is encrypted",
            hint="set serve.tls_cert and serve.tls_key; or give --insecure-http behind a proxy that has TLS",
            key="serve.listen",
        )
    named = frozenset(name.strip().lower() for name in settings.hosts.split(",") if name.strip())
    own = named | _LOOPBACK_NAMES | {address.host.lower()}
    return Binding(
        address=address,
        tls=tls,
        hosts=own if named or is_loopback else None,
        # A proxy on this machine makes every client look like a neighbour.
        reads_without_token=is_loopback and settings.loopback_read and not insecure_http and not settings.behind_proxy,
        is_behind_proxy=settings.behind_proxy,
    )


def _is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _tls(settings: ServeSettings) -> tuple[str, str] | None:
    match settings.tls_cert, settings.tls_key:
        case None, None:
            return None
        case str(cert), str(key):
            return cert, key
    raise InvalidSettings(
        "serve.tls_cert and serve.tls_key belong together", hint="set both, or neither", key="serve.tls_cert"
    )


def host_name(header: str) -> str | None:
    """The name in a Host header, without its port and the dot of a full name; None if it is no such header."""
    found = _HOST.fullmatch(header)
    if found is None or int(found["port"] or 0) > LARGEST_PORT:
        return None
    return (found["address"] or found["name"].removesuffix(".")).lower()
