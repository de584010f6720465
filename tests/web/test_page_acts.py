"""Operators pause, silence and repair from the page, and are told how it went."""

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from deltamirror import Catalog
from deltamirror.config import Settings, StorageSettings
from deltamirror.errors import Refused
from deltamirror.ops.engine import MirrorEngine
from deltamirror.ops.reconcile.repair import Repaired
from deltamirror.storage.disk import DiskStore
from deltamirror.txnlog.access.tokens import Right
from deltamirror.txnlog.alerts import silence, silences
from deltamirror.txnlog.alerts.records import AlertKey
from deltamirror.web.pages.acts import Operations
from tests.support.interfaces.status_pages import FIRING, SILENCE, Served, paused, served
from tests.support.lakes.lake import create, execute
from tests.support.mirrors.local import local_settings, until

NOTHING: dict[str, Any] = {
    **dict.fromkeys(("missing", "replaced", "saved", "misleading", "checkpoints"), ()),
    "table": "t",
    "checked": 0,
    "checksums": 0,
    "published": 0,
}


@pytest.fixture
def page(served_page: Served) -> Served:
    """A page with one table."""
    create(served_page.catalog)
    return served_page


def test_an_operator_pauses_and_resumes(page: Served, caplog: pytest.LogCaptureFixture) -> None:
    client = page.client("ada")
    csrf = client.csrf()
    with caplog.at_level(logging.INFO, "deltamirror"):
        assert client.post("/tables/t/pause", {"csrf": csrf, "next": "/tables/t"}).headers["location"] == "/tables/t"
        assert paused(page.catalog) == (False, False)
        assert "1 version that is not published" in client.get("/tables/t").text
        client.post("/tables/t/pause", {"csrf": csrf, "unpublished": "yes"})
        assert paused(page.catalog) == (True, False)
        assert "t is paused" in client.get("/tables/t").text
        assert "t is paused" not in client.get("/tables/t").text
        client.post("/tables/t/resume", {"csrf": csrf})
        client.post("/pause", {"csrf": csrf})
        assert paused(page.catalog) == (False, True)
        client.post("/resume", {"csrf": csrf})
        assert paused(page.catalog) == (False, False)
    assert "ada paused t" in caplog.text


@pytest.mark.requirement("R62")
def test_an_operator_silences_an_alert_as_the_command_does(page: Served, caplog: pytest.LogCaptureFixture) -> None:
    execute(page.catalog, FIRING, rule="lag-critical", scope="table", subject="t", cause="late")
    client = page.client("ada")
    csrf = client.csrf()
    assert 'href="/tables/t/silence?rule=lag-critical&amp;next=%2F"' in client.get("/").text
    assert "Silence rule lag-critical of t" in client.get("/tables/t/silence?rule=lag-critical").text
    with caplog.at_level(logging.INFO, "deltamirror"):
        client.post("/tables/t/silence", {"csrf": csrf, **SILENCE})
    [made] = silences(page.catalog.database)
    assert (made.rule, made.subject, made.author, made.reason) == ("lag-critical", "t", "ada", "moving the bucket")
    assert made.ends_at - made.created_at == 3_600_000
    assert made.covers(AlertKey("lag-critical", "table", "t"))
    assert "ada silenced rule lag-critical of t until" in caplog.text
    for path in ("/", "/tables/t"):
        assert "moving the bucket" in client.get(path).text
    status = client.get("/api/v1/status").json
    assert [alert["silenced_until"] for alert in status["alerts"]] == [made.ends_at]
    assert [each["author"] for each in status["silences"]] == ["ada"]
    client.post("/unsilence", {"csrf": csrf, "silence": made.silence_id})
    assert silences(page.catalog.database) == []
    client.post("/silence", {"csrf": csrf, **SILENCE})
    client.post("/tables/t/silence", {"csrf": csrf, **SILENCE, "rule": ""})
    made_ones = {(each.rule, each.subject) for each in silences(page.catalog.database)}
    assert made_ones == {("lag-critical", "*"), ("*", "t")}


REFUSED = (
    ({"for": "1y"}, "for: "),
    ({"reason": "  "}, "reason: "),
    ({"reason": "x" * 501}, "reason: "),
    ({"rule": "no-such-rule"}, "no rule is called"),
    ({"rule": "lag-*"}, "no rule is called"),
    ({"rule": "", "subject": ""}, "a silence is for a rule"),
    ({"subject": "x" * 2_000}, "subject: "),
)


def test_a_silence_that_cannot_be_is_refused_and_said(page: Served) -> None:
    client = page.client("ada")
    csrf = client.csrf()
    for changed, said in REFUSED:
        client.post("/silence", {"csrf": csrf, **SILENCE, **changed})
        assert said in client.get("/").text
    assert silences(page.catalog.database) == []


