"""Nobody changes anything without a token, nobody reads from elsewhere, and no page says what it must not."""

import socket
import ssl
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio.to_thread
import pytest
from msgspec.structs import replace

from deltamirror import Catalog
from deltamirror.config import CatalogSettings, Secret, ServeSettings, Settings, StorageSettings
from deltamirror.errors import InvalidSettings, Refused, Unavailable
from deltamirror.ops.engine import MirrorEngine
from deltamirror.txnlog.access.tokens import Right, revoke_token
from deltamirror.txnlog.alerts import silences
from deltamirror.web.pages.addresses import binding_of
from deltamirror.web.pages.guard import LONGEST_BODY, LONGEST_QUERY
from deltamirror.web.pages.server import serving
from deltamirror.web.pages.throttle import Throttle, Wrong
from tests.support.interfaces.status_pages import SILENCE, Client, Served, paused, served
from tests.support.lakes.lake import add, create, execute
from tests.support.monitoring.scraping import own_labels

ACTS = (
    *("/tables/t/pause", "/tables/t/resume", "/tables/t/repair", "/tables/t/silence", "/tables/t/unsilence"),
    *("/pause", "/resume", "/silence", "/unsilence"),
)
EVERYWHERE = "0.0.0.0:0"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def page(served_page: Served) -> Served:
    """A page with one table."""
    create(served_page.catalog)
    return served_page


def test_without_a_session_nothing_changes(page: Served) -> None:
    stranger, reader = page.client(), page.client("ada")
    bearer = page.token("bob")
    for path in ACTS:
        assert stranger.post(path, {"csrf": ""}).status == 403
        assert stranger.post(path, {}, Authorization=f"Bearer {bearer}").status == 403
        assert stranger.post(path, {}, Cookie="deltamirror=guessed").status == 403
        for method in ("PUT", "DELETE", "PATCH", *(() if path.endswith("/silence") else ("GET", "HEAD"))):
            assert reader.ask(method, path).status in (404, 405)
    assert (paused(page.catalog), silences(page.catalog.database)) == ((False, False), [])


def test_a_form_of_another_site_changes_nothing(page: Served) -> None:
    client, other = page.client("ada"), page.client("bob")
    csrf, theirs = client.csrf(), other.csrf()
    assert csrf != theirs
    for path in ACTS:
        for fields in ({}, {"csrf": ""}, {"csrf": csrf[:-1]}, {"csrf": theirs}, {"csrf": "é"}):
            assert client.post(path, {"unpublished": "yes", **SILENCE, **fields}).status == 403
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}):
            assert client.post(path, {"csrf": csrf, "unpublished": "yes", **SILENCE}, **headers).status == 403
        assert client.ask("POST", path, b"{}", {"Content-Type": "application/json"}).status == 422
    assert (paused(page.catalog), silences(page.catalog.database)) == ((False, False), [])


def test_a_token_that_reads_does_not_operate_and_one_for_some_tables_not_on_others(page: Served) -> None:
    page.token("reader", Right.READ)
    page.token("narrow", Right.OPERATE, "sales.*")
    for name, path in (("reader", "/tables/t/pause"), ("narrow", "/tables/t/pause"), ("narrow", "/pause")):
        client = page.client(name)
        assert client.post(path, {"csrf": client.csrf(), "unpublished": "yes"}).status == 403
    assert page.client().sign_in(page.token("writer", Right.WRITE)).status == 401
    assert paused(page.catalog) == (False, False)


def test_a_session_ends_with_its_token_with_its_time_and_when_it_is_signed_out(page: Served) -> None:
    client, other = page.client("ada"), page.client("ada")
    csrf = client.csrf()
    assert client.post("/sign-out", {"csrf": csrf}).status == 303
    assert other.csrf() != ""
    assert Client(page.port, "deltamirror=" + other.cookie.partition("=")[2]).csrf() != ""
    revoke_token(page.catalog.database, "ada")
    assert other.csrf() == ""
    with served(page.catalog, session=0.000001) as brief:
        assert brief.client("bob").csrf() == ""


def test_the_cookie_is_for_this_site_and_no_script(page: Served) -> None:
    client = page.client()
    cookie = client.sign_in(page.token()).headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip() for part in cookie.split(";")}


def test_signing_in_leads_to_no_other_site(page: Served) -> None:
    for address in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:evil()"):
        answer = page.client().post("/sign-in", {"token": page.token(), "next": address})
        assert (answer.status, answer.headers["location"]) == (303, "/")
        assert "evil" not in page.client().get(f"/sign-in?next={address}").text


