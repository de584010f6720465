"""The pages and the API show what SQL holds, each reader what they may see."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.txnlog.access.tokens import Right
from tests.support.interfaces.status_pages import FIRING, Served, served
from tests.support.lakes.lake import add, execute, opened
from tests.support.mirrors.local import mirror_of, until


@pytest.fixture
def outage(lake: Catalog, tmp_path: Path) -> Iterator[Served]:
    """Two tables: one published, and one whose folder is in the way of its log."""
    for name in ("sales.orders", "sales.daily"):
        lake.create_table(name, location=str(tmp_path / name), schema="id long").append([add("a")])
    with mirror_of(lake, checkpoint_interval=1) as engine:
        engine.run(once=True)
    (tmp_path / "sales.orders").rename(tmp_path / "aside")
    (tmp_path / "sales.orders").write_text("in the way")
    for name in ("b", "c"):
        lake.table("sales.orders").append([add(name)])
    with mirror_of(lake) as engine:
        engine.run(once=True)
    with served(lake) as found:
        yield found


@pytest.mark.requirement("R27")
def test_during_an_outage_the_numbers_are_those_of_sql(outage: Served) -> None:
    client = outage.client()
    status = client.get("/api/v1/status").json
    in_sql = """
        SELECT h.version, t.published_version, count(*) AS lag, sum(s.state = 'PENDING') AS pending,
               sum(s.state = 'FAILED') AS failed, min(v.committed_at) AS oldest
        FROM dl_tables t JOIN dl_heads h USING (table_id) JOIN dl_mirror_status s USING (table_id)
        JOIN dl_table_versions v ON v.table_id = s.table_id AND v.version = s.version
        WHERE s.state <> 'SUCCESS'
    """
    [counted] = execute(outage.catalog, in_sql)
    first = status["tables"][0]
    names = ("head", "published", "lag_versions", "pending", "failed")
    assert [first[name] for name in names] == [counted[0], counted[1], counted.lag, counted.pending, counted.failed]
    assert first["error"]["code"] == "invalid-location"
    assert "move away" in first["error"]["hint"]
    assert status["totals"]["backlog"] == counted.lag == 2
    assert abs(status["now"] - counted.oldest - first["lag_ms"]) < 60_000
    assert (status["totals"]["tables"], status["totals"]["failing"], status["matching"]) == (2, 1, 2)
    one = client.get("/api/v1/tables/sales.orders").json
    changing = {"lag_ms": 0, "since_published_ms": 0, "stages": None}
    assert {**one["table"], **changing} == {**first, **changing}
    assert [row["state"] for row in one["versions"]] == ["PENDING", "FAILED", "SUCCESS", "SUCCESS"]
    assert one["files"] == 3
    assert one["attempts"][0]["hint"] == first["error"]["hint"]


@pytest.mark.requirement("R116")
def test_a_disabled_table_is_shown_as_such_and_is_no_backlog(lake: Catalog, tmp_path: Path) -> None:
    off = {"deltamirror.mirrorEnabled": "false"}
    lake.create_table("t", location=str(tmp_path / "t"), schema="id long", properties=off).append([add("a")])
    with served(lake) as found:
        client = found.client()
        for path in ("/", "/?show=disabled", "/tables/t"):
            assert '<span class="badge idle">Disabled</span>' in client.get(path).text
        status = client.get("/api/v1/status").json
    assert [status["totals"][name] for name in ("disabled", "waiting", "backlog", "oldest_ms")] == [1, 0, 0, 0]
    assert [table["state"] for table in status["tables"]] == ["disabled"]


@pytest.mark.requirement("R60")
def test_the_pages_show_lag_failures_and_what_to_do(outage: Served) -> None:
    client = outage.client()
    page = client.get("/").text
    assert "sales.orders" in page
    assert "invalid-location" in page
    assert "<code>deltamirror mirror --once</code> then tries at once" in page
    assert page.count('class="spark"') == 2
    assert "interval of 1 versions" in page
    table = client.get("/tables/sales.orders").text
    assert 'class="chart"' in table
    assert "spent on reading" in table
    assert "in the way" not in table
    assert "/tables/sales.orders/failures/2" in table
    failure = client.get("/tables/sales.orders/failures/2").text
    assert "Attempt 1: invalid-location" in failure
    assert "docs/guides/recovery.md" in failure


@pytest.mark.requirement("R77")
def test_the_error_budget_is_shown_to_each_reader_of_their_tables_alone(outage: Served) -> None:
    execute(outage.catalog, "UPDATE dl_table_versions SET committed_at = committed_at - 600000 WHERE version = 2")
    client = outage.client()
    until(lambda: "<dt>Budget, 30 d</dt>" in client.get("/").text)
    assert '<span class="over">0 % left</span>' in client.get("/").text
    assert [row["versions"] for row in client.get("/api/v1/status").json["slo"]] == [6, 6, 6]
    assert [row["waiting"] for row in client.get("/api/v1/status").json["slo"]] == [2, 2, 2]
    until(lambda: "Budget of 95 % within 5 s" in client.get("/tables/sales.daily").text)
    assert "0 % left</span>" not in client.get("/tables/sales.daily").text.replace("100 % left", "")
    bearer = {"Authorization": f"Bearer {outage.token('daily', Right.READ, '*.daily')}"}
    until(lambda: client.get("/api/v1/status", **bearer).json["slo"])
    narrow = client.get("/api/v1/status", **bearer).json["slo"]
    assert [(row["versions"], row["waiting"], row["budget_left"]) for row in narrow] == [(2, 0, 1.0)] * 3


@pytest.mark.requirement("R60")
def test_alerts_that_fire_are_shown_to_readers_of_their_tables(outage: Served) -> None:
    cause = "cannot reach postgresql://me:hunter2@db/lake <b>"
    for scope, subject in (("table", "sales.orders"), ("table", "hr.pay"), ("store", "s3://lake")):
        execute(outage.catalog, FIRING, rule="lag-critical", scope=scope, subject=subject, cause=cause)
    page, api = outage.client().get("/").text, outage.client().get("/api/v1/status")
    assert "<code>deltamirror report t</code>" in page
    assert "hunter2" not in page + api.text
    assert "&lt;b&gt;" in page
    assert {alert["subject"] for alert in api.json["alerts"]} == {"sales.orders", "hr.pay", "s3://lake"}
    narrow = outage.client()
    narrow.sign_in(outage.token("sales", Right.READ, "sales.*"))
    for number in range(60):
        execute(outage.catalog, FIRING, rule="lag-critical", scope="table", subject=f"hr.{number}", cause=cause)
    seen = narrow.get("/api/v1/status").json["alerts"]
    assert [alert["subject"] for alert in seen] == ["sales.orders"]


@pytest.mark.parametrize("page", ["/api/v1/tables/{}", "/tables/{}", "/tables/{}/failures/0"])
def test_a_reader_of_some_tables_is_not_told_the_names_of_others(outage: Served, page: str) -> None:
    outage.catalog.create_table("hr.salaries", location="memory://lake/x", schema="id long")
    narrow = outage.client()
    narrow.sign_in(outage.token("sales", Right.READ, "sales.*"))
    found = narrow.get(page.format("sales.salaries"))
    assert found.status == 404
    assert "hr.salaries" not in found.text
    assert "hr.salaries" in outage.client().get(page.format("sales.salaries")).text


def test_tables_are_searched_sorted_and_paged_by_the_address(outage: Served) -> None:
    client = outage.client()
    assert [t["name"] for t in client.get("/api/v1/status?search=DAI").json["tables"]] == ["sales.daily"]
    assert [t["name"] for t in client.get("/api/v1/status?sort=name").json["tables"]] == ["sales.daily", "sales.orders"]
    assert [t["name"] for t in client.get("/api/v1/status?show=failing").json["tables"]] == ["sales.orders"]
    second = client.get("/api/v1/status?size=1&page=2").json
    assert (second["page"], second["pages"], len(second["tables"])) == (2, 2, 1)
    assert "No table matches." in client.get("/?search=nothing").text


WRONG = {
    "/?page=0": "page",
    "/?page=x": "page",
    "/?size=101": "size",
    "/?sort=up": "sort",
    "/?show=%00": "show",
    "/tables/sales.orders?window=1y": "window",
    "/tables/sales.orders?before=-1": "before",
    "/tables/sales.orders?before=99999999999999999999": "before",
    "/tables/sales.orders/failures/x": "version",
}


def test_a_wrong_value_in_an_address_is_named(outage: Served) -> None:
    client = outage.client()
    for path, named in WRONG.items():
        answer = client.get(path)
        assert (answer.status, f"{named}: " in answer.text) == (422, True), path


def test_what_is_not_there_is_404(outage: Served) -> None:
    client = outage.client()
    for path in ("/nothing", "/tables/none", "/tables/sales.orders/failures/9", "/api/v1/tables/none"):
        assert client.get(path).status == 404, path


def test_a_token_for_some_tables_shows_no_other(outage: Served) -> None:
    token = outage.token("daily", Right.READ, "*.daily")
    client = outage.client()
    found = client.get("/api/v1/status", Authorization=f"Bearer {token}").json
    assert [table["name"] for table in found["tables"]] == ["sales.daily"]
    assert (found["totals"]["tables"], found["totals"]["backlog"], found["stores"]) == (1, 0, [])
    for path in ("/api/v1/tables/sales.orders", "/tables/sales.orders", "/tables/sales.orders/failures/2"):
        assert client.get(path, Authorization=f"Bearer {token}").status == 404
    assert client.sign_in(token).status == 303
    assert "sales.orders" not in client.get("/").text


def test_the_page_lets_go_of_a_file_that_one_process_at_a_time_opens(made_catalogs: Path, tmp_path: Path) -> None:
    file = tmp_path / "lake.duckdb"
    file.write_bytes((made_catalogs / "lake.duckdb").read_bytes())
    with opened(f"duckdb:///{file}") as catalog, served(catalog) as page:
        assert page.client().get("/").status == 200
        assert catalog.database.let_go()
