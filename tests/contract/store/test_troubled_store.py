"""What each trouble of a store becomes, whatever was asked of it."""

import pickle
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from obstore.store import S3Store

from deltamirror.config import Secret, StorageSettings
from deltamirror.errors import (
    CapacityExceeded,
    DeltaMirrorError,
    InvalidSettings,
    NotFound,
    PermissionDenied,
    Throttled,
    Transient,
    Unavailable,
    Unsupported,
)
from deltamirror.storage.calls import BoundedStore
from deltamirror.storage.object_store import ObjectStore
from deltamirror.storage.open import store_at
from deltamirror.storage.probe import probe
from deltamirror.storage.store import Changed, ETag, Exists, Store
from tests.support.faults.answering import HANG, RESET, Answer, answering

SECRET = "hunter2-secret"
TOKEN = "hunter2-token"
IMPATIENT = {"timeout": 0.5, "transfer_timeout": 0.5, "connect_timeout": 0.5}
"""For servers that do not answer; others may take their time."""
USES: dict[str, Callable[[Store], Any]] = {
    "create": lambda store: store.create("k", b"x"),
    "put": lambda store: store.put("k", b"x"),
    "replace": lambda store: store.replace("k", b"x", if_match=ETag('"e"')),
    "read": lambda store: store.read("k"),
    "range": lambda store: store.read_range("k", 0, 1),
    "head": lambda store: store.head("k"),
    "list": lambda store: list(store.list("f")),
    "delete": lambda store: store.delete(["k"]),
    "copy": lambda store: store.copy("k", "l"),
}


def troubled(endpoint: str | None, **options: Any) -> Store:
    given: dict[str, Any] = {
        "access_key_id": "id",
        "secret_access_key": Secret(SECRET),
        "session_token": Secret(TOKEN),
        "endpoint": endpoint,
        "allow_http": True,
        "timeout": 60.0,
        "transfer_timeout": 60.0,
        "connect_timeout": 60.0,
        "retries": 1,
    }
    return store_at("s3://bucket/lake/table", StorageSettings(**given | options))


def trouble(store: Store, use: str) -> DeltaMirrorError:
    with pytest.raises(DeltaMirrorError) as caught:
        USES[use](store)
    return caught.value


TABLE: list[tuple[Answer, type[DeltaMirrorError], int]] = [
    (Answer(401, "Unauthorized"), PermissionDenied, 1),
    (Answer(403, "AccessDenied"), PermissionDenied, 1),
    (Answer(403, "SignatureDoesNotMatch"), PermissionDenied, 1),
    (Answer(400, "ExpiredToken"), PermissionDenied, 1),
    (Answer(404, "NoSuchBucket"), NotFound, 1),
    (Answer(413, "EntityTooLarge"), CapacityExceeded, 1),
    (Answer(429, "TooManyRequests", (("retry-after", "7"),)), Throttled, 3),  # with the question for how long
    (Answer(503, "SlowDown"), Throttled, 3),
    (Answer(500, "InternalError"), Unavailable, 2),
    (Answer(502, "BadGateway"), Unavailable, 2),
    (Answer(503, "ServiceUnavailable"), Unavailable, 2),
    (Answer(507, "InsufficientStorage"), CapacityExceeded, 2),
    (Answer(301, "PermanentRedirect"), InvalidSettings, 1),
    (Answer(400, "InvalidRequest"), Unsupported, 1),
    (Answer(501, "NotImplemented"), Unsupported, 2),
    (RESET, Unavailable, 4),  # what a create did not put is looked for
    (HANG, Unavailable, 2),
]
# The answer to a HEAD has no document, so that these cannot be told from others of their status.
NOT_TOLD_BY_HEAD = {"ExpiredToken", "NoSuchBucket", "SlowDown"}
TROUBLES = [(use, *told) for use in USES for told in TABLE if use != "head" or told[0].code not in NOT_TOLD_BY_HEAD]


@pytest.mark.default_when(
    parameters=lambda those: (
        those["use"] == "create" or those["answer"].code in ("AccessDenied", "InternalError", "TooManyRequests")
    )
)
@pytest.mark.requirement("R47")
@pytest.mark.parametrize(
    ("use", "answer", "kind", "requests"), TROUBLES, ids=lambda value: getattr(value, "code", None)
)
def test_every_trouble_has_one_error_whatever_was_asked(
    use: str, answer: Answer, kind: type[DeltaMirrorError], requests: int
) -> None:
    with answering(answer) as asked:
        error = trouble(troubled(asked.endpoint, **(IMPATIENT if answer is HANG else {})), use)
        assert type(error) is kind
        assert "s3://bucket/lake/table" in error.message
        assert error.hint
        assert asked.met.wait(60)
        # Nothing is hammered: as many attempts as were asked for, and none again where it is of no use.
        assert 1 <= len(asked.requests) <= requests