def test_every_answer_has_the_headers(page: Served) -> None:
    client = page.client()
    for path in ("/", "/tables/t", "/tables/x", "/sign-in", "/static/style.css", "/api/v1/status", "/x"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store" or path.startswith("/static")
        assert "server" not in headers


def test_another_name_of_the_host_is_refused(page: Served) -> None:
    """A page of another site may lead its own name to this address."""
    client = page.client()
    for other in ("evil.example", "127.0.0.1.evil.example", "", "localhost.evil", "[::2]", "10.0.0.1"):
        assert client.get("/", Host=f"{other}:{page.port}").status in (400, 421)
    for own in ("localhost", "127.0.0.1", "[::1]", "LOCALHOST."):
        assert client.get("/", Host=f"{own}:{page.port}").status == 200


def test_what_is_too_large_is_refused(page: Served) -> None:
    client = page.client("ada")
    assert client.get(f"/?search={'x' * LONGEST_QUERY}").status == 414
    large = b"csrf=" + b"x" * LONGEST_BODY
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.ask("POST", "/sign-in", large, form).status == 413
    assert client.ask("POST", "/sign-in", iter([large, large]), form).status == 422
    assert client.ask("POST", "/sign-in", b"&".join(b"a=1" for _ in range(99)), form).status == 422
    assert client.ask("POST", "/sign-in", b"\xff=%ff", form).status == 422
    assert client.get("/", X_Long="x" * 100_000).status in (400, 431)
    assert client.get("/").status == 200


def test_no_other_file_is_served(page: Served) -> None:
    client = page.client()
    for path in ("/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "//etc/passwd", "/", "", "/%00"):
        answer = client.get(f"/static{path}")
        assert answer.status in (303, 307, 422, 404, 405)
        assert b"import" not in answer.body


def test_what_tables_and_errors_are_called_is_text_and_no_markup(page: Served) -> None:
    name = f'"><img src=x onerror=alert(1)>{SCRIPT}'
    execute(page.catalog, "UPDATE dl_tables SET name = :name, location = :name", name=name)
    execute(
        page.catalog,
        "UPDATE dl_mirror_status SET state = 'FAILED', error_code = :text, error_message = :text, error_stage = :text,"
        " error_key = :text, attempts = 1",
        text=SCRIPT,
    )
    execute(
        page.catalog,
        "INSERT INTO dl_mirror_attempts (table_id, version, lane, epoch, attempt, owner, started_at, ended_at, outcome,"
        " error_code, error_message, error_stage, error_key, expected_digest, found_digest) VALUES"
        " (1, 0, 'commits', 1, 1, :text, 1, 1, 'FAILED', :text, :text, :text, :text, :text, :text)",
        text=SCRIPT,
    )
    execute(
        page.catalog,
        "INSERT INTO dl_breakers (store, state, failures, successes, changed_at, error_code, error_message) VALUES"
        " (:text, 'open', 1, 0, 1, :text, :text)",
        text=SCRIPT,
    )
    client = page.client()
    quoted = urllib.parse.quote(name.replace("/", ""), safe="")
    execute(page.catalog, "UPDATE dl_tables SET name = :name", name=name.replace("/", ""))
    for path in (
        "/",
        f"/tables/{quoted}",
        f"/tables/{quoted}/failures/0",
        f"/?search={quoted}",
        f"/sign-in?next=/{quoted}",
    ):
        text = client.get(path).text
        assert "<script>alert" not in text
        assert "<img" not in text
        assert "alert(1)" in text


def test_no_page_says_a_secret(tmp_path: Path, lake: Catalog) -> None:
    secrets = ("hunter2-catalog", "hunter2-storage", "hunter2-error")
    create(lake)
    execute(
        lake,
        "UPDATE dl_mirror_status SET state = 'FAILED', error_code = 'unavailable', error_stage = 'put',"
        " error_key = 'k', error_message = 'no answer of http://me:hunter2-error@store/ (password=hunter2-error)'",
    )
    execute(lake, "UPDATE dl_tables SET quarantined_at = 1, quarantine_reason = 'token=hunter2-error'")
    settings = Settings(
        catalog=CatalogSettings(url="postgresql://me:hunter2-catalog@db/lake?sslpassword=hunter2-catalog"),
        storage=StorageSettings(secret_access_key=Secret("hunter2-storage")),
        serve=ServeSettings(listen="127.0.0.1:0"),
    )
    settings = replace(settings, mirror=replace(settings.mirror, runner="local"))
    with (
        MirrorEngine(settings=settings, database=lake.database) as engine,
        serving(engine, binding_of(settings.serve, insecure_http=False), lake) as running,
    ):
        client = Client(int(running.url.rstrip("/").rpartition(":")[2]))
        for path in ("/", "/tables/t", "/tables/t/failures/0", "/api/v1/status", "/api/v1/tables/t", "/sign-in", "/x"):
            text = client.get(path).text
            assert not [secret for secret in secrets if secret in text], path
        assert "postgresql://me:***@db/lake" in client.get("/").text


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long answers to wrong tokens were held back; no test waits that long."""
    found: list[float] = []

    async def slept(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr("deltamirror.web.pages.app.anyio.sleep", slept)
    return found


def test_wrong_tokens_are_answered_late_and_logged_and_the_right_one_of_the_same_client_at_once(
    page: Served, pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    client, right = page.client(), page.token()
    wrong = right[:-4] + "AAAA"
    assert [client.sign_in(wrong).status for _ in range(5)] == [401] * 5
    assert client.get("/api/v1/status", Authorization=f"Bearer {wrong}").status == 401
    assert pauses == [2.0, 4.0, 8.0]
    assert client.sign_in(right).status == 303
    assert client.get("/api/v1/status", Authorization=f"Bearer {right}").status == 200
    assert client.get("/nothing", Authorization=f"Bearer {wrong}").status == 404
    assert client.get("/sign-in", Authorization=f"Bearer {wrong}").status == 200
    assert pauses == [2.0, 4.0, 8.0]
    said = [record.message for record in caplog.records if "wrong token" in record.message]
    assert [each.partition(", ")[2] for each in said] == [f"{count} of late" for count in (1, 2, 3, 4)]
    assert wrong not in caplog.text


def test_no_more_answers_are_held_back_than_leave_room_for_others(
    page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever many clients guess, right tokens and neighbours are served."""
    monkeypatch.setattr("deltamirror.web.pages.app._HELD_BACK", 1)
    held, go_on = threading.Event(), threading.Event()

    async def slept(_: float) -> None:
        held.set()
        await anyio.to_thread.run_sync(go_on.wait)

    monkeypatch.setattr("deltamirror.web.pages.app.anyio.sleep", slept)
    client, right = page.client(), page.token()
    for _ in range(3):
        client.sign_in("dm_wrong")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.sign_in, "dm_wrong")
        held.wait()
        refused = page.client().sign_in("dm_wrong")
        assert (refused.status, refused.headers["retry-after"]) == (429, "4")
        assert page.client().sign_in(right).status == 303
        assert page.client().get("/").status == 200
        go_on.set()
        assert waiting.result().status == 401


def test_wrong_tokens_cost_more_and_more_time() -> None:
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    assert [throttle.was_wrong("a").pause for _ in range(9)] == [0, 0, 0, 2, 4, 8, 16, 20, 20]
    assert throttle.was_wrong("b").pause == 0
    for number in range(60):
        throttle.was_wrong(f"client {number}")
    assert throttle.was_wrong("c").pause == 20, "many clients that guess together"
    now[0] += 61
    assert throttle.was_wrong("d").pause == 0
    assert throttle.was_wrong("a").pause == 20
    now[0] += 901
    assert throttle.was_wrong("a") == Wrong(1, 0.0)


def test_the_memory_of_wrong_tokens_is_bounded() -> None:
    throttle = Throttle(lambda: 0.0)
    for number in range(10_100):
        throttle.was_wrong(f"client {number}")
    assert len(throttle._clients) == 10_000
    logged = sum(throttle.was_wrong("a").is_news for _ in range(5_000))
    assert logged == 14, "three, and each doubling from four on"


def test_forwarding_headers_count_only_where_a_setting_says_so(
    page: Served, pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    sent = {"X_Forwarded_For": "10.0.0.9, 10.0.0.7", "X_Forwarded_Proto": "https", "X_Forwarded_Host": "evil.example"}
    token = page.token()
    with served(page.catalog, behind_proxy=True) as behind:
        assert behind.client().get("/api/v1/status").status == 401, "the proxy is a neighbour, those behind it are not"
        for each, cookie, address in (
            (page, "deltamirror=", "127.0.0.1"),
            (behind, "__Host-deltamirror=", "10.0.0.7"),
        ):
            answer = each.client().post("/sign-in", {"token": token}, **sent)
            assert answer.headers["set-cookie"].startswith(cookie)
            assert ("secure" in answer.headers["set-cookie"].lower()) == (each is behind)
            caplog.clear()
            for number in range(4):  # an address that changes with each guess is one client all the same
                forged = {**sent, "X_Forwarded_For": f"10.0.1.{number}, 10.0.0.7"}
                each.client().post("/sign-in", {"token": "dm_wrong"}, **forged)
            assert f"a wrong token from {address}, 4 of late" in caplog.text
        for odd in ("", "evil", "10.0.0.7, ", "\xff"):
            assert behind.client().post("/sign-in", {"token": token}, X_Forwarded_For=odd).status == 303
    assert pauses == [2.0, 2.0]


def test_the_sign_in_page_tells_strangers_nothing_of_the_catalog(lake: Catalog) -> None:
    with served(lake) as first:
        token = first.token("ada")
    with served(lake, loopback_read=False) as page:
        client = page.client()
        wrong = client.sign_in("dm_wrong")
        for answer in (client.get("/sign-in"), wrong, client.get("/nothing"), client.get("/static/none")):
            assert "sqlite" not in answer.text
        client.sign_in(token)
        assert "sqlite" in client.get("/").text


def test_a_request_that_a_proxy_hands_on_is_of_no_neighbour(page: Served) -> None:
    client = page.client()
    assert client.get("/api/v1/status").status == 200
    for headers in ({"X_Forwarded_For": "10.0.0.1"}, {"Via": "1.1 proxy"}, {"Forwarded": "for=x"}):
        assert client.get("/api/v1/status", **headers).status == 401


def test_where_readers_need_tokens_they_are_asked_for_them(lake: Catalog) -> None:
    with pytest.raises(Refused, match="every reader needs a token"), served(lake, loopback_read=False):
        pass
    with served(lake) as first:
        token = first.token("reader", Right.READ)
    with served(lake, loopback_read=False) as page:
        client = page.client()
        assert client.get("/?search=a").headers["location"] == "/sign-in?next=/%3Fsearch%3Da"
        assert client.get("/", X_Live="1").status == 401
        assert client.get("/api/v1/status").headers["www-authenticate"] == "Bearer"
        assert client.get("/static/style.css").status == 200
        assert client.get("/api/v1/status", Authorization=f"Bearer {token}").status == 200
        assert client.sign_in(token).status == 303
        assert client.get("/").status == 200


def test_beyond_loopback_there_is_tls_or_a_word_that_a_proxy_has_it(lake: Catalog) -> None:
    open_to_all = ServeSettings(listen=EVERYWHERE)
    with pytest.raises(InvalidSettings, match="nothing is encrypted"):
        binding_of(open_to_all, insecure_http=False)
    assert not binding_of(open_to_all, insecure_http=True).reads_without_token
    assert not binding_of(ServeSettings(), insecure_http=True).reads_without_token
    assert not binding_of(replace(open_to_all, tls_cert="c", tls_key="k"), insecure_http=False).reads_without_token
    with pytest.raises(InvalidSettings, match="belong together"):
        binding_of(ServeSettings(tls_cert="c"), insecure_http=False)
    with pytest.raises(Refused, match="token"), served(lake, insecure_http=True, listen=EVERYWHERE):
        pass


def test_a_port_that_is_taken_is_said(lake: Catalog) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unavailable, match="the port is in use"), served(lake, listen=address):
            pass


def test_tls_is_served_by_certificate_and_key(lake: Catalog, tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    with served(lake, tls_cert=str(cert), tls_key=str(key)) as page:
        trusting = ssl.create_default_context(cafile=str(cert))
        with urllib.request.urlopen(f"https://localhost:{page.port}/", context=trusting) as answer:
            assert answer.status == 200
            assert "max-age" in answer.headers["strict-transport-security"]
    (tmp_path / "empty.pem").touch()
    with (
        pytest.raises(InvalidSettings, match="cannot be read"),
        served(lake, tls_cert=str(tmp_path / "empty.pem"), tls_key=str(key)),
    ):
        pass


def test_health_and_metrics_are_for_readers_of_all_tables(page: Served) -> None:
    client, narrow = page.client(), page.token("narrow", Right.READ, "sales.*")
    with own_labels():  # scrapes share a reading, and its labels, for a while
        for path in ("/healthz", "/readyz", "/metrics"):
            assert client.get(path).status == 200
            assert client.get(path, Via="1.1 proxy").status == 401
            assert client.get(path, Authorization=f"Bearer {narrow}").status == 403
            assert client.get(path, Authorization=f"Bearer {page.token()}").status == 200
        assert b'deltamirror_mirror_lag_versions{table="t"} 1.0' in client.get("/metrics").body
    assert "database" in client.get("/healthz").text


def test_commits_show_up(page: Served) -> None:
    client = page.client()
    assert client.get("/api/v1/tables/t").json["table"]["head"] == 0
    page.catalog.table("t").append([add("a")])
    assert client.get("/api/v1/tables/t").json["table"]["head"] == 1
