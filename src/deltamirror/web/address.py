"""Where a process listens: ``[HOST:]PORT``, on this machine alone unless a host says otherwise."""

import errno
import socket
from dataclasses import dataclass
from typing import Final, Self

from deltamirror.errors import DeltaMirrorError, InvalidInput, PermissionDenied, Unavailable

_LOOPBACK: Final = "127.0.0.1"
LARGEST_PORT: Final = 65_535
_BACKLOG: Final = 64


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host and a port; port 0 stands for any that is free."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``9180``, ``localhost:9180``, ``0.0.0.0:9180`` or ``[::1]:9180``."""
        host, colon, port = text.strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise _malformed(text, "an IPv6 address stands in brackets: [::1]:9180")
        if colon and not host:
            raise _malformed(text, "the host before the colon is empty")
        if not (port.isascii() and port.isdecimal() and int(port) <= LARGEST_PORT):
            raise _malformed(text, f"the port is a number from 0 to {LARGEST_PORT}")
        return cls(host or _LOOPBACK, int(port))

    def bound(self) -> socket.socket:
        """A socket that listens here; no other process can take the port from then on."""
        try:
            family, kind, protocol, _, place = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listening = socket.socket(family, kind, protocol)
            try:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(place)
                listening.listen(_BACKLOG)
            except BaseException:
                listening.close()
                raise
        except (OSError, UnicodeError) as error:
            raise self._refused(error) from error
        return listening

    def url_of(self, listening: socket.socket) -> str:
        """The address of a socket that is bound here, with the port that it got."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{listening.getsockname()[1]}"

    def _refused(self, error: Exception) -> DeltaMirrorError:
        host = f"[{self.host}]" if ":" in self.host else self.host
        what = f"cannot listen on {host}:{self.port}"
        match error:
            case OSError(errno=errno.EADDRINUSE):
                return Unavailable(f"{what}: the port is in use", hint="choose another port; 0 takes any free one")
            case PermissionError():
                return PermissionDenied(f"{what}: this user may not", hint="choose a port from 1024 on")
            case _:
                return InvalidInput(f"{what}: {error}", hint="name an address of this machine, such as 127.0.0.1:9180")


def _malformed(text: str, why: str) -> InvalidInput:
    return InvalidInput(f"{text!r:.100} is not [HOST:]PORT: {why}", hint="such as 9180, 127.0.0.1:9180 or [::1]:9180")
