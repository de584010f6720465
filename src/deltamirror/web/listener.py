"""``/healthz``, ``/readyz`` and ``/metrics`` of a process, served by a thread of it.

They show what an operator may see, and change nothing: GET and HEAD alone, no other path. Every connection serves one
request and is closed within seconds, and there are few at once: who reaches the port can load the process with nothing.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Final, Self, cast

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.health import HealthMonitor, HealthReport
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.storage.calls import StoreCalls
from deltamirror.telemetry import metrics
from deltamirror.web.address import ListenAddress

_log = logging.getLogger(__name__)

SECURITY_HEADERS: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
"""What every answer says, unless it says something else itself."""

_GRANTED: Final = "deltamirror.granted"
"""In the state of a request: for how many seconds its connection may last, if longer than others."""
_CONNECTIONS: Final = 32
_LONGEST_CONNECTION: Final = 30.0
_LARGEST_HEAD: Final = 16 * 1024
_TO_END: Final = 2.0
_MEASURED_WITHIN: Final = 10.0
_SLOW_METRICS: Final = "some are read from the database: /readyz says whether it answers"


def monitoring_app(health: HealthMonitor) -> ASGIApp:
    """The three pages. Their answers are found in threads: the checks wait for databases and stores."""

    def alive(_: Request) -> Response:
        report = health.report()
        return _answer(report, is_well=report.ok)

    def ready(_: Request) -> Response:
        report = health.report()
        return _answer(report, is_well=report.ready)

    def measured(_: Request) -> Response:
        try:
            body, content_type = calls.run(
                metrics.exposition, location="the metrics", doing="read", seconds=_MEASURED_WITHIN, hint=_SLOW_METRICS
            )
        except DeltaMirrorError as error:
            return Response(f"{error.message}; {error.hint}\n", 503, media_type="text/plain")
        return Response(body, headers={"content-type": content_type})

    calls = StoreCalls()
    pages: dict[str, Callable[[Request], Response]] = {"/healthz": alive, "/readyz": ready, "/metrics": measured}
    return with_security_headers(Starlette(routes=[Route(path, page, methods=["GET"]) for path, page in pages.items()]))


def with_security_headers(app: ASGIApp) -> ASGIApp:
    """The same pages with ``SECURITY_HEADERS``, on errors, too, of which the log says no more than it may."""

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                more = [header for header in SECURITY_HEADERS if header[0] not in own]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        try:
            await app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001  it was answered with 500; a traceback may repeat secrets
            _log.error("the answer to a request failed: %s", our_error(error))

    return answering


class Listener:
    """A thread that serves an application. The port is taken when the listener is made, before anything is served."""

    def __init__(self, address: ListenAddress) -> None:
        self._socket = address.bound()
        self.url = address.url_of(self._socket)
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self, app: ASGIApp, configured: Callable[[ASGIApp], uvicorn.Config] | None = None) -> None:
        """Answer from here on, until ``close``; ``configured`` says how, if not one request a connection."""
        self._server = uvicorn.Server((configured or _configuration)(app))
        self._thread = threading.Thread(target=self._run, args=(self._server,), name="deltamirror-http", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Return when ``stop`` was called, and the requests under way are answered."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Answer no more, when what is under way is answered."""
        if self._server is not None:
            self._server.should_exit = True

    def close(self) -> None:
        """Answer no more. It takes no longer than a moment, whatever is under way."""
        if self._server is not None and self._thread is not None:
            self.stop()
            self._thread.join(_TO_END)
        self._socket.close()

    def _run(self, server: uvicorn.Server) -> None:
        server.run(sockets=[self._socket])


class OneRequest(H11Protocol):
    """A connection that is closed after its answer, and after some seconds in any case; beyond ``most``, at once.

    An application may grant a request more time, by ``grant_time``.
    """

    most: ClassVar[int] = _CONNECTIONS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, with an end in sight."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self.loop.call_later(0, transport.abort)
        else:
            self.loop.call_later(_LONGEST_CONNECTION, self._end, transport)

    def _end(self, transport: asyncio.Transport) -> None:
        """Close the connection, once the time that its request was granted is over."""
        asked = cast("Scope | None", self.scope)  # None before a request was read
        granted = None if asked is None else asked.get("state", {}).pop(_GRANTED, None)
        if granted is None:
            transport.abort()
        else:
            self.loop.call_later(granted - _LONGEST_CONNECTION, transport.abort)


def grant_time(scope: Scope, seconds: float) -> None:
    """Let the connection of a request last for so long: a commit takes longer than a page."""
    scope.setdefault("state", {})[_GRANTED] = seconds


def _configuration(app: ASGIApp) -> uvicorn.Config:
    options: dict[str, Any] = {"ws": "none", "lifespan": "off", "access_log": False, "log_config": None}
    return uvicorn.Config(
        app,
        http=OneRequest,
        headers=[("connection", "close")],
        server_header=False,
        proxy_headers=False,
        log_level=logging.ERROR,
        h11_max_incomplete_event_size=_LARGEST_HEAD,
        timeout_graceful_shutdown=1,
        **options,
    )


def _answer(report: HealthReport, *, is_well: bool) -> Response:
    body = msgspec.json.encode(report.document())
    return Response(body, 200 if is_well else 503, media_type="application/json")
