"""What holds for every request and every answer, whichever page it is: bounds, the Host, headers."""

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.web.pages.addresses import Binding, host_name
from deltamirror.web.problems import problem

_log = logging.getLogger(__name__)

LONGEST_BODY: Final = 8 * 1024
LONGEST_HEADERS: Final = 16 * 1024
LONGEST_QUERY: Final = 2 * 1024

_LENGTH: Final = re.compile(r"[0-9]{1,15}")
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",  # without one, browsers do not say where a form comes from
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_SINGLE: Final = ("authorization", "content-encoding", "content-type", "idempotency-key")
"""Headers of which a request has one at most: of two, a proxy in front may go by the other one than we do."""
_API: Final = "/api/"
_FOR_A_YEAR: Final = "max-age=31536000"


class Guard:
    """The outermost application: refuses what is too large or for another host, and sets the headers of all answers."""

    def __init__(self, app: ASGIApp, binding: Binding, bounds_its_body: Callable[[Scope], bool]) -> None:
        self._app, self._binding, self._bounds_its_body = app, binding, bounds_its_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        refused = self._refused(scope)
        app = self._app if refused is None else refused
        bounded = receive if self._bounds_its_body(scope) else _bounded(receive)
        try:
            await app(scope, bounded, self._with_headers(send))
        except Exception as error:  # noqa: BLE001  it was answered with 500; a traceback may repeat secrets
            _log.error("the answer to a request failed: %s", our_error(error))

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        hosts, length = headers.getlist("host"), headers.get("content-length", "0")
        host = host_name(hosts[0]) if len(hosts) == 1 else None
        if host is None:
            return _refusal(scope, 400, "The Host of the request cannot be read.")
        if not self._binding.accepts(host):
            return _refusal(scope, 421, "This server has another name; see serve.hosts.")
        if sum(len(name) + len(value) for name, value in headers.raw) > LONGEST_HEADERS:
            return _refusal(scope, 431, "The headers are too large.")
        if twice := [name for name in _SINGLE if len(headers.getlist(name)) > 1]:
            return _refusal(scope, 400, f"The header {twice[0]} comes more than once.")
        if len(scope["query_string"]) > LONGEST_QUERY:
            return _refusal(scope, 414, "The address is too long.")
        if not _LENGTH.fullmatch(length) or (int(length) > LONGEST_BODY and not self._bounds_its_body(scope)):
            return _refusal(scope, 413, "The request is too large.")
        return None

    def _with_headers(self, send: Send) -> Send:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
                if self._binding.tls is not None:
                    headers["Strict-Transport-Security"] = _FOR_A_YEAR
            await send(message)

        return sent


def _refusal(scope: Scope, status: int, text: str) -> Response:
    """Programs get a problem document, whatever they asked for; browsers a text."""
    is_api = str(scope["path"]).startswith(_API)
    return problem(status, "refused", text) if is_api else PlainTextResponse(f"{text}\n", status)


def _bounded(receive: Receive) -> Callable[[], Awaitable[Message]]:
    """A request whose body ends at the bound, whatever its length was said to be: the sender is taken for gone."""
    taken = 0

    async def received() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        return {"type": "http.disconnect"} if taken > LONGEST_BODY else message

    return received