@pytest.mark.requirement("R48")
@pytest.mark.parametrize(
    ("told", "header", "seconds"),
    [
        ("SlowDown</Code><RetryAfterSeconds>7</RetryAfterSeconds><Code>", None, 7.0),
        ("ServerBusy</Code><Message>Please retry after 12 seconds.</Message><Code>", None, 12.0),
        ("SlowDown", None, None),
        ("SlowDown", "12", 12.0),
        ("SlowDown", "Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("SlowDown", "soon", None),
    ],
)
@pytest.mark.parametrize("use", ["create", "read"])
def test_how_long_a_store_wants_to_be_left_alone_is_known_where_its_answer_says_so(
    use: str, told: str, header: str | None, seconds: float | None
) -> None:
    headers = () if header is None else (("retry-after", header),)
    with answering(Answer(503, told, headers)) as asked:
        error = trouble(troubled(asked.endpoint, retries=0), use)
    assert isinstance(error, Throttled)
    assert error.retry_after == seconds
    assert TOKEN not in "".join(traceback.format_exception(error))


def test_a_store_that_stopped_throttling_is_not_asked_to_wait_for() -> None:
    slow = Answer(503, "SlowDown", (("retry-after", "600"),))
    with answering(slow, Answer(404, "NoSuchKey", (("retry-after", "600"),))) as asked:
        error = trouble(troubled(asked.endpoint, retries=0), "create")
        assert [method for method, _ in asked.requests] == ["PUT", "HEAD"]
    assert isinstance(error, Throttled)
    assert error.retry_after is None


@pytest.mark.requirement("R47")
def test_trouble_that_passes_within_the_retries_is_not_seen() -> None:
    ok = Answer(200, headers=(("etag", '"e"'),))
    with answering(Answer(503, "SlowDown"), ok) as asked:
        troubled(asked.endpoint).create("k", b"x")
        assert [method for method, _ in asked.requests] == ["PUT", "PUT"]
        assert {headers["if-none-match"] for headers in asked.headers} == {"*"}


@pytest.mark.requirement("R47")
def test_a_lost_race_is_a_value() -> None:
    for answer in (Answer(412, "PreconditionFailed"), Answer(409, "ConditionalRequestConflict")):
        with answering(answer) as asked:
            store = troubled(asked.endpoint)
            assert store.create("k", b"x") == Exists()
            assert store.replace("k", b"x", if_match=None) == Changed()
            assert store.replace("k", b"x", if_match=ETag('"e"')) == Changed()
    with answering(Answer(404, "NoSuchKey")) as asked:
        assert troubled(asked.endpoint).replace("k", b"x", if_match=ETag('"e"')) == Changed()


def test_an_overwrite_that_is_told_of_a_conflict_may_be_tried_again() -> None:
    with answering(Answer(409, "OperationAborted")) as asked:
        assert type(trouble(troubled(asked.endpoint), "put")) is Transient


@pytest.mark.requirement("R44")
def test_a_create_whose_reply_was_lost_meets_its_own_object_and_says_exists() -> None:
    with answering(Answer(500, "InternalError"), Answer(412, "PreconditionFailed")) as asked:
        assert troubled(asked.endpoint).create("k", b"x") == Exists()
    with answering(HANG) as asked:
        assert type(trouble(troubled(asked.endpoint, **IMPATIENT), "create")) is Unavailable
        assert asked.met.wait(60)
        assert len(asked.requests) == 1


@pytest.mark.requirement("R44")
def test_a_create_whose_connection_broke_says_exists_where_there_is_an_object_for_certain() -> None:
    there = Answer(200, headers=(("etag", '"e"'), ("last-modified", "Sun, 15 Nov 2026 20:00:00 GMT")))
    with answering(RESET, there) as asked:
        assert troubled(asked.endpoint, retries=0).create("k", b"x") == Exists()
        assert [method for method, _ in asked.requests] == ["PUT", "HEAD"]
    # Whoever may not list is told 403 of what is not there: that says nothing of the object.
    for answer in (Answer(404), Answer(403), RESET):
        with answering(RESET, answer) as asked:
            assert type(trouble(troubled(asked.endpoint, retries=0), "create")) is Unavailable
            assert [method for method, _ in asked.requests] == ["PUT", "HEAD"]


@pytest.mark.requirement("R47")
def test_a_server_that_is_down_or_has_no_name_is_unavailable() -> None:
    for endpoint in ("http://127.0.0.1:1", "http://no-such-host.invalid"):
        error = trouble(troubled(endpoint), "read")
        assert type(error) is Unavailable
        assert "no answer (connect)" in error.message


def test_tls_to_a_server_without_it_is_unavailable() -> None:
    with answering(Answer(200)) as asked:
        encrypted = asked.endpoint.replace("http:", "https:")
        assert type(trouble(troubled(encrypted, **IMPATIENT), "read")) is Unavailable


def test_an_endpoint_without_tls_has_to_be_allowed_however_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    error = trouble(troubled(None, allow_http=False), "read")
    assert type(error) is InvalidSettings


@pytest.mark.parametrize("endpoint", ["foo bar", "127.0.0.1:9000", "ftp://host", "https://", "http://a b"])
def test_an_endpoint_that_is_no_address_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidSettings, match="is not an address"):
        troubled(endpoint)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Key and certificate of 127.0.0.1, signed by nobody that the system knows."""
    pem = tmp_path / "server.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    extensions = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(
        [*command, *extensions, "-keyout", pem, "-out", tmp_path / "ca.pem"], check=True, capture_output=True
    )
    pem.write_bytes(pem.read_bytes() + (tmp_path / "ca.pem").read_bytes())
    return pem


@pytest.mark.requirement("R46")
def test_a_private_certificate_is_trusted_when_its_file_is_named(certificate: Path) -> None:
    with answering(Answer(404, "NoSuchKey"), certificate=certificate) as asked:
        error = trouble(troubled(asked.endpoint, allow_http=False), "read")
        assert type(error) is Unavailable
        assert asked.requests == []
        trusting = troubled(asked.endpoint, allow_http=False, ca_file=str(certificate.with_name("ca.pem")))
        assert trusting.read("k") is None
        assert len(asked.requests) == 1


def test_a_missing_ca_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="cannot read it"):
        troubled("https://127.0.0.1:1", ca_file=str(tmp_path / "missing.pem"))


@pytest.mark.requirement("R46")
def test_what_a_store_says_about_a_request_is_not_repeated() -> None:
    told = f"SignatureDoesNotMatch</Code><CanonicalRequest>x-amz-security-token:{TOKEN}</CanonicalRequest><Code>"
    for use in USES:
        with answering(Answer(403, told)) as asked:
            error = trouble(troubled(asked.endpoint), use)
        shown = "".join(traceback.format_exception(error)) + str(error.as_json()) + repr(error)
        assert TOKEN not in shown
        assert SECRET not in shown


@pytest.mark.requirement("R46")
def test_a_store_and_its_errors_travel_without_keys() -> None:
    with answering(Answer(403, "AccessDenied")) as asked:
        store = troubled(asked.endpoint)
        travelling = pickle.dumps([store, trouble(store, "read")])
        assert asked.headers[0]["x-amz-security-token"] == TOKEN
    assert SECRET.encode() not in travelling
    assert TOKEN.encode() not in travelling
    assert SECRET not in repr(store)
    assert TOKEN not in repr(store)


def test_path_style_or_the_bucket_in_the_host() -> None:
    with answering(Answer(404, "NoSuchKey")) as asked:
        troubled(asked.endpoint).read("k")
        assert asked.requests == [("GET", "/bucket/lake/table/k")]
    store = troubled("https://s3.example:9000/", path_style=False)
    assert isinstance(store, BoundedStore)
    assert isinstance(store.inner, ObjectStore)
    client = store.inner.clients.calls
    assert isinstance(client, S3Store)
    assert "https://bucket.s3.example:9000" in client.config.values()


@pytest.mark.requirement("R44")
def test_a_store_that_ignores_the_condition_is_refused() -> None:
    with answering(Answer(200, headers=(("etag", '"e"'), ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")))) as asked:
        with pytest.raises(Unsupported, match="lets two writers win") as caught:
            probe(troubled(asked.endpoint))
        assert "conditional writes" in caught.value.hint
        assert asked.requests[-1][0] in ("DELETE", "POST")
