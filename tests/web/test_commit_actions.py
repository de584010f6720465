"""Writers in any language hand in actions over HTTP, and they become the next version, whichever that is."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from deltamirror.txnlog.access.tokens import Right
from tests.support.interfaces.commit_clients import (
    UNTIMED,
    Writer,
    action_lines,
    commit_lines,
    framed,
    writer_of,
)
from tests.support.interfaces.status_pages import Served
from tests.support.lakes.lake import create, paths

pytestmark = pytest.mark.requirement("R36")


def test_actions_become_the_next_version_whichever_that_is(page: Served, writer: Writer) -> None:
    for version, path in enumerate("abc", 1):
        answer = writer.append("t", action_lines(path))
        assert (answer.status, answer.json["versions"]) == (201, {"t": version})
    assert paths(page.catalog.table("t")) == ["a", "b", "c"]
    removed = writer.append("t", action_lines("d", removed=["a"]), read_version=3, operation="MERGE")
    assert (removed.status, removed.json["versions"]) == (201, {"t": 4})
    assert paths(page.catalog.table("t")) == ["b", "c", "d"]
    assert [each.operation for each in page.catalog.table("t").history(limit=2)] == ["MERGE", "WRITE"]


def test_writers_that_append_at_once_all_get_a_version_at_the_first_try(page: Served, writer: Writer) -> None:
    def append(path: str) -> int:
        answer = Writer(page.client(), writer.token).append("t", action_lines(path))
        assert answer.status == 201, answer.text
        return int(answer.json["versions"]["t"])

    named = [f"{number:02}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(append, named)) == list(range(1, 25))
    assert paths(page.catalog.table("t")) == named


def test_actions_that_were_computed_from_a_version_conflict_with_what_came_since(page: Served, writer: Writer) -> None:
    assert writer.append("t", action_lines("a", "b")).status == 201
    assert writer.append("t", action_lines("c", removed=["a"]), read_version=1).status == 201
    late = writer.append("t", action_lines("d", removed=["a"]), read_version=1)
    assert (late.status, late.json["code"], late.json["head"]) == (409, "conflict", 2)
    assert paths(page.catalog.table("t")) == ["b", "c"]
    ahead = writer.append("t", action_lines("d"), read_version=9)
    assert (ahead.status, ahead.json["version"]) == (404, 9)
    assert page.catalog.table("t").info().head == 2


def test_adds_that_were_computed_from_the_table_are_no_blind_append(page: Served, writer: Writer) -> None:
    """As with INSERT … SELECT from the same table: a commit that changed its rows since is a conflict."""
    assert writer.append("t", action_lines("a", "b")).status == 201
    assert writer.append("t", action_lines(removed=["a"]), read_version=1).status == 201
    late = writer.append("t", action_lines("both"), read_version=1)
    assert (late.status, late.json["code"]) == (409, "conflict")
    assert writer.append("t", action_lines("rest"), read_version=2).status == 201
    assert writer.append("t", action_lines("c")).status == 201
    assert [each.is_blind_append for each in page.catalog.table("t").history(limit=2)] == [True, False]


def test_what_a_request_does_not_take_is_refused(page: Served, writer: Writer) -> None:
    body = framed(("t", None, action_lines("a")))
    assert writer.post("/commits?read_version=0", body).status == 422
    assert writer.post("/tables/t/publish?to=1", b"").status == 422
    for path in ("/tables/t/head?at=1", "/tables/t/commits?first=0", "/tables/t/commits/0?raw=1"):
        assert writer.get(path).status == 422, path
    empty = writer.post("/commits", framed(("t", None, action_lines("a")), ("sales.orders", None, b"\n")))
    assert (empty.status, empty.json["detail"]) == (422, "the commit of sales.orders has no actions")
    ahead = b'{"read":{"table":"sales.orders","version":9}}\n' + body
    assert writer.post("/commits", ahead).status == 404
    assert [table.head for table in page.catalog.tables()] == [0, 0]


def test_actions_with_the_same_key_are_one_version_and_others_are_refused(page: Served, writer: Writer) -> None:
    first, again = (writer.append("t", action_lines("a"), "k") for _ in range(2))
    assert (first.status, again.status, again.json) == (201, 201, {**first.json, "already_applied": True})
    assert writer.append("t", action_lines("b"), "k").json["code"] == "token-reused"
    assert paths(page.catalog.table("t")) == ["a"]


def test_actions_of_several_tables_are_committed_together_or_not_at_all(page: Served, writer: Writer) -> None:
    orders, t = page.catalog.table("sales.orders"), page.catalog.table("t")
    assert writer.append("t", action_lines("a")).status == 201
    body = framed(("t", None, action_lines("b")), ("sales.orders", None, action_lines("c")))
    assert writer.post("/commits", body, "k").json["versions"] == {"t": 2, "sales.orders": 1}
    assert writer.post("/commits", body, "k").json["already_applied"]
    mixed = framed(("t", None, action_lines("d")), ("sales.orders", 1, commit_lines("e")))
    assert writer.post("/commits", mixed).status == 409
    late = framed(("t", None, action_lines("f", removed=["a"])), ("sales.orders", None, action_lines()), read_version=0)
    assert writer.post("/commits", late).status in (409, 422)
    assert (paths(t), paths(orders)) == (["a", "b"], ["c"])


def test_an_action_that_is_wrong_is_named_by_its_table_and_its_line(page: Served, writer: Writer) -> None:
    good, wrong = action_lines("a"), action_lines("a").replace(b'"size":1', b'"size":-1')
    told = writer.append("t", good + b"\n" + wrong.replace(b'"a"', b'"b"')).json
    assert told["detail"].startswith("t, line 3: "), told
    body = framed(("t", None, good), ("sales.orders", None, good + wrong.replace(b'"a"', b'"b"')))
    assert writer.post("/commits", body).json["detail"].startswith("sales.orders, line 2: ")
    assert writer.append("t", b'{"add":{}}').json["detail"].startswith("t, line 1: add.path")
    assert [table.head for table in page.catalog.tables()] == [0, 0]


@pytest.mark.parametrize(
    "query",
    [
        "read_version=x",
        "read_version=-1",
        "read_version=0&read_version=0",
        "rows_checked=1",
        "operation=",
        "operation=%0A",
        "readVersion=0",
    ],
)
def test_an_address_of_actions_that_is_wrong_is_refused(page: Served, writer: Writer, query: str) -> None:
    answer = writer.post(f"/tables/t/commits?{query}", action_lines("a"))
    assert (answer.status, page.catalog.table("t").info().head) == (422, 0)


def test_complete_lines_say_themselves_what_they_are(page: Served, writer: Writer) -> None:
    named = writer.post("/tables/t/commits/1?operation=WRITE", commit_lines("a"))
    assert (named.status, named.json["code"]) == (422, "invalid-input")
    computed = writer.post("/tables/t/commits/1?read_version=0", commit_lines("a"))
    assert (computed.status, page.catalog.table("t").info().head) == (422, 0)


def test_rows_of_actions_are_vouched_for_where_the_table_has_rules(page: Served, writer: Writer) -> None:
    properties = {**UNTIMED, "delta.constraints.c": "id > 0"}
    create(page.catalog, "u", properties=properties)
    refused = writer.append("u", action_lines("a"))
    assert (refused.status, "rows_checked" in refused.json["hint"]) == (422, True), refused.text
    assert writer.append("u", action_lines("a"), rows_checked="true").status == 201


def test_a_small_body_of_a_stranger_is_not_committed(page: Served, writer: Writer) -> None:
    for path in ("/tables/t/commits", "/tables/t/commits/1", "/commits"):
        assert page.client().ask("POST", f"/api/v1{path}", action_lines("a"), {"Idempotency-Key": "k"}).status == 401
        reader = writer_of(page, f"reader{path.count('/')}{len(path)}", Right.READ)
        assert reader.post(path, action_lines("a")).status == 403
    narrow = writer_of(page, "narrow", Right.WRITE, "sales.*")
    assert narrow.append("t", action_lines("a")).status == 403
    assert narrow.post("/commits", framed(("t", None, action_lines("a")))).status == 403
    assert page.catalog.table("t").info().head == 0
