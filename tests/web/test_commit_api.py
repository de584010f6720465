"""Writers in any language commit over HTTP: at exact versions, once, and only where their tokens allow it."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import msgspec
import pytest

from deltamirror import Catalog
from deltamirror.config import WriterSettings
from deltamirror.errors import CommitUnknown, DeltaMirrorError, Throttled, Transient, Unavailable
from deltamirror.txnlog.access.patterns import ALL_TABLES
from deltamirror.txnlog.access.tokens import Right, issue_token, revoke_token
from deltamirror.txnlog.commit.committing import Committing
from deltamirror.web.pages.guard import LONGEST_BODY
from tests.support.interfaces.commit_clients import (
    UNTIMED,
    Writer,
    commit_lines,
    framed,
    unframed,
    writer_of,
)
from tests.support.interfaces.status_pages import Client, Served, served
from tests.support.lakes.lake import create, opened, paths
from tests.support.mirrors.local import committed_files, make_table, published_files, until

pytestmark = pytest.mark.requirement("R36")


def test_lines_become_the_version_that_they_ask_for_byte_for_byte(page: Served, writer: Writer) -> None:
    lines = commit_lines("a", "é").removesuffix(b"\n")
    answer = writer.commit("t", 1, lines)
    assert (answer.status, answer.json["versions"], answer.json["already_applied"]) == (201, {"t": 1}, False)
    assert page.catalog.table("t").commit_file(1) == lines
    assert writer.get("/tables/t/commits/1").body == lines
    assert (writer.get("/tables/t/head").json["head"], writer.get("/tables/t/head").json["published"]) == (1, None)


def test_versions_that_wait_are_put_by_the_server_when_a_writer_asks(
    page: Served, writer: Writer, tmp_path: Path
) -> None:
    table = make_table(page.catalog, tmp_path, "u", properties=UNTIMED)
    assert writer.commit("u", 1, commit_lines("a")).status == 201
    for query, published in (("?version=0", 0), ("", 1), ("?version=1", 1)):
        answer = writer.post(f"/tables/u/publish{query}", b"")
        assert (answer.status, answer.json["published"], answer.json["publisher"]) == (200, published, "writer")
    assert published_files(table) == committed_files(table)
    assert writer.post("/tables/u/publish?version=2", b"").status == 404
    page.catalog.pause("u")
    assert writer.commit("u", 2, commit_lines("b")).status == 201
    refused = {
        ("no", ""): (writer, 404),
        ("u", "?version=x"): (writer, 422),
        ("u", ""): (writer, 409),
        ("u", "?version=2"): (writer_of(page, "other", tables="sales.*"), 403),
        ("u", "?version=1"): (writer_of(page, "reader", Right.READ), 403),
    }
    for (name, query), (sender, status) in refused.items():
        assert sender.post(f"/tables/{name}/publish{query}", b"").status == status, (name, query)
    assert len(published_files(table)) == 2


def test_a_table_says_that_the_server_puts_its_objects(lake: Catalog) -> None:
    create(lake)
    with served(lake, publish=True) as page:
        assert writer_of(page).get("/tables/t/head").json["publisher"] == "server"


def test_a_version_that_is_taken_or_ahead_is_a_conflict_that_names_the_head(page: Served, writer: Writer) -> None:
    assert writer.commit("t", 1, commit_lines("a")).status == 201
    for version, reason in ((0, "version-taken"), (1, "version-taken"), (3, "version-ahead")):
        answer = writer.commit("t", version, commit_lines("b"))
        told = answer.json
        assert (answer.status, answer.headers["content-type"]) == (409, "application/problem+json")
        assert (told["code"], told["reason"], told["head"], told["table"]) == ("conflict", reason, 1, "t")
    assert paths(page.catalog.table("t")) == ["a"]


def test_the_same_commit_with_the_same_key_is_one_commit_and_another_is_refused(page: Served, writer: Writer) -> None:
    first, again = (writer.commit("t", 1, commit_lines("a"), "k") for _ in range(2))
    assert (first.status, again.status, again.json) == (201, 201, {**first.json, "already_applied": True})
    other = writer.commit("t", 2, commit_lines("b"), "k")
    assert (other.status, other.json["code"]) == (422, "token-reused")
    with served(page.catalog) as second:
        elsewhere = Writer(second.client(), writer.token).commit("t", 1, commit_lines("a"), "k")
    assert elsewhere.json == again.json, "the state is in SQL, and no server has any"


def test_several_tables_are_committed_together_or_not_at_all(page: Served, writer: Writer) -> None:
    orders, t = page.catalog.table("sales.orders"), page.catalog.table("t")
    files = commit_lines("a").removesuffix(b"\n"), commit_lines("b")
    answer = writer.post("/commits", framed(("t", 1, files[0]), ("sales.orders", 1, files[1])))
    assert (answer.status, answer.json["versions"]) == (201, {"t": 1, "sales.orders": 1})
    assert (t.commit_file(1), orders.commit_file(1)) == files
    refused = writer.post("/commits", framed(("t", 2, commit_lines("c")), ("sales.orders", 1, commit_lines("d"))))
    assert (refused.status, refused.json["table"]) == (409, "sales.orders")
    assert (t.info().head, orders.info().head) == (1, 1)


def test_a_table_that_was_read_for_a_commit_and_changed_since_is_a_conflict(page: Served, writer: Writer) -> None:
    read = b'{"read":{"table":"sales.orders","version":0}}\n'
    body = read + framed(("t", 1, commit_lines("a")))
    assert writer.post("/commits", body, key="first").json["versions"] == {"t": 1}
    assert writer.commit("sales.orders", 1, commit_lines("b", operation="MERGE")).status == 201
    assert writer.post("/commits", body, key="first").json["already_applied"]
    late = writer.post("/commits", read + framed(("t", 2, commit_lines("c"))))
    assert (late.status, late.json["code"], late.json["table"]) == (409, "conflict", "sales.orders")
    newer = read.replace(b"0", b"1")
    assert writer.post("/commits", newer + framed(("t", 2, commit_lines("c")))).status == 201
    alone = writer.post("/commits", newer)
    assert (alone.status, alone.json["detail"]) == (422, "the transaction writes nothing")


def test_large_commits_of_several_tables_keep_their_lines_apart(sqlite_lake: str) -> None:
    """The log reads some lines of each before it reads all of one."""
    names, files = ("a", "b"), [commit_lines(*(f"{name}{n}" for n in range(9))) for name in "ab"]
    with opened(sqlite_lake, stage_above=2, chunk_lines=2) as catalog, served(catalog) as page:
        for name in names:
            create(catalog, name, properties=UNTIMED)
        body = framed(*((name, 1, data) for name, data in zip(names, files, strict=True)))
        assert writer_of(page).post("/commits", body).status == 201
        assert [catalog.table(name).commit_file(1) for name in names] == files


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        commit_lines("a"),
        b'{"commit":{"table":"t","version":1,"bytes":-1}}\n',
        b'{"commit":{"table":"t","version":-1,"bytes":0}}\n',
        b'{"commit":{"table":"t","version":1,"bytes":99}}\n{}',
        b'{"commit":{"table":"t","version":1}}\n',
        b'{"commit":{"table":"t","version":1,"read_version":0,"bytes":0}}\n',
        b'{"commit":{"table":"t","version":1,"bytes":0}}',
        b'{"read":{"table":"t"}}\n',
        b'{"read":{"table":"t","version":0},"commit":{"table":"t","version":1,"bytes":0}}\n',
        b'{"read":{"table":"t","version":-1}}\n' + framed(("sales.orders", 1, commit_lines("a"))),
        b'{"commit":{"table":"' + b"t" * 2_000 + b'","version":1,"bytes":0}}\n',
        framed(("t", 1, b""), ("sales.orders", 1, b"")),
        framed(("t", 1, commit_lines("a")), ("t", 2, commit_lines("b"))),
        framed(*(("t", 1, b"") for _ in range(200))),
        b"\xff\xfe",
    ],
    ids=range(17),
)
def test_a_body_of_several_commits_that_is_malformed_is_refused_as_a_whole(
    page: Served, writer: Writer, body: bytes
) -> None:
    answer = writer.post("/commits", body)
    assert (answer.status, bool(answer.json["hint"]), answer.json["retryable"]) == (422, True, False)
    assert [table.head for table in page.catalog.tables()] == [0, 0]


def test_a_line_that_is_wrong_is_named(page: Served, writer: Writer) -> None:
    answer = writer.commit("t", 1, commit_lines("a") + b'{"add":{}}\n')
    told = answer.json
    assert (answer.status, told["code"], told["detail"]) == (422, "invalid-action", "line 3: add.path is missing")
    assert page.catalog.table("t").info().head == 0


def test_a_range_of_versions_is_read_in_one_answer(page: Served, writer: Writer) -> None:
    files = [page.catalog.table("t").commit_file(0), commit_lines("a").removesuffix(b"\n"), commit_lines("b")]
    for version in (1, 2):
        writer.commit("t", version, files[version])
    assert unframed(writer.get("/tables/t/commits").body) == list(enumerate(files))
    assert unframed(writer.get("/tables/t/commits?from=1&to=1").body) == [(1, files[1])]
    assert unframed(writer.get("/tables/t/commits?from=1&to=99").body) == [(1, files[1]), (2, files[2])]
    assert writer.get("/tables/t/commits?from=3").body == b""
    assert writer.get("/tables/t/commits?from=x").status == 422
    assert writer.get("/tables/t/commits/9").status == 404


def test_an_answer_ends_after_so_many_bytes(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in (1, 2, 3):
        writer.commit("t", version, commit_lines(str(version)))
    monkeypatch.setattr("deltamirror.web.commits.app._MOST_BYTES", 1)
    assert [version for version, _ in unframed(writer.get("/tables/t/commits?from=1").body)] == [1]
    monkeypatch.setattr("deltamirror.web.commits.app._MOST_VERSIONS", 1)
    assert [version for version, _ in unframed(writer.get("/tables/t/commits?from=2").body)] == [2]


def test_a_table_is_found_by_its_location_however_it_is_spelled(
    page: Served, writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltamirror.catalog.catalog.has_delta_log", lambda *_: False)  # of stores that are not there
    catalog = page.catalog
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    catalog.create_table("local", location=tmp_path / "real", schema="id long")
    catalog.create_table("remote", location="s3://lake/x", schema="id long")
    catalog.create_table("azure", location="abfss://c@a.dfs.core.windows.net/x", schema="id long")
    for location, name in (
        (str(tmp_path / "real"), "local"),
        (f"file:{tmp_path / 'real'}/", "local"),
        (str(tmp_path / "link"), "local"),
        ("s3a://lake//x/", "remote"),
        ("az://c/x", "azure"),
    ):
        assert writer.get(f"/tables?location={location}").json["table"] == name
    for stranger in (str(tmp_path), str(tmp_path / "real" / "part"), "s3://lake/y", "s3://lake/x/y"):
        assert writer.get(f"/tables?location={stranger}").status == 404
    for odd in ("", "s3://", "nothing://x"):
        assert writer.get(f"/tables?location={odd}").status == 422


def test_every_request_needs_a_token_and_its_right_and_its_table(page: Served, writer: Writer) -> None:
    reader = writer_of(page, "reader", Right.READ)
    narrow = writer_of(page, "narrow", Right.WRITE, "sales.*")
    operator = writer_of(page, "operator", Right.OPERATE)
    where = page.catalog.table("t").location
    gets = ("/tables/t/head", "/tables/t/commits", "/tables/t/commits/0", f"/tables?location={where}")
    for path in gets:
        stranger = page.client().get(f"/api/v1{path}")
        assert (stranger.status, stranger.headers["www-authenticate"]) == (401, "Bearer"), "on loopback, too"
        assert [each.get(path).status for each in (reader, writer, operator, narrow)] == [200, 200, 200, 403], path
    assert narrow.get("/tables/sales.orders/head").status == 200
    assert narrow.get("/tables/nothing/head").status == 403, "it is not told which other tables there are"
    for refused in (reader, operator, narrow):
        answer = refused.commit("t", 1, commit_lines("a"))
        assert (answer.status, answer.json["code"]) == (403, "permission-denied")
    body = framed(("sales.orders", 1, commit_lines("a")), ("t", 1, commit_lines("a")))
    assert narrow.post("/commits", body).status == 403
    revoke_token(page.catalog.database, "job")
    assert writer.commit("t", 1, commit_lines("a")).status == 401
    assert [table.head for table in page.catalog.tables()] == [0, 0]


def test_a_browser_session_commits_nothing(page: Served) -> None:
    browser = page.client("ada")
    answer = browser.ask("POST", "/api/v1/tables/t/commits/1", commit_lines("a"), {"Idempotency-Key": "k"})
    assert (answer.status, page.catalog.table("t").info().head) == (401, 0)


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "a\tb"])
def test_a_commit_needs_a_key(writer: Writer, key: str) -> None:
    assert writer.commit("t", 1, commit_lines("a"), key).status == 422


@pytest.mark.parametrize("name", ["Authorization", "Idempotency-Key", "Content-Encoding", "Content-Type"])
def test_a_header_that_comes_twice_is_refused_since_a_proxy_may_go_by_the_other_one(
    page: Served, writer: Writer, name: str
) -> None:
    own = {"Authorization": f"Bearer {writer.token}", "Idempotency-Key": "k"}
    connection = HTTPConnection("127.0.0.1", page.port)
    connection.putrequest("POST", "/api/v1/tables/t/commits/1")
    for header, value in [*own.items(), (name, own.get(name, "x")), *([] if name in own else [(name, "y")])]:
        connection.putheader(header, value)
    connection.putheader("Content-Length", str(len(commit_lines("a"))))
    connection.endheaders(commit_lines("a"))
    answer = connection.getresponse()
    told = msgspec.json.decode(answer.read())
    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
    assert told["detail"] == f"The header {name.lower()} comes more than once."
    assert page.catalog.table("t").info().head == 0


def test_a_packed_body_is_refused_by_its_name_and_not_by_its_bytes(page: Served, writer: Writer) -> None:
    for encoding, status in (("gzip", 422), ("identity", 201)):
        headers = {"Authorization": f"Bearer {writer.token}", "Idempotency-Key": "k", "Content-Encoding": encoding}
        answer = writer.client.ask("POST", "/api/v1/tables/t/commits/1", commit_lines("a"), headers)
        assert answer.status == status
        assert status == 201 or "Content-Encoding 'gzip'" in answer.json["detail"]


@pytest.mark.parametrize("query", ["commits?from=0&from=1", "commits?to=1&from=0&to=2"])
def test_an_address_that_says_a_thing_twice_is_refused(writer: Writer, query: str) -> None:
    assert writer.get(f"/tables/t/{query}").status == 422
    assert writer.get("/tables?location=/a&location=/b").status == 422


def test_a_request_that_is_refused_at_the_door_is_a_problem_document_for_programs(writer: Writer) -> None:
    for headers, status in (({"Host": "other.example"}, 421), ({"X-Long": "x" * 20_000}, 431)):
        answer = writer.client.ask("GET", "/api/v1/tables/t/head", headers=headers)
        assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
        assert answer.json["code"] == "refused"


def test_a_body_that_is_too_large_is_refused_before_and_while_it_is_read(lake: Catalog) -> None:
    lines = commit_lines(*(f"{number}.parquet" for number in range(1_000)))
    assert len(lines) > LONGEST_BODY
    with served(lake, commit_bytes=len(lines)) as page:
        create(lake, properties=UNTIMED)
        writer = writer_of(page)
        for body in (lines + b"\n", iter([lines, b"\n"])):
            answer = writer.commit("t", 1, body)
            assert (answer.status, answer.json["limit"]) == (413, len(lines))
        assert writer.commit("t", 1, iter([lines[:9], lines[9:]])).status == 201


FAILURES: tuple[tuple[DeltaMirrorError, str], ...] = (
    (Unavailable("away"), "1"),
    (Transient("deadlock"), "1"),
    (CommitUnknown("no reply"), "1"),
    (Throttled("slower", retry_after=6.5), "7"),
)


@pytest.mark.parametrize(("error", "after"), FAILURES, ids=[error.code for error, _ in FAILURES])
def test_what_may_pass_is_answered_with_when_to_try_again(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, error: DeltaMirrorError, after: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Committing, "run", fail)
        answer = writer.commit("t", 1, commit_lines("a"), "k")
        assert (answer.status, answer.json["code"], answer.json["retryable"]) == (503, error.code, True)
        assert answer.headers["retry-after"] == after
    assert writer.commit("t", 1, commit_lines("a"), "k").status == 201


def test_a_full_backlog_is_refused_and_no_conflict(sqlite_lake: str) -> None:
    with opened(sqlite_lake, writer=WriterSettings(backlog_limit=1)) as catalog, served(catalog) as page:
        create(catalog, properties=UNTIMED)
        answer = writer_of(page).commit("t", 1, commit_lines("a"))
        assert (answer.status, answer.json["code"], "head" in answer.json) == (409, "refused", False)


def test_a_lost_reply_is_answered_by_the_next_server_with_the_same_version(
    page: Served, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server ends after COMMIT, and before it answers."""
    run, is_committed, go_on = Committing.run, threading.Event(), threading.Event()

    def stuck(committing: Committing) -> object:
        committed = run(committing)
        is_committed.set()
        go_on.wait(60)
        return committed

    with monkeypatch.context() as patched, served(page.catalog) as dying, ThreadPoolExecutor(1) as pool:
        patched.setattr(Committing, "run", stuck)
        lost = pool.submit(Writer(dying.client(), writer.token).commit, "t", 1, commit_lines("a"), "k")
        assert is_committed.wait(60)
        patched.undo()
        answer = writer.commit("t", 1, commit_lines("a"), "k")
        go_on.set()
        lost.exception(60)
    assert (answer.status, answer.json["versions"], answer.json["already_applied"]) == (201, {"t": 1}, True)
    assert paths(page.catalog.table("t")) == ["a"]


