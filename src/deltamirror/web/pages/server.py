"""The HTTP server of the status page, in a thread of its own."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Final

import uvicorn

from deltamirror.errors import InvalidSettings, Refused, Unavailable
from deltamirror.ops.engine import MirrorEngine
from deltamirror.txnlog.access.tokens import Right, has_tokens
from deltamirror.web.pages.addresses import Binding
from deltamirror.web.pages.app import status_page
from deltamirror.web.pages.guard import LONGEST_HEADERS

__all__ = ["Serving", "serving"]

_CONNECTIONS: Final = 200
_BACKLOG: Final = 128
_STOPS_WITHIN: Final = 5


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that answers."""

    binding: Binding
    """With the port that it got."""
    server: uvicorn.Server
    thread: threading.Thread

    def wait(self) -> None:
        """Return when the server has ended."""
        self.thread.join()

    def stop(self) -> None:
        """End it when the requests under way are answered, or after a few seconds."""
        self.server.should_exit = True


@contextmanager
def serving(engine: MirrorEngine, binding: Binding) -> Iterator[Serving]:
    """Serve the status page of a catalog; refused where readers need tokens, and there is none."""
    _require_tokens(engine, binding)
    with closing(_bound(binding)) as listener:
        own = replace(binding, address=replace(binding.address, port=listener.getsockname()[1]))
        server = uvicorn.Server(_configured(engine, own))
        thread = threading.Thread(target=server.run, args=[[listener]], name="deltamirror-serve", daemon=True)
        thread.start()
        try:
            yield Serving(own, server, thread)
        finally:
            server.should_exit = True
            thread.join()


def _require_tokens(engine: MirrorEngine, binding: Binding) -> None:
    if binding.reads_without_token:
        return
    with engine.database.read() as connection:
        if not has_tokens(connection, Right.READ):
            raise Refused(
                "every reader needs a token, and there is none",
                hint="`deltamirror token issue NAME --rights operate` makes one",
            )


def _bound(binding: Binding) -> socket.socket:
    address = binding.address
    try:
        kind, *_, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(kind, socket.SOCK_STREAM)
    except OSError as error:
        raise _not_bound(binding, error) from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(place)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _not_bound(binding, error) from error
    return listener


def _not_bound(binding: Binding, error: OSError) -> Unavailable:
    hint = "choose another address with --listen, or end what listens there"
    return Unavailable(f"cannot listen at {binding.address}: {error.strerror or error}", hint=hint)


def _configured(engine: MirrorEngine, binding: Binding) -> uvicorn.Config:
    cert, key = binding.tls or (None, None)
    config = uvicorn.Config(
        status_page(engine, binding),
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=LONGEST_HEADERS,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_STOPS_WITHIN,
        ssl_certfile=cert,
        ssl_keyfile=key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InvalidSettings(
            f"certificate or key cannot be read: {error}",
            hint="serve.tls_cert and serve.tls_key name files as PEM",
            key="serve.tls_cert",
        ) from error
    return config
