"""Whatever a request says, it is answered, and the answer never is that the server failed."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from starlette.types import ASGIApp, Message

from deltamirror import Catalog, MirrorEngine
from deltamirror.txnlog.access.patterns import ALL_TABLES
from deltamirror.txnlog.access.tokens import Right, issue_token
from deltamirror.web.commits.description import description
from deltamirror.web.pages.addresses import binding_of
from deltamirror.web.pages.app import status_page
from deltamirror.web.pages.guard import LONGEST_QUERY
from tests.support.interfaces.commit_clients import commit_lines, framed
from tests.support.lakes.lake import create
from tests.support.mirrors.local import local_settings

FORM = "application/x-www-form-urlencoded"
HOST = "127.0.0.1:8765"

Headers = list[tuple[str, str]]


@dataclass(slots=True)
class Asked:
    """The application itself, without sockets: what a server would refuse on its own reaches it here."""

    app: ASGIApp
    portal: BlockingPortal
    cookie: str = ""
    csrf: str = ""
    writer: str = ""
    """The token of a program that may commit."""
    kind: str = ""
    """The content type of the last answer."""
    text: str = field(default="", repr=False)

    def status(self, method: str, path: str, query: str = "", headers: Headers = [], body: bytes = b"") -> int:  # noqa: B006  not changed
        sent: list[Message] = []
        own = [] if any(name == "host" for name, _ in headers) else [("host", HOST)]
        scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "root_path": "",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8765),
            "asgi": {"version": "3.0"},
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in own + headers],
        }
        self.portal.call(self._called, scope, body, sent)
        self.text = b"".join(each.get("body", b"") for each in sent).decode(errors="replace")
        [start] = [each for each in sent if each["type"] == "http.response.start"]
        self.kind = dict(start["headers"]).get(b"content-type", b"").decode().partition(";")[0]
        self.cookie = dict(start["headers"]).get(b"set-cookie", self.cookie.encode()).decode().partition(";")[0]
        return int(start["status"])

    async def _called(self, scope: dict[str, Any], body: bytes, sent: list[Message]) -> None:
        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, send)

    def sign_in(self, token: str) -> None:
        """Begin a session, whose forms are good."""
        form = [("content-type", FORM)]
        assert self.status("POST", "/sign-in", headers=form, body=urlencode({"token": token}).encode()) == 303
        self.status("GET", "/", headers=[("cookie", self.cookie)])
        found = re.search(r'name="csrf" value="([^"]+)"', self.text)
        assert found is not None
        self.csrf = found[1]


@pytest.fixture(scope="module")
def asked(made_catalogs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """The pages of a catalog with a table, with a session; no wrong token is held back for long."""

    async def slept(_: float) -> None:
        return

    file = tmp_path_factory.mktemp("lake") / "lake.db"
    file.write_bytes((made_catalogs / "lake.db").read_bytes())
    chosen = local_settings()
    chosen = replace(chosen, serve=replace(chosen.serve, listen=HOST))
    with ExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        patched.setattr("deltamirror.web.pages.app.anyio.sleep", slept)
        catalog = stack.enter_context(Catalog(f"sqlite:///{file}"))
        create(catalog)
        engine = stack.enter_context(MirrorEngine(settings=chosen, database=catalog.database))
        portal = stack.enter_context(start_blocking_portal())
        pages = Asked(status_page(engine, binding_of(chosen.serve, insecure_http=False), catalog), portal)
        pages.sign_in(
            issue_token(catalog.database, "ada", rights=[Right.OPERATE], tables=ALL_TABLES, seconds=None).text
        )
        writer = issue_token(catalog.database, "job", rights=[Right.WRITE], tables=ALL_TABLES, seconds=None)
        pages.writer = writer.text
        yield pages


ODD = (
    "",
    "[",
    "[::1",
    "]",
    "http://[",
    "//[",
    "/\\",
    "\x00",
    "%",
    "%00",
    "%ff",
    "²",
    "é",
    "null",
    "*",
    "-1",
    "9" * 5_000,
)
latin = st.text(st.characters(max_codepoint=255), max_size=20)
texts = st.one_of(st.sampled_from(ODD), latin)
hosts = st.one_of(
    st.sampled_from(
        ["[::1]:8765", "[::1", "[", "[]", "[::1]x", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", "localhost.",
         "localhost..", "me@localhost", "me:pw@127.0.0.1:8765", "127.0.0.1:8765, evil", "127.0.0.1/..", "", " "]
    ),
    texts,
)  # fmt: skip
values = {
    "host": hosts,
    "origin": st.one_of(st.sampled_from(["http://[", "http://127.0.0.1:8765", "http://127.0.0.1:x"]), texts),
    "authorization": st.builds("{} {}".format, st.sampled_from(["Bearer", "basic", ""]), texts),
    "cookie": st.builds("deltamirror={}".format, texts),
    "content-length": texts,
    "content-type": st.one_of(st.just(FORM), texts),
    "sec-fetch-site": texts,
    "x-forwarded-for": texts,
    "x-forwarded-proto": texts,
    "x-live": texts,
}
headers = st.lists(
    st.sampled_from(sorted(values)).flatmap(lambda name: st.tuples(st.just(name), values[name])), max_size=4
)
wide = st.one_of(texts, st.text(max_size=20))
segments = wide.map(lambda text: quote(text[:300], safe="", errors="replace"))
paths = st.one_of(
    st.sampled_from(["/", "/sign-in", "/silence", "/api/v1/status", "/tables/t", "/tables/t/silence", "//", "/x", "*"]),
    st.builds("/tables/{}".format, segments),
    st.builds("/tables/t/failures/{}".format, segments),
    st.builds("/tables/{}/pause".format, segments),
    st.builds("/static/{}".format, segments),
    st.builds("/{}".format, segments),
)
names = st.sampled_from(
    [
        "search",
        "show",
        "sort",
        "page",
        "size",
        "before",
        "window",
        "next",
        "rule",
        "subject",
        "for",
        "reason",
        "silence",
    ]
)
fields = st.dictionaries(names, wide, max_size=5)
queries = st.one_of(fields.map(lambda found: urlencode(found, errors="replace")), texts.map(lambda text: text[:99]))
methods = st.sampled_from(["GET", "HEAD", "POST", "PUT", "OPTIONS"])

BY_CHANCE = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@given(methods, paths, queries, headers, st.binary(max_size=50))
@example("POST", "/sign-in", "", [("origin", "http://["), ("content-type", FORM)], b"")
@example("POST", "/sign-in", "", [("content-type", FORM)], b"next=//[&token=x")
@example("GET", "/sign-in", "next=http://[", [], b"")
@example("GET", "/", "", [("host", "[::1")], b"")
@example("GET", "/", "", [("host", HOST), ("content-length", "²")], b"")
@BY_CHANCE
def test_no_request_of_a_stranger_makes_the_server_fail(
    asked: Asked, method: str, path: str, query: str, headers: Headers, body: bytes
) -> None:
    assert asked.status(method, path, query, headers, body) < 500


@given(st.sampled_from(["/silence", "/unsilence", "/tables/t/silence", "/pause", "/resume"]), fields)
@example("/pause", {"next": "http://["})
@BY_CHANCE
def test_no_form_of_an_operator_makes_the_server_fail(asked: Asked, path: str, fields: dict[str, str]) -> None:
    body = urlencode({**fields, "csrf": asked.csrf}, errors="replace").encode()
    sent = [("content-type", FORM), ("cookie", asked.cookie), ("origin", f"http://{HOST}")]
    assert asked.status("POST", path, headers=sent, body=body) in (303, 422, 413)


OPERATIONS = [
    (method, path, operation)
    for path, methods in description()["paths"].items()
    for method, operation in methods.items()
]
bodies = st.one_of(
    st.binary(max_size=50),
    st.sampled_from([commit_lines("a"), framed(("t", 1, commit_lines("a"))), framed(("t", 1, b""), ("é", 2, b"{}"))]),
    st.builds(lambda *frame: framed(frame), wide, st.integers(-1, 2**70), st.binary(max_size=9)),
)


@st.composite
def described(draw: st.DrawFn) -> tuple[dict[str, Any], str, str, str, Headers, bytes]:
    """A request of an operation that the API describes: parameters as their schemas say, or not at all."""
    method, path, operation = draw(st.sampled_from(OPERATIONS))
    query: dict[str, str] = {}
    headers: Headers = []
    for parameter in operation["parameters"]:
        number = parameter["schema"]["type"] == "integer"
        good = st.integers(0, parameter["schema"]["maximum"]).map(str) if number else st.sampled_from(["t", "/nowhere"])
        value = draw(st.one_of(good, good, st.sampled_from(["0", "1"]), latin if parameter["in"] == "header" else wide))
        match parameter["in"]:
            case "path":
                path = path.replace(f"{{{parameter['name']}}}", quote(value, safe="", errors="replace") or "x")
            case "query":
                query[parameter["name"]] = value
            case _:
                headers.append((parameter["name"].lower(), value))
    return operation, method.upper(), path, urlencode(query, errors="replace"), headers, draw(bodies)


@pytest.mark.requirement("R36")
@given(described())
@BY_CHANCE
def test_every_request_of_the_commit_api_has_one_of_the_answers_that_are_described(
    asked: Asked, request: tuple[dict[str, Any], str, str, str, Headers, bytes]
) -> None:
    operation, method, path, query, headers, body = request
    bearer = [("authorization", f"Bearer {asked.writer}")]
    status = asked.status(method, path, query, headers + bearer, body)
    if len(query) > LONGEST_QUERY or (status == 404 and path.count("%2F")):
        return  # refused before it is known what it asks for
    [kind] = operation["responses"][str(status)]["content"]
    assert asked.kind == kind


def test_a_host_that_cannot_be_read_is_refused_whatever_it_begins_with(asked: Asked) -> None:
    for odd in ("[::1", "[::1]x", "127.0.0.1:x", "127.0.0.1:99999", "me@localhost", "localhost..", "", "a b"):
        assert asked.status("GET", "/", headers=[("host", odd)]) == 400, odd
    assert asked.status("GET", "/", headers=[("host", HOST), ("host", HOST)]) == 400
    for own in ("[::1]:8765", "[::1]", "localhost.", "LOCALHOST:1", "127.0.0.1:"):
        assert asked.status("GET", "/", headers=[("host", own)]) == 200, own
    assert asked.status("GET", "/", headers=[("host", "evil.example")]) == 421