def test_servers_that_stop_and_start_under_load_lose_nothing_and_double_nothing(lake: Catalog) -> None:
    """Clients send each commit until it has an answer, to whichever server is there."""
    table, token, ports = create(lake, properties=UNTIMED), "", [0]
    with served(lake) as page:
        token = writer_of(page).token

    def one_client(name: str) -> None:
        version = 1
        for path in (f"{name}{number}" for number in range(12)):
            while (head := _until_answered(ports, token, version, path)) is not None:
                version = head + 1

    def has_come_to(aim: int) -> bool:
        return table.info().head >= aim or all(client.done() for client in clients)

    with ThreadPoolExecutor(3) as pool:
        clients = [pool.submit(one_client, name) for name in "abc"]
        while not all(client.done() for client in clients):
            with served(lake) as page:
                ports[0], aim = page.port, table.info().head + 5
                until(partial(has_come_to, aim))
        for client in clients:
            client.result()
    assert paths(table) == sorted(f"{name}{number}" for name in "abc" for number in range(12))
    assert table.info().head == 36


def _until_answered(ports: list[int], token: str, version: int, path: str) -> int | None:
    """Send one commit until there is an answer: None if it is committed, or else the head that was in its way."""
    while True:
        try:
            answer = Writer(Client(ports[0]), token).commit("t", version, commit_lines(path), f"{path}@{version}")
        except (OSError, HTTPException):
            continue  # no server, or one that stopped before it answered
        if answer.status != 503:
            assert answer.status in (201, 409), answer.text
            return None if answer.status == 201 else int(answer.json["head"])


def test_a_client_that_goes_away_in_the_middle_of_a_body_leaves_nothing(page: Served, writer: Writer) -> None:
    lines = commit_lines("a")
    head = (
        f"POST /api/v1/tables/t/commits/1 HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nIdempotency-Key: k\r\n"
        f"Authorization: Bearer {writer.token}\r\nContent-Length: {len(lines) + 1}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", page.port)) as connection:
        connection.sendall(head.encode() + lines)  # all lines are there, and one byte is missing
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b"", "the server has seen the end, and closed"
    assert page.catalog.table("t").info().head == 0
    assert writer.commit("t", 1, lines, "k").json["already_applied"] is False


def test_a_server_for_writers_alone_starts_beyond_loopback(lake: Catalog, caplog: pytest.LogCaptureFixture) -> None:
    create(lake, properties=UNTIMED)
    issued = issue_token(lake.database, "job", rights=[Right.WRITE], tables=ALL_TABLES, seconds=None)
    with caplog.at_level("INFO", "deltamirror"), served(lake, listen="0.0.0.0:0", insecure_http=True) as page:
        assert Writer(Client(page.port), issued.text).commit("t", 1, commit_lines("a")).status == 201
    assert "job committed {'t': 1} over HTTP" in caplog.text
