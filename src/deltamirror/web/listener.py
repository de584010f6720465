"""``/healthz``, ``/readyz`` and ``/metrics`` of a process, served by a thread of it.

They show what an operator may see, and change nothing: GET and HEAD alone, no other path. Every connection serves one
request and is closed within seconds, and there are few at once: who reaches the port can load the process with nothing.
Of the connections of the commit API, those of clients that are known stay open (``BoundedConnection``).
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Final, Self, cast

import h11
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
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
"""In the state of a request: for how many seconds it may last, if longer than others."""
_KEPT: Final = "deltamirror.kept"
"""In the state of a request: its connection may stay open."""
_KEEPING: Final = (200, 201, 404, 409)
"""What a writer is told in the course of its work; after another answer it begins anew, maybe at another server."""
_TWO_LENGTHS: Final = {b"content-length", b"transfer-encoding"}
_LINE_ENDS: Final = b"\r\n"
_CONNECTIONS: Final = 32
_LONGEST_REQUEST: Final = 30.0
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


class BoundedConnection(H11Protocol):
    """A connection of bounded time, one of ``most``, which is closed after its answer unless its request may keep it.

    A stranger holds one for a single request, so that none shuts others out by doing nothing. An application keeps
    the connection of a client that it knows, by ``keep_connection``: the next request needs no new one. What holds for
    a connection of one request holds for each request of a kept one:

    - its time begins when the answer before it ends, and is the same, however slowly its bytes come; an application
      may grant it more, by ``grant_time``. One timer a connection looks at it, which no request has to cancel.
    - one that rests is closed by uvicorn (``timeout_keep_alive``); and by us as soon as a new one needs its place.
    - an answer that begins before its request has come in whole closes, as does one that refuses: nothing that is left
      of a request is read as the next one. So does one behind which more came already, and one to a request that told
      its length in two ways: where it ends is never a guess.
    - line ends between two requests mean nothing.
    """

    most: ClassVar[int] = _CONNECTIONS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._asked, self.app = self.app, self._answer
        self.begun = self.loop.time()
        """When the time of this request, or of the one to come, began."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, with an end in sight, in the place of the connection that rested longest if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.most and not self._take_place():
            self.loop.call_later(0, transport.abort)
        else:
            self._timer = self.loop.call_later(_LONGEST_REQUEST, self._look_at_time)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what came, without line ends in front of a next request: some clients send them after a body."""
        if self.timeout_keep_alive_task is None:
            super().data_received(data)
        elif request := data.lstrip(_LINE_ENDS):
            super().data_received(request)

    def on_response_complete(self) -> None:
        """Count the time of the next request from here on."""
        self.begun = self.loop.time()
        if not self._is_sending:
            self.scope = None  # type: ignore[assignment]  # what was granted was for this request alone
        unread = self._unread
        if unread and not unread.strip(_LINE_ENDS):  # came after all, while the answer was sent: no request
            self.transport.close()
        super().on_response_complete()  # it may begin the next request
        if unread:  # the next request is on its way: the connection does not rest
            self._unset_keepalive_if_required()

    @property
    def is_resting(self) -> bool:
        """Whether uvicorn waits for a next request, of which nothing came."""
        return self.timeout_keep_alive_task is not None and not self._is_sending

    @property
    def _unread(self) -> bytes:
        """What came and is not part of the request before."""
        unread, _ = self.conn.trailing_data
        return unread

    @property
    def _is_sending(self) -> bool:
        return self.transport.get_write_buffer_size() > 0

    def _take_place(self) -> bool:
        """Close the connection that rested longest; False if there is none."""
        resting = (each for each in self.connections if isinstance(each, BoundedConnection) and each.is_resting)
        oldest = min(resting, key=lambda each: each.begun, default=None)
        if oldest is None:
            return False
        self.connections.discard(oldest)  # before the loop closes it: the next one has to take another's place
        oldest.transport.abort()
        return True

    def _look_at_time(self) -> None:
        """Close the connection once the time of its request is over."""
        asked = cast("Scope | None", self.scope)  # None before a request was read
        granted = _LONGEST_REQUEST if asked is None else asked["state"].get(_GRANTED, _LONGEST_REQUEST)
        left = self.begun + granted - self.loop.time()
        if left <= 0:
            self.transport.abort()
        else:  # no later than the next request may need it, to which nothing was granted
            self._timer = self.loop.call_later(min(left, _LONGEST_REQUEST), self._look_at_time)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not self._is_kept(scope, message["status"]):
                message = {**message, "headers": [*message.get("headers", ()), CLOSE_HEADER]}
            await send(message)

        await self._asked(scope, receive, sending)

    def _is_kept(self, scope: Scope, status: int) -> bool:
        """Whether a next request may come: the client, too, has to want it (h11 says so), and the server to go on."""
        is_wanted = _KEPT in scope["state"] and status in _KEEPING and self.cycle.keep_alive
        is_whole = self.conn.their_state is h11.DONE and not self._unread
        return is_wanted and is_whole and not _TWO_LENGTHS.issubset(name for name, _ in scope["headers"])


def grant_time(scope: Scope, seconds: float) -> None:
    """Let a request last for so long: a commit takes longer than a page."""
    scope.setdefault("state", {})[_GRANTED] = seconds


def keep_connection(scope: Scope) -> None:
    """Let the connection of a request serve the next one, too, unless this one is refused."""
    scope.setdefault("state", {})[_KEPT] = True


def _configuration(app: ASGIApp) -> uvicorn.Config:
    options: dict[str, Any] = {"ws": "none", "lifespan": "off", "access_log": False, "log_config": None}
    return uvicorn.Config(
        app,
        http=BoundedConnection,
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
