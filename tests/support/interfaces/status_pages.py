"""A status page that is served, and clients that ask it over HTTP."""

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import Settings
from deltamirror.txnlog.access.patterns import TablePattern
from deltamirror.txnlog.access.tokens import Right, issue_token
from deltamirror.web.pages.addresses import binding_of
from deltamirror.web.pages.server import serving
from tests.support.lakes.lake import execute
from tests.support.mirrors.local import local_settings

SILENCE = {"rule": "lag-critical", "for": "1h", "reason": "moving the bucket"}
"""What an operator enters to silence an alert."""

FIRING = """INSERT INTO dl_alerts
    (rule, scope, subject, severity, state, since, fired_at, announced, reading, cause, action)
    VALUES (:rule, :scope, :subject, 'critical', 'firing', 1, 2, true, '', :cause, 'run `deltamirror report t`')"""
"""An alert that fires."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Client:
    """A browser as far as HTTP goes: it keeps its cookie, and follows nothing."""

    port: int
    cookie: str = ""
    host: str = "127.0.0.1"

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request."""
        own = {"Host": f"{self.host}:{self.port}", **({"Cookie": self.cookie} if self.cookie else {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {**own, **(headers or {})})
            answer = connection.getresponse()
            found = Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()
        if "set-cookie" in found.headers:
            self.cookie = found.headers["set-cookie"].partition(";")[0]
        return found

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Answer:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, urlencode(fields).encode(), {**kind, **more})

    def sign_in(self, token: str) -> Answer:
        return self.post("/sign-in", {"token": token, "next": "/"})

    def csrf(self) -> str:
        """What the forms of this browser send along."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.get("/").text)
        return "" if found is None else found[1]


@dataclass(frozen=True, slots=True)
class Served:
    """A status page, and the catalog that it is about."""

    catalog: Catalog
    url: str
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    def client(self, name: str | None = None) -> Client:
        """A client, signed in with a token if one is named."""
        client = Client(self.port)
        if name is not None:
            assert client.sign_in(self.token(name)).status == 303
        return client

    def token(self, name: str = "ada", right: Right = Right.OPERATE, tables: str = "*") -> str:
        """The token of this name, issued when it is first asked for."""
        if name not in self.tokens:
            issued = issue_token(self.catalog.database, name, rights=[right], tables=TablePattern(tables), seconds=None)
            self.tokens[name] = issued.text
        return self.tokens[name]


@contextmanager
def served(
    catalog: Catalog, *, insecure_http: bool = False, settings: Settings | None = None, **serve: Any
) -> Iterator[Served]:
    """The status page of a catalog at a free port."""
    settings = local_settings(settings)
    settings = replace(settings, serve=replace(settings.serve, **{"listen": "127.0.0.1:0", **serve}))
    with (
        MirrorEngine(settings=settings, database=catalog.database) as engine,
        serving(engine, binding_of(settings.serve, insecure_http=insecure_http), catalog) as running,
    ):
        yield Served(catalog, running.url)


@pytest.fixture
def served_page(lake: Catalog) -> Iterator[Served]:
    """The status page of an empty catalog."""
    with served(lake) as found:
        yield found


def paused(catalog: Catalog) -> tuple[bool, bool]:
    """Whether the one table is paused, and whether all are."""
    [(table,)] = execute(catalog, "SELECT mirror_paused FROM dl_tables")
    return bool(table), bool(execute(catalog, "SELECT 1 FROM dl_catalog WHERE key = 'mirror_paused'"))