def test_an_operator_of_some_tables_silences_these_alone(page: Served) -> None:
    for subject, reason in (("hr.pay", "for hr"), ("*", "for all"), ("sales.[ab]", "for a pattern")):
        silence(page.catalog.database, seconds=60, reason=reason, author="eve", subject=subject)
    foreign = [each.silence_id for each in silences(page.catalog.database)]
    for subject in ("sales.a", "hr.pay"):
        execute(page.catalog, FIRING, rule="lag-critical", scope="table", subject=subject, cause="late")
    page.token("narrow", Right.OPERATE, "sales.*")
    client = page.client("narrow")
    csrf = client.csrf()
    for path in ("/tables/hr.pay/silence", "/silence", "/tables/hr.pay/unsilence", "/unsilence"):
        assert client.post(path, {"csrf": csrf, **SILENCE, "silence": foreign[0]}).status == 403
    for silence_id in foreign:
        client.post("/tables/sales.a/unsilence", {"csrf": csrf, "silence": silence_id})
    assert [each.silence_id for each in silences(page.catalog.database)] == foreign
    text = client.get("/").text
    assert not [reason for reason in ("for hr", "for all", "for a pattern") if reason in text]
    client.post("/tables/sales.a/silence", {"csrf": csrf, **SILENCE})
    [own] = [each for each in silences(page.catalog.database) if each.author == "narrow"]
    assert 'action="/tables/sales.a/unsilence"' in client.get("/").text
    client.post("/tables/sales.a/unsilence", {"csrf": csrf, "silence": own.silence_id})
    assert [each.silence_id for each in silences(page.catalog.database)] == foreign


def test_a_repair_runs_in_the_background_and_says_how_it_went(lake: Catalog, tmp_path: Path) -> None:
    lake.create_table("t", location=str(tmp_path / "t"), schema="id long")
    with served(lake) as page:
        client = page.client("ada")
        client.post("/tables/t/repair", {"csrf": client.csrf()})
        until(lambda: "published up to version 0" in client.get("/tables/t").text)
        assert (tmp_path / "t" / "_delta_log" / f"{0:020}.json").exists()


def test_repairs_that_hang_hold_up_no_page_no_act_and_no_other_repair_for_long(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000]
    monkeypatch.setattr("deltamirror.web.pages.acts.now_ms", lambda: now[0])
    for name in ("a", "b", "fine"):
        lake.create_table(name, location=str(tmp_path / name), schema="id long")
    hanging, go_on, listed = [tmp_path / "a", tmp_path / "b"], threading.Event(), DiskStore.list

    def silent(store: DiskStore, *arguments: Any, **more: Any) -> Any:
        return listed(store, *arguments, **more) if store.root not in hanging else go_on.wait() and iter(())

    monkeypatch.setattr(DiskStore, "list", silent)
    patient = Settings(storage=StorageSettings(timeout=86_400, transfer_timeout=86_400))
    with served(lake, settings=patient) as page:
        client = page.client("ada")
        csrf = client.csrf()
        for name in ("a", "b"):
            client.post(f"/tables/{name}/repair", {"csrf": csrf})
            assert "Repair under way" in client.get(f"/tables/{name}").text
        client.post("/tables/fine/repair", {"csrf": csrf})
        assert "busy: 2 tables being repaired; fine is not" in client.get("/tables/fine").text
        client.post("/tables/fine/pause", {"csrf": csrf, "unpublished": "yes"})
        assert "fine is paused" in client.get("/").text
        client.post("/tables/fine/resume", {"csrf": csrf})
        now[0] += 60_000
        client.post("/tables/a/repair", {"csrf": csrf})
        assert "a is being repaired already" in client.get("/").text
        client.post("/tables/fine/repair", {"csrf": csrf})
        until(lambda: "published up to version 0" in client.get("/tables/fine").text)
        go_on.set()


def test_repairs_that_hang_are_few_however_long_they_last(lake: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    now, go_on = [0], threading.Event()
    monkeypatch.setattr("deltamirror.web.pages.acts.now_ms", lambda: now[0])
    monkeypatch.setattr("deltamirror.web.pages.acts.repair", lambda *_: go_on.wait() and Repaired(**NOTHING))
    for number in range(9):
        create(lake, f"t{number}")
    with MirrorEngine(settings=local_settings(), database=lake.database) as engine:
        operations = Operations(engine)
        for number in range(8):
            operations.repair(f"t{number}", operator="ada")
            now[0] += 60_000
        with pytest.raises(Refused, match="busy: 8 tables") as caught:
            operations.repair("t8", operator="ada")
        assert caught.value.hint == "try again when one is done"
        go_on.set()
        until(lambda: all(operations.repair_of(f"t{number}").ended_at is not None for number in range(8)))  # type: ignore[union-attr]
        operations.repair("t8", operator="ada")
        until(lambda: operations.repair_of("t8").ended_at is not None)  # type: ignore[union-attr]
