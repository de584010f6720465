"""Ports on loopback that stay ours also while nobody listens there: before a server starts, and between two starts."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port(port: int = 0) -> Iterator[int]:
    """A port that the system gives to nobody else until the end of the block; 0: any that is free.

    A socket that does not listen keeps it. Whoever names the port, with ``SO_REUSEADDR`` as all servers do, may listen
    there; a client is refused until then.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        yield int(holder.getsockname()[1])
