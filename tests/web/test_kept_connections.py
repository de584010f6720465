"""A writer that shows its token keeps its connection from commit to commit, and shuts nobody out by that."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Self

import pytest

from deltamirror import Catalog
from deltamirror.txnlog.access.tokens import Right
from deltamirror.txnlog.commit.committing import Committing
from deltamirror.web import listener
from deltamirror.web.pages import server
from tests.support.interfaces.commit_clients import UNTIMED, Writer, commit_lines, writer_of
from tests.support.interfaces.status_pages import Answer, Served, served
from tests.support.lakes.lake import create
from tests.support.mirrors.local import until

pytestmark = pytest.mark.requirement("R36")

HEAD = "/api/v1/tables/t/head"


@dataclass(slots=True)
class Line:
    """One connection of a writer, on which it sends bytes as it likes."""

    socket: socket.socket
    token: str

    @classmethod
    def of(cls, writer: Writer) -> Self:
        return cls(socket.create_connection(("127.0.0.1", writer.client.port), timeout=60), writer.token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def request(self, method: str, path: str, body: bytes = b"", *more: str, http: str = "1.1") -> bytes:
        """The bytes of a request."""
        own = [
            f"{method} {path} HTTP/{http}",
            "Host: 127.0.0.1",
            f"Authorization: Bearer {self.token}",
            "Idempotency-Key: " + path,
            f"Content-Length: {len(body)}",
        ]
        return "\r\n".join([*own, *more, "", ""]).encode() + body

    def commit(self, version: int) -> bytes:
        """The bytes of a commit."""
        return self.request("POST", f"/api/v1/tables/t/commits/{version}", commit_lines(str(version)))

    def ask(self, request: bytes) -> Answer:
        """Send a request, and read its answer."""
        self.socket.sendall(request)
        return self.answer()

    def answer(self) -> Answer:
        """The next answer, and not a byte more."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = self.socket.recv(1)
            assert byte, "the connection was closed before the answer"
            head += byte
        first, *lines = head.decode().split("\r\n")[:-2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = b""
        while len(body) < int(headers["content-length"]):
            body += self.socket.recv(int(headers["content-length"]) - len(body))
        return Answer(int(first.split()[1]), headers, body)

    def is_closed(self) -> bool:
        """Whether the server closes the connection, and says nothing more."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def is_kept(self) -> bool:
        """Whether the server answers another request."""
        return self.ask(self.request("GET", HEAD)).status == 200


@pytest.fixture(autouse=True)
def _time_between_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine may pause for longer than a connection rests."""
    monkeypatch.setattr(server, "_RESTS_FOR", 600)


@pytest.fixture
def line(writer: Writer) -> Iterator[Line]:
    with Line.of(writer) as found:
        yield found


def test_commits_after_each_other_take_one_connection(page: Served, writer: Writer) -> None:
    connection = HTTPConnection("127.0.0.1", page.port, timeout=60)
    connection.connect()
    connection.auto_open = 0  # a second connection would be an error
    headers = {"Authorization": f"Bearer {writer.token}"}
    for version, status in ((1, 201), (2, 201), (2, 409), (3, 201)):
        key = {"Idempotency-Key": f"{version}, {status}"}
        connection.request("POST", f"/api/v1/tables/t/commits/{version}", commit_lines("a"), {**headers, **key})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["connection"], bool(answer.read())) == (status, None, True)
    for path, status in (("head", 200), ("commits/1", 200), ("commits/9", 404), ("commits?from=1", 200)):
        connection.request("GET", f"/api/v1/tables/t/{path}", headers=headers)
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (status, True)
    connection.close()


def test_all_others_get_one_answer_and_are_closed(page: Served, writer: Writer) -> None:
    reader, stranger = writer_of(page, "reader", Right.READ), Writer(page.client(), "dm_unknown")
    commit = "/api/v1/tables/t/commits/1"
    for who, method, path, more, status in (
        (stranger, "GET", HEAD, [], 401),
        (reader, "POST", commit, [], 403),
        (writer, "GET", HEAD, ["Idempotency-Key: again"], 400),
        (writer, "POST", commit, ["Content-Encoding: gzip"], 422),
        (writer, "PUT", HEAD, [], 405),
        (writer, "GET", "/api/v1/openapi.json", [], 200),
        (reader, "GET", "/api/v1/status", [], 200),
        (reader, "GET", "/healthz", [], 200),
        (reader, "GET", "/metrics", [], 200),
        (reader, "GET", "/", [], 200),
    ):
        with Line.of(who) as line:
            answer = line.ask(line.request(method, path, b"", *more))
            assert (answer.status, answer.headers["connection"], line.is_closed()) == (status, "close", True), path
    with Line.of(writer) as line:
        answer = line.ask(line.request("GET", HEAD).replace(b"127.0.0.1", b"other.example"))
        assert (answer.status, answer.headers["connection"], line.is_closed()) == (421, "close", True)


@pytest.mark.parametrize(
    ("more", "http"), [(["Connection: Close"], "1.1"), ([], "1.0"), (["Connection: keep-alive"], "1.0")]
)
def test_a_client_that_wants_one_answer_gets_one(line: Line, more: list[str], http: str) -> None:
    answer = line.ask(line.request("GET", HEAD, b"", *more, http=http))
    assert (answer.status, answer.headers["connection"], line.is_closed()) == (200, "close", True)


