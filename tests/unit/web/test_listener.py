"""What a process serves beside its work: three pages, to read, and nothing else."""

import json
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from deltamirror import Catalog
from deltamirror.ops.health import HealthMonitor
from deltamirror.telemetry import metrics
from deltamirror.web import listener
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
    monkeypatch.setattr(listener, "_LONGEST_CONNECTION", 0.2)
    with _connected(url) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert _is_closed(connection)


def test_a_request_with_a_huge_head_is_refused(url: str) -> None:
    with _connected(url) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Large: " + b"x" * 64 * 1024)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


def test_more_connections_than_anybody_needs_are_closed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener.OneRequest, "most", 1)
    with _connected(url) as first, _connected(url) as second:
        assert _is_closed(second)
        first.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert first.recv(100).startswith(b"HTTP/1.1 200")


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True
