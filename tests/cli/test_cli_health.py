"""``deltamirror health``, and the processes that ``--listen``, as they are typed."""

import sys

import pytest

from deltamirror import MirrorEngine
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from tests.support.interfaces.commands import following
from tests.support.interfaces.prompt import AddLine, Prompt
from tests.support.mirrors.local import following as running
from tests.support.mirrors.local import local_settings, until
from tests.support.monitoring.health import asked, served, until_part
from tests.support.servers.ports import held_port

pytestmark = pytest.mark.requirement("R64")

QUICK = {"DELTAMIRROR_MIRROR__RUNNER": "local", "DELTAMIRROR_MIRROR__POLL": "0.05"}


def test_a_service_tells_of_its_health_where_it_was_told_to_listen(orders: Prompt, add: AddLine) -> None:
    with following("--listen", "0", folder=orders.folder, settings=QUICK) as service:
        assert "Health and metrics: http://127.0.0.1:" in service.started
        orders("commit", "orders", "-", "--wait", "300", stdin=add())
        until_part(service.url, "progress", "ok")
        assert b'deltamirror_mirror_lag_versions{table="orders"} 0.0' in asked(service.url, "/metrics").body
        shown = orders("health", "--url", service.url).stdout
        assert [line.split()[:2] for line in shown.splitlines()[1:]] == [
            [part, "ok"] for part in ("database", "store", "progress", "reconciler", "spark", "settings")
        ]
        port = service.url.rpartition(":")[2]
        error = orders.error("mirror", "--follow", "--listen", port, "--runner", "local", exits=20)
        assert error["message"] == f"cannot listen on 127.0.0.1:{port}: the port is in use"
        assert service.stop()[0] == 0
    gone = orders.error("health", "--url", service.url, exits=20)
    assert "does not answer with its health" in gone["message"]


@pytest.mark.requirement("R118")
def test_the_reconciler_runs_as_a_process_of_its_own(orders: Prompt, add: AddLine) -> None:
    """What is lost from a log is written again, though the service beside it compares no logs."""
    first = orders.folder / "lake" / "orders" / LOG_DIRECTORY / commit_name(1)
    orders("commit", "orders", "-", stdin=add())
    more = ("--interval", "0.1", "--listen", "127.0.0.1:0")
    quick = {**QUICK, "DELTAMIRROR_RECONCILE__INTERVAL": "0"}
    with (
        following(*more, folder=orders.folder, settings=quick, command="reconcile") as reconciler,
        MirrorEngine("sqlite:///deltamirror.db", settings=local_settings()) as engine,
        running(engine),
        served(engine.monitor()) as url,
    ):
        assert "each every 0.1 s" in reconciler.started
        part = until_part(url, "reconciler", "ok").part("reconciler")
        assert part["reason"] == "reconcile.interval is 0: this process does not compare logs"
        until(first.exists)
        first.unlink()
        until(first.exists)
        answer = until_part(reconciler.url, "reconciler", "ok")
        assert (answer.status, answer.part("progress")["reason"]) == (200, "this process publishes nothing")
        assert b'deltamirror_reconcile_findings_total{kind="missing"}' in asked(reconciler.url, "/metrics").body
        status, said, complained = reconciler.stop()
        assert (status, said) == (0, "Stopped; the log in hand is finished.\n")
        assert "1 commits and 0 checkpoints were gone from the log of table 'orders'" in complained


def test_the_health_of_a_catalog_is_that_of_its_records_and_stores(orders: Prompt, add: AddLine) -> None:
    orders("commit", "orders", "-", stdin=add())
    orders("mirror", "--once", "--runner", "local")
    document = orders.json("health")
    assert (document["ok"], document["ready"], {part["state"] for part in document["parts"]}) == (True, True, {"ok"})
    (orders.folder / "lake").rename(orders.folder / "away")
    shown = orders("health", exits=4)
    assert "degraded" in shown.stdout
    assert "store: check that the right bucket or disk is mounted" in shown.stdout
    (orders.folder / "deltamirror.db").unlink()
    shown = orders("health", exits=20)
    assert "there is no catalog at" in shown.stdout
    assert "database: run `deltamirror init`" in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mirror", "--once", "--listen", "0"), "--listen is for --follow"),
        (("mirror", "--follow", "--listen", "::1:0"), "an IPv6 address stands in brackets"),
        (("mirror", "--follow", "--listen", "port"), "the port is a number from 0 to 65535"),
        (("reconcile", "--listen", "0"), "--interval and --listen are for --follow"),
        (("reconcile", "--follow", "orders"), "--follow compares the logs of all tables"),
        (("reconcile", "--follow", "--strategy", "full"), "--follow compares the logs of all tables"),
        (("reconcile", "--follow", "--interval", "0"), "reconcile.interval is 0, which is never"),
        (("health", "--url", "ftp://host"), "such as http://127.0.0.1:9180"),
    ],
)
def test_options_that_make_no_sense_are_refused(orders: Prompt, words: tuple[str, ...], said: str) -> None:
    assert said in orders.error(*words, exits=64)["message"]


def test_a_missing_library_is_named_before_anything_begins(orders: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "deltamirror.web.listener", raising=False)
    error = orders.error("mirror", "--follow", "--listen", "0", "--runner", "local", exits=18)
    assert (error["extra"], "uvicorn" in error["message"]) == ("server", True)
    assert "pip install 'deltamirror[server]'" in error["hint"]


def test_who_answers_with_something_else_is_not_healthy(orders: Prompt) -> None:
    with held_port() as port:
        error = orders.error("health", "--url", f"127.0.0.1:{port}", exits=20)
    assert f"http://127.0.0.1:{port}/readyz does not answer with its health" in error["message"]
