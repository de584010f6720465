"""Where the page listens, and which names of the host a request may carry."""

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from deltamirror.config import ServeSettings
from deltamirror.errors import InvalidSettings

__all__ = ["Address", "Binding", "binding_of", "host_name"]

_LARGEST_PORT: Final = 65_535
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Address:
    """Host and port, as ``127.0.0.1:8765``, ``localhost:8765`` or ``[::1]:8765``."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read an address; port 0 lets the system choose."""
        host, _, port = text.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        if (
            not bare
            or not port.isascii()
            or not port.isdigit()
            or int(port) > _LARGEST_PORT
            or (":" in bare) == (bare == host)
        ):
            raise InvalidSettings(
                f"{text!r} is not an address to listen at",
                hint="give host and port, such as 127.0.0.1:8765 or [::1]:8765",
                key="serve.listen",
            )
        return cls(bare, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """An address that may be listened at, and what that means for readers."""

    address: Address
    tls: tuple[str, str] | None
    """Certificate and key."""
    hosts: Collection[str] | None
    """The names of the host that requests may carry; None: any."""
    reads_without_token: bool

    @property
    def url(self) -> str:
        """The address as browsers take it."""
        return f"{'http' if self.tls is None else 'https'}://{self.address}/"

    def accepts(self, host_header: str) -> bool:
        """Whether a request with this Host is for us: a page of another site may lead its name to this address."""
        return self.hosts is None or host_name(host_header) in self.hosts


def binding_of(settings: ServeSettings, *, insecure_http: bool) -> Binding:
    """What the settings ask for; refused where others could read along."""
    address, tls = Address.parse(settings.listen), _tls(settings)
    if not address.is_loopback and tls is None and not insecure_http:
        raise InvalidSettings(
            f"{address} can be reached from other machines, and nothing is encrypted",
            hint="set serve.tls_cert and serve.tls_key; or give --insecure-http behind a proxy that has TLS",
            key="serve.listen",
        )
    named = frozenset(name.strip().lower() for name in settings.hosts.split(",") if name.strip())
    own = named | _LOOPBACK_NAMES | {address.host.lower()}
    return Binding(
        address=address,
        tls=tls,
        hosts=own if named or address.is_loopback else None,
        # A proxy on this machine makes everybody look like a neighbour.
        reads_without_token=address.is_loopback and settings.loopback_read and not insecure_http,
    )


def _tls(settings: ServeSettings) -> tuple[str, str] | None:
    match settings.tls_cert, settings.tls_key:
        case None, None:
            return None
        case str(cert), str(key):
            return cert, key
    raise InvalidSettings(
        "serve.tls_cert and serve.tls_key belong together", hint="set both, or neither", key="serve.tls_cert"
    )


def host_name(header: str) -> str:
    """The name in a Host header, without its port."""
    bracketed = header.startswith("[")
    name = header[1:].partition("]")[0] if bracketed else header.partition(":")[0]
    return name.rstrip(".").lower()
