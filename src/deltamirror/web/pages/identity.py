"""Who asks: a browser that is signed in, a program with a token, a process of this machine, or a stranger."""

import hmac
import ipaddress
import logging
import math
import time
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from deltamirror.errors import DeltaMirrorError
from deltamirror.txnlog.access.patterns import ALL_TABLES, TablePattern
from deltamirror.txnlog.access.tokens import AccessToken, Right, token_by_id, touch_token, verified_token
from deltamirror.txnlog.database.access import Database
from deltamirror.web.pages.addresses import Binding
from deltamirror.web.pages.sessions import BrowserSession, BrowserSessions
from deltamirror.web.pages.throttle import Throttle

_log = logging.getLogger(__name__)

_TOUCHED_EVERY: Final = 60.0
_FORWARDED: Final = ("forwarded", "via", "x-forwarded-for", "x-real-ip")


class Unknown(Exception):
    """A reader has to say who they are; after wrong tokens, the answer is held back for ``pause`` seconds."""

    def __init__(self, pause: float = 0.0) -> None:
        super().__init__(pause)
        self.pause = pause


class Forbidden(Exception):
    """A reader may not do this; the text says why."""


class TooMany(Exception):
    """More wrong tokens than answers are held back at once."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = max(math.ceil(seconds), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who asks, and what they may see."""

    name: str
    """Of the token; empty for a process of this machine that shows none."""
    tables: TablePattern
    is_operator: bool
    session: BrowserSession | None = None


class Doorkeeper:
    """Tells who asks, and lets them in."""

    def __init__(self, database: Database, binding: Binding, sessions: BrowserSessions) -> None:
        self._database, self._binding, self._sessions = database, binding, sessions
        self._throttle = Throttle()
        self._touched: dict[str, float] = {}

    def reader(self, request: Request) -> Visitor:
        """Who asks; ``Unknown`` if that has to be said first."""
        if (text := _bearer_text(request)) is not None:
            return _reader(self._checked(text, self._client(request)))
        if (signed_in := self.signed_in(request)) is not None:
            return signed_in
        if self._binding.reads_without_token and not any(name in request.headers for name in _FORWARDED):
            return Visitor(name="", tables=ALL_TABLES, is_operator=False)
        raise Unknown

    def bearer(self, request: Request) -> AccessToken:
        """The token that a program shows, whatever it allows; ``Unknown`` without one."""
        if (text := _bearer_text(request)) is None:
            raise Unknown
        return self._checked(text, self._client(request), right=None)

    def operator(self, request: Request, csrf: str) -> Visitor:
        """Who asks for a change: a browser that is signed in, by a form of ours, with the right to operate."""
        require_same_site(request)
        reader = self.signed_in(request)
        if reader is None or reader.session is None:
            raise Forbidden("Sign in with a token that may operate.")
        if not hmac.compare_digest(reader.session.csrf.encode(), csrf.encode()):
            raise Forbidden("This form is not from the page as it is now: load the page again.")
        return reader

    def sign_in(self, request: Request, text: str, response: Response) -> None:
        """Begin a session with a token, in a cookie of the response."""
        require_same_site(request)
        client = self._client(request)
        token = self._checked(text, client)
        _log.info("%s signed in from %s", token.name, client)
        secure = self._is_secure(request)
        response.set_cookie(
            _cookie(secure=secure),
            self._sessions.begin(token.id),
            path="/",
            secure=secure,
            httponly=True,
            samesite="strict",
        )

    def sign_out(self, request: Request, response: Response) -> None:
        """End the session of a browser."""
        name = _cookie(secure=self._is_secure(request))
        self._sessions.end(request.cookies.get(name, ""))
        response.delete_cookie(name, path="/", secure=self._is_secure(request), httponly=True, samesite="strict")

    def signed_in(self, request: Request) -> Visitor | None:
        """The reader whose session the browser shows; None without one that lasts."""
        session = self._sessions.of(request.cookies.get(_cookie(secure=self._is_secure(request)), ""))
        if session is None:
            return None
        with self._database.read() as connection:
            token = token_by_id(connection, session.token_id)
        return None if token is None or not token.allows(Right.READ) else _reader(token, session)

    def _checked(self, text: str, client: str, right: Right | None = Right.READ) -> AccessToken:
        """The token of this text; ``Unknown`` if it is none, or does not allow what is asked for."""
        token = verified_token(self._database, text)
        if token is None or not (right is None or token.allows(right)):
            wrong = self._throttle.was_wrong(client)
            if wrong.is_news:
                _log.warning("a wrong token from %s, %d of late", client, wrong.count)
            raise Unknown(wrong.pause)
        self._touch(token)
        return token

    def _touch(self, token: AccessToken) -> None:
        """Write down that a token is used, now and then; a database that is busy is no reason to refuse it."""
        now = time.monotonic()
        if now - self._touched.get(token.id, -math.inf) < _TOUCHED_EVERY:
            return
        self._touched[token.id] = now
        try:
            touch_token(self._database, token.id)
        except DeltaMirrorError as error:
            _log.warning("the use of token %s was not written down: %s", token.name, error)

    def _is_secure(self, request: Request) -> bool:
        """Whether the browser speaks TLS, with us or with a proxy in front that we trust to say so."""
        told = request.headers.get("x-forwarded-proto", "") if self._binding.is_behind_proxy else ""
        return self._binding.tls is not None or told == "https"

    def _client(self, request: Request) -> str:
        """The address that asks; behind a proxy that we trust, the one that it wrote down last."""
        own = "unknown" if request.client is None else request.client.host
        if not self._binding.is_behind_proxy:
            return own
        told = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
        try:
            return str(ipaddress.ip_address(told))
        except ValueError:
            return own


def _bearer_text(request: Request) -> str | None:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if kind.lower() == "bearer" else None


def require_same_site(request: Request) -> None:
    """Refuse a form that a page of another site sent, as far as the browser tells."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "same-origin")
    other = origin is not None and origin.partition("://")[2] != request.headers["host"]
    if other or site not in ("same-origin", "none"):
        raise Forbidden("This form is from another site.")


def _reader(token: AccessToken, session: BrowserSession | None = None) -> Visitor:
    is_operator = token.allows(Right.OPERATE)
    return Visitor(name=token.name, tables=token.tables, is_operator=is_operator, session=session)


def _cookie(*, secure: bool) -> str:
    # With this prefix browsers take it from this very host over TLS only.
    return "__Host-deltamirror" if secure else "deltamirror"