def test_a_connection_that_rests_is_closed(lake: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_RESTS_FOR", 0.1)
    create(lake)
    with served(lake) as page, Line.of(writer_of(page)) as line:
        assert line.is_kept()
        assert line.is_closed()


def test_a_request_that_comes_byte_by_byte_ends_on_a_kept_connection_too(
    lake: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_LONGEST_REQUEST", 1.0)
    create(lake, properties=UNTIMED)
    with served(lake) as page, Line.of(writer_of(page)) as line:
        assert line.ask(line.commit(1)).status == 201, "it was granted ten minutes, and the next one was not"
        line.socket.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        line.socket.settimeout(0.1)
        is_closed = False
        while not is_closed:
            try:
                is_closed = line.is_closed()
            except TimeoutError:
                line.socket.send(b"x")


def test_a_connection_that_rests_makes_room_and_the_one_that_rested_longest_does_so_first(
    page: Served, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server._PageConnection, "most", 3)
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(Line.of(writer)) for _ in range(3))
        assert all(line.is_kept() for line in (first, second, third, first))
        assert page.client().get("/").status == 200
        assert second.is_closed()
        assert all(line.is_kept() for line in (first, third))


def test_a_request_under_way_makes_no_room(writer: Writer, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    assert line.is_kept()
    monkeypatch.setattr(server._PageConnection, "most", 1)
    request = line.request("GET", HEAD)
    line.socket.sendall(request[:20])
    with Line.of(writer) as other:
        assert other.is_closed()
    assert line.ask(request[20:]).status == 200


@pytest.mark.parametrize("part", [1, None])
def test_what_comes_before_the_answer_is_not_looked_at_and_the_answer_says_so(
    page: Served, line: Line, part: int | None
) -> None:
    """A client that sends requests together would hold as many answers in memory as it likes."""
    answer = line.ask(line.commit(1) + line.commit(2)[:part])
    assert (answer.status, answer.headers["connection"], line.is_closed()) == (201, "close", True)
    assert page.catalog.table("t").info().head == 1


def test_a_line_end_after_a_body_is_no_request(page: Served, line: Line, writer: Writer) -> None:
    """Its refusal would be taken for the answer to the next commit."""
    answer = line.ask(line.commit(1) + b"\r\n")
    assert (answer.status, answer.headers["connection"], line.is_closed()) == (201, "close", True)
    with Line.of(writer) as other:
        assert other.ask(other.commit(2)).status == 201
        for end in (b"\r\n", b"\r", b"\n"):
            other.socket.sendall(end)
        assert other.ask(b"\r\n" + other.commit(3)).status == 201
    assert page.catalog.table("t").info().head == 3


def test_a_request_that_tells_its_length_twice_is_the_last_one(page: Served, line: Line) -> None:
    body = commit_lines("1")
    head = line.request("POST", "/api/v1/tables/t/commits/1", b"", "Transfer-Encoding: chunked")
    answer = line.ask(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
    assert (answer.status, answer.headers["connection"], line.is_closed()) == (201, "close", True)
    assert page.catalog.table("t").info().head == 1


def test_nothing_is_read_after_a_request_that_is_refused(page: Served, line: Line) -> None:
    stranger = line.commit(1).replace(line.token.encode(), b"dm_unknown")
    assert line.ask(stranger + line.commit(1)).status == 401
    assert line.is_closed()
    assert page.catalog.table("t").info().head == 0


def test_a_body_that_the_answer_did_not_wait_for_is_no_request(page: Served, line: Line) -> None:
    body = line.commit(1)
    answer = line.ask(line.request("GET", HEAD, body).removesuffix(body))
    assert (answer.status, answer.headers["connection"], line.is_closed()) == (200, "close", True)
    assert page.catalog.table("t").info().head == 0


def test_a_body_that_is_too_large_ends_the_connection(lake: Catalog) -> None:
    create(lake, properties=UNTIMED)
    with served(lake, commit_bytes=10) as page, Line.of(writer_of(page)) as line:
        answer = line.ask(line.commit(1))
        assert (answer.status, answer.headers["connection"], line.is_closed()) == (413, "close", True)


def test_a_server_that_stops_waits_for_no_connection_that_rests(lake: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_STOPS_WITHIN", 600)
    create(lake)
    before = set(threading.enumerate())
    with ExitStack() as stack:
        with served(lake) as page:
            line = stack.enter_context(Line.of(writer_of(page)))
            assert line.is_kept()
            [serving] = (
                each for each in threading.enumerate() if each not in before and each.name == "deltamirror-http"
            )
        assert line.is_closed()
        serving.join(60)
        assert not serving.is_alive()


def test_a_server_that_stops_answers_what_is_under_way_and_closes(
    lake: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, is_committed, go_on = Committing.run, threading.Event(), threading.Event()

    def stuck(committing: Committing) -> object:
        committed = run(committing)
        is_committed.set()
        go_on.wait(60)
        return committed

    create(lake, properties=UNTIMED)
    monkeypatch.setattr(server, "_STOPS_WITHIN", 600)
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        page = stack.enter_context(served(lake))
        with Line.of(writer_of(page)) as line:
            assert line.is_kept()
            monkeypatch.setattr(Committing, "run", stuck)
            line.socket.sendall(line.commit(1))
            assert is_committed.wait(60)
            stopping = pool.submit(stack.close)
            until(lambda: not _answers(page.port))
            go_on.set()
            answer = line.answer()
            assert (answer.status, answer.headers["connection"], line.is_closed()) == (201, "close", True)
        stopping.result(60)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except OSError:
        return False
    return True
