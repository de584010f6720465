"""What a process serves beside its work: three pages, to read, and nothing else."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest
import uvicorn
from uvicorn.server import ServerState

from deltamirror import Catalog
from deltamirror.ops.health import HealthMonitor
from deltamirror.telemetry import metrics
from deltamirror.web import listener
from deltamirror.web.listener import BoundedConnection
from tests.support.mirrors.local import local_settings, until
from tests.support.monitoring.health import Answer, asked, served

pytestmark = pytest.mark.requirement("R64")


@pytest.fixture
def url(lake: Catalog) -> Iterator[str]:
    with served(HealthMonitor(lake.database, local_settings())) as address:
        yield address


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_json_with_every_part(url: str, path: str) -> None:
    answer = asked(url, path)
    document = json.loads(answer.body)
    assert (answer.status, document["ok"], document["ready"]) == (200, True, True)
    assert [part["name"] for part in document["parts"]] == [
        "database",
        "store",
        "progress",
        "reconciler",
        "spark",
        "settings",
    ]
    assert all({"state", "reason", "advice", "since"} < part.keys() for part in document["parts"])


def test_metrics_are_in_the_form_of_prometheus(url: str) -> None:
    answer = asked(url, "/metrics")
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "text/plain")
    assert b"# TYPE deltamirror_commits_total counter" in answer.body


def test_an_answer_that_fails_says_nothing_of_why(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: HealthMonitor) -> None:
        raise KeyError("postgresql://me:hunter2@host/lake")

    monkeypatch.setattr(HealthMonitor, "report", fail)
    answer = asked(url, "/healthz")
    assert (answer.status, _protects(answer)) == (500, True)
    until(lambda: "the answer to a request failed: KeyError" in caplog.text)
    assert b"KeyError" not in answer.body
    assert "hunter2" not in caplog.text


def test_metrics_that_hang_keep_no_scraper_waiting(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(metrics, "exposition", lambda: released.wait(60))
    monkeypatch.setattr(listener, "_MEASURED_WITHIN", 0.05)
    answer = asked(url, "/metrics")
    released.set()
    assert (answer.status, b"cannot read the metrics: no answer within" in answer.body) == (503, True)


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/healthz", "HEAD", 200),
        ("/healthz", "POST", 405),
        ("/metrics", "DELETE", 405),
        ("/", "GET", 404),
        ("/healthz/../etc/passwd", "GET", 404),
        ("/docs", "OPTIONS", 404),
    ],
)
def test_nothing_else_is_served_and_every_answer_has_the_headers(url: str, path: str, method: str, status: int) -> None:
    answer = asked(url, path, method=method)
    assert answer.status == status
    assert _protects(answer)


def _protects(answer: Answer) -> bool:
    said = {name.lower(): value for name, value in answer.headers.items()}
    expected = {name.decode(): value.decode() for name, value in listener.SECURITY_HEADERS}
    return expected.items() <= said.items() and "server" not in said and said["connection"] == "close"


def _connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def test_a_request_that_never_ends_is_cut_off(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_LONGEST_REQUEST", 0.2)
    with _connected(url) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert _is_closed(connection)


def test_a_request_with_a_huge_head_is_refused(url: str) -> None:
    with _connected(url) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Large: " + b"x" * 64 * 1024)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


def test_more_connections_than_anybody_needs_are_closed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener.BoundedConnection, "most", 1)
    with _connected(url) as first, _connected(url) as second:
        assert _is_closed(second)
        first.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert first.recv(100).startswith(b"HTTP/1.1 200")


@dataclass(slots=True)
class _Clock:
    """The event loop of a connection, at a time that the test sets."""

    now: float = 0.0
    timers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, act: Callable[[], None]) -> Any:
        timer = (self.now + seconds, act)
        self.timers.append(timer)
        return SimpleNamespace(cancel=lambda: self.timers.remove(timer))

    def go_on(self, until: float) -> None:
        """Let time pass, and timers act at theirs."""
        while (due := min((when for when, _ in self.timers), default=until + 1)) <= until:
            [act, *_] = [act for when, act in self.timers if when == due]
            self.timers.remove((due, act))
            self.now = due
            act()
        self.now = until


class _Connected(BoundedConnection):
    """A connection whose transport is a mock."""

    def __init__(self, clock: _Clock, state: ServerState | None = None, unsent: int = 0) -> None:
        config = uvicorn.Config(listener.monitoring_app, log_config=None, timeout_keep_alive=600)
        super().__init__(config, state or ServerState(), {}, cast("Any", clock))
        transport = Mock()
        transport.get_write_buffer_size.return_value = unsent
        transport.is_closing.side_effect = lambda: self.is_aborted
        transport.get_extra_info.return_value = None
        self.connection_made(transport)

    @property
    def is_aborted(self) -> bool:
        return bool(cast("Any", self.transport).abort.called)

    def begin(self, granted: float | None = None) -> None:
        self.scope = cast("Any", {"type": "http", "state": {}})
        if granted is not None:
            listener.grant_time(cast("Any", self.scope), granted)


def test_each_request_of_a_kept_connection_has_the_time_that_a_first_one_has() -> None:
    clock = _Clock()
    connection = _Connected(clock)
    for answered in (29.0, 58.0, 87.0):
        clock.go_on(answered)
        assert not connection.is_aborted, "the time of an earlier request is not that of this one"
        connection.begin()
        connection.on_response_complete()
        connection._unset_keepalive_if_required()
        assert len(clock.timers) == 1, "timers do not heap up"
    clock.go_on(116.9)
    assert not connection.is_aborted
    clock.go_on(117.0)
    assert connection.is_aborted


@pytest.mark.parametrize("answered", [100.0, 599.0])
def test_a_request_lasts_as_long_as_it_was_granted_and_the_next_one_does_not(answered: float) -> None:
    clock = _Clock()
    connection = _Connected(clock)
    connection.begin(granted=600.0)
    clock.go_on(answered)
    assert not connection.is_aborted
    connection.on_response_complete()
    connection._unset_keepalive_if_required()
    clock.go_on(answered + 29.9)
    assert not connection.is_aborted
    clock.go_on(answered + 30.0)
    assert connection.is_aborted


def test_an_answer_that_is_still_being_sent_has_the_time_of_its_request() -> None:
    clock = _Clock()
    connection = _Connected(clock, unsent=1)
    connection.begin(granted=600.0)
    connection.on_response_complete()
    connection._unset_keepalive_if_required()
    clock.go_on(599.0)
    assert not connection.is_aborted
    clock.go_on(600.0)
    assert connection.is_aborted


def test_the_connection_that_rested_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedConnection, "most", 20)
    clock, state = _Clock(), ServerState()
    connections = [_Connected(clock, state) for _ in range(20)]
    for connection in reversed(connections):
        clock.go_on(clock.now + 1.0)
        connection.on_response_complete()
    for _ in range(3):
        _Connected(clock, state)
    assert [connection.is_aborted for connection in connections] == [False] * 17 + [True] * 3


@pytest.mark.parametrize("request_begins", [b"G", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_a_connection_does_not_rest_whose_next_request_came_with_the_answer(request_begins: bytes) -> None:
    connection = _Connected(_Clock())
    connection.on_response_complete()
    assert connection.is_resting
    connection._unset_keepalive_if_required()
    connection.conn.receive_data(request_begins)
    connection.on_response_complete()
    assert (connection.is_resting, connection.timeout_keep_alive_task) == (False, None)


def test_a_connection_ends_without_a_word_where_line_ends_came_with_the_answer() -> None:
    connection = _Connected(_Clock())
    connection.conn.receive_data(b"\r\n")
    connection.on_response_complete()
    assert cast("Any", connection.transport).close.called
    assert not cast("Any", connection.transport).write.called


def test_a_connection_that_ended_leaves_no_timer() -> None:
    clock = _Clock()
    connection = _Connected(clock)
    connection.on_response_complete()
    connection.connection_lost(None)
    assert clock.timers == []


def test_connections_that_come_at_once_take_a_place_each_of_those_that_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedConnection, "most", 3)
    clock, state = _Clock(), ServerState()
    busy, *resting = [_Connected(clock, state) for _ in range(3)]
    for connection in resting:
        connection.on_response_complete()
    came = [_Connected(clock, state) for _ in range(3)]
    clock.go_on(0.0)
    assert [connection.is_aborted for connection in (busy, *resting, *came)] == [False, True, True, False, False, True]


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True
