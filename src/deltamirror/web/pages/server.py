"""The HTTP server of the status page: many connections, with TLS where settings name a certificate."""

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from deltamirror.catalog import Catalog
from deltamirror.errors import InvalidSettings, Refused
from deltamirror.ops.engine import MirrorEngine
from deltamirror.ops.monitoring.collector import exported
from deltamirror.txnlog.access.tokens import Right, has_tokens
from deltamirror.web.listener import BoundedConnection, Listener
from deltamirror.web.pages.addresses import Binding
from deltamirror.web.pages.app import status_page
from deltamirror.web.pages.guard import LONGEST_HEADERS

_CONNECTIONS: Final = 200
_RESTS_FOR: Final = 5
"""So many seconds a writer's connection waits for its next request."""
_STOPS_WITHIN: Final = 1


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that answers."""

    binding: Binding
    listener: Listener

    @property
    def url(self) -> str:
        """The address as browsers take it, with the port that it got."""
        url = self.listener.url
        return f"{url}/" if self.binding.tls is None else f"https{url.removeprefix('http')}/"


@contextmanager
def serving(engine: MirrorEngine, binding: Binding, catalog: Catalog) -> Iterator[Serving]:
    """Serve the status page of a catalog, and its commit API; refused where readers need tokens, and there is none."""
    _require_tokens(engine, binding)
    with (
        Listener(binding.address) as listener,
        exported(engine.database, engine.live),
    ):
        listener.serve(status_page(engine, binding, catalog), lambda app: configured(app, binding))
        yield Serving(binding, listener)


class _PageConnection(BoundedConnection):
    """Browsers open several at once, and each writer has one."""

    most = _CONNECTIONS


def _require_tokens(engine: MirrorEngine, binding: Binding) -> None:
    if binding.reads_without_token:
        return
    with engine.database.read() as connection:
        if not any(has_tokens(connection, right) for right in (Right.READ, Right.WRITE)):
            raise Refused(
                "every reader needs a token, and there is none",
                hint="`deltamirror token issue NAME --rights operate` makes one",
            )


def configured(app: ASGIApp, binding: Binding) -> uvicorn.Config:
    """How uvicorn serves an application at a binding."""
    cert, key = binding.tls or (None, None)
    config = uvicorn.Config(
        app,
        http=_PageConnection,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level=logging.ERROR,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=LONGEST_HEADERS,
        timeout_keep_alive=_RESTS_FOR,
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
