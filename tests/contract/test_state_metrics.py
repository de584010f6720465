"""The gauges of a catalog say what direct SQL counts, by a bounded number of queries, at most so often."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from deltamirror import Catalog
from deltamirror.config import LiveSettings, MetricsSettings, MirrorSettings, Settings
from deltamirror.errors import Unavailable
from deltamirror.ops.monitoring.collector import STATE_METRICS, StateCollector, exported
from deltamirror.telemetry import metrics
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import request_checkpoint
from deltamirror.txnlog.queue.breakers import BreakerState
from deltamirror.work import Lane
from tests.support.lakes.lake import add, create, execute, remove_of
from tests.support.mirrors.claims import claimed, end_leases, failed, record, work_on, write_checkpoint
from tests.support.mirrors.local import append, following, make_table, mirror_of, until
from tests.support.monitoring.scraping import labels_of, own_labels, scraped, value

QUERIES = 6
OPEN = """INSERT INTO dl_breakers (store, state, failures, successes, changed_at) VALUES (:store, :state, 5, 0, 1)"""


@pytest.fixture(autouse=True)
def labels() -> Iterator[None]:
    with own_labels():
        yield


def refreshing(seconds: float, **mirror: Any) -> LiveSettings:
    """The settings of a process whose scrapes share a reading for so long."""
    return LiveSettings.of(Settings(metrics=MetricsSettings(refresh=seconds), mirror=MirrorSettings(**mirror)))


@contextmanager
def state_of(catalog: Catalog, **mirror: Any) -> Iterator[None]:
    """The state of a catalog is scraped, and read each time, since no time goes by."""
    unregister = metrics.register(StateCollector(catalog.database, refreshing(0, **mirror), clock=lambda: 0.0))
    try:
        yield
    finally:
        unregister()


@contextmanager
def counted_queries(database: Database) -> Iterator[list[str]]:
    seen: list[str] = []

    def see(connection: object, cursor: object, statement: str, *_: object) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            seen.append(statement)

    event.listen(database.engine, "before_cursor_execute", see)
    try:
        yield seen
    finally:
        event.remove(database.engine, "before_cursor_execute", see)


def test_the_gauges_of_a_table_are_what_direct_sql_counts(catalog: Catalog) -> None:
    """On every engine: the queries are of the database's kind."""
    table = create(catalog, "a")
    for number in range(6):
        table.append([add(f"f{number}"), add(f"g{number}")])
    removed = remove_of(add("f0"))
    with catalog.transaction() as transaction:
        transaction.remove("a", [removed.path])
    create(catalog, "b")
    work_on(catalog, "a", upto=4)
    with catalog.database.write() as session:
        request_checkpoint(session, table.info().id, 2, reason="a test")
    write_checkpoint(catalog, 2)
    execute(catalog, "UPDATE dl_checkpoints SET num_files = 4")
    execute(catalog, "UPDATE dl_table_versions SET committed_at = committed_at - 60000 WHERE version = 5")
    with state_of(catalog):
        found = scraped()
    [(num_bytes,)] = execute(catalog, "SELECT sum(num_bytes) FROM dl_table_versions WHERE version IN (3, 4)")
    [(files,)] = execute(catalog, "SELECT count(*) FROM dl_file_intervals WHERE removed_version IS NULL")
    [(waiting,)] = execute(catalog, "SELECT count(*) FROM dl_mirror_status WHERE state <> 'SUCCESS'")

    def gauge(name: str, **labels: str) -> float:
        return found[name, frozenset(labels.items())]

    assert gauge("deltamirror_mirror_lag_versions", table="a") == 3
    assert gauge("deltamirror_mirror_lag_versions", table="b") == 1
    assert gauge("deltamirror_mirror_lag_seconds", table="a") >= 60
    assert gauge("deltamirror_backlog_versions") == waiting == 4
    assert gauge("deltamirror_checkpoint_age_versions", table="a") == 2
    assert gauge("deltamirror_json_behind_checkpoint_bytes", table="a") == num_bytes
    assert gauge("deltamirror_active_files", table="a") == files == 11
    assert gauge("deltamirror_tables") == 2
    assert gauge("deltamirror_quarantined_tables") == gauge("deltamirror_escalations_open") == 0
    assert {name for name, _ in found} >= {metric.name for metric in STATE_METRICS} - {"deltamirror_circuit_state"}


def test_what_is_published_has_no_lag_and_what_was_never_attempted_has(lake: Catalog) -> None:
    create(lake, "done")
    work_on(lake, "done")
    create(lake, "never")
    execute(lake, "UPDATE dl_table_versions SET committed_at = committed_at - 1000")
    with state_of(lake):
        assert value("deltamirror_mirror_lag_seconds", table="done") == 0
        assert value("deltamirror_mirror_lag_seconds", table="never") >= 1


def test_leases_circuits_quarantines_and_escalations_are_counted(lake: Catalog) -> None:
    create(lake, "t")
    [claim] = claimed(lake)
    for store, state in (("s3://a", BreakerState.OPEN), ("s3://b", BreakerState.HALF_OPEN)):
        execute(lake, OPEN, store=store, state=state.value)
    with state_of(lake):
        assert value("deltamirror_leases", lane=Lane.COMMITS) == 1
        assert value("deltamirror_leases", lane=Lane.CHECKPOINTS) == 0
        assert value("deltamirror_circuit_state", store="s3://a") == 2
        assert value("deltamirror_circuit_state", store="s3://b") == 1
        end_leases(lake.database)
        execute(lake, "UPDATE dl_tables SET quarantined_at = 1, quarantine_reason = 'a test'")
        execute(
            lake,
            "INSERT INTO dl_escalations (table_id, version, lane, opened_at, error_code, error_message)"
            " SELECT table_id, 0, 'commits', 1, 'unavailable', 'no' FROM dl_tables",
        )
        assert value("deltamirror_leases", lane=Lane.COMMITS) == 0
        assert value("deltamirror_quarantined_tables") == value("deltamirror_escalations_open") == 1
    assert record(lake, failed(claim.lease, 0)).held is False


def test_as_many_queries_for_many_tables_as_for_one(lake: Catalog) -> None:
    for number in range(12):
        create(lake, f"t{number}")
    with counted_queries(lake.database) as seen, state_of(lake):
        metrics.exposition()
    assert len(seen) == QUERIES


def test_tables_beyond_the_bound_are_one_with_the_worst_of_them(lake: Catalog) -> None:
    metrics.limit_tables(2)
    for name in ("a", "b", "c", "d"):
        table = create(lake, name)
        for number in range({"c": 3}.get(name, 0)):
            table.append([add(f"f{number}")])
    with state_of(lake):
        assert labels_of("deltamirror_mirror_lag_versions", "table") == {"a", "b", "other"}
        assert value("deltamirror_mirror_lag_versions", table="other") == 4
        assert value("deltamirror_active_files", table="other") == 3
        assert value("deltamirror_backlog_versions") == 7


def test_a_table_that_was_dropped_gives_its_label_to_another(lake: Catalog) -> None:
    metrics.limit_tables(1)
    create(lake, "a")
    create(lake, "b")
    with state_of(lake):
        assert labels_of("deltamirror_mirror_lag_versions", "table") == {"a", "other"}
        lake.drop_table("a", unpublished=True)
        assert labels_of("deltamirror_mirror_lag_versions", "table") == {"b"}


@pytest.mark.requirement("R79")
def test_the_number_of_tables_with_a_label_follows_the_settings(lake: Catalog, tmp_path: Path) -> None:
    for name in ("a", "b"):
        create(lake, name)
    file = tmp_path / "metrics.toml"
    file.write_text("metrics.refresh = 0\nmetrics.tables = 2\n")
    live = LiveSettings.load(environment={}, config=file, settled=0.0)
    with exported(lake.database, live):
        assert labels_of("deltamirror_mirror_lag_versions", "table") == {"a", "b"}
        file.write_text("metrics.refresh = 0.000001\nmetrics.tables = 1\n")
        live.check()
        until(lambda: labels_of("deltamirror_mirror_lag_versions", "table") == {"a", "other"})


@pytest.mark.requirement("R116")
def test_a_table_that_is_disabled_has_no_lag_and_is_no_backlog(lake: Catalog) -> None:
    create(lake, "off")
    create(lake, "on", properties={"deltamirror.mirrorEnabled": "true"})
    with state_of(lake, enabled=False):
        lags = [value(f"deltamirror_mirror_lag_{unit}", table="off") for unit in ("seconds", "versions")]
        assert (lags, value("deltamirror_backlog_versions")) == ([0, 0], 1)
        assert value("deltamirror_mirror_lag_versions", table="on") == 1
    with state_of(lake):
        assert value("deltamirror_mirror_lag_versions", table="off") == 1


def test_scrapes_share_one_reading_until_it_is_time_for_another(lake: Catalog) -> None:
    now = 0.0
    collector = StateCollector(lake.database, refreshing(5.0), clock=lambda: now)
    with counted_queries(lake.database) as seen:
        collector()
        now = 4.9
        collector()
        assert len(seen) == QUERIES
        now = 5.0
        collector()
        assert len(seen) == 2 * QUERIES


def test_what_takes_long_to_read_is_read_a_twentieth_of_the_time(
    lake: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, readings = [0.0], []

    def slow() -> list[metrics.Sample]:
        readings.append(now[0])
        now[0] += 10.0
        return []

    collector = StateCollector(lake.database, refreshing(5.0), clock=lambda: now[0])
    monkeypatch.setattr(collector, "_samples", slow)
    for scrape in (0.0, 20.0, 209.0, 210.0):
        now[0] = max(now[0], scrape)
        collector()
    assert readings == [0.0, 210.0]


def test_a_database_that_hangs_does_not_hold_up_the_scrape_and_is_asked_once(
    lake: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = threading.Event(), []

    def hang() -> list[metrics.Sample]:
        asked.append(1)
        answers.wait()
        return [metrics.Sample("deltamirror_probe", "A probe.", 1)]

    collector = StateCollector(lake.database, refreshing(0), patience=0.01)
    monkeypatch.setattr(collector, "_samples", hang)
    for _ in range(3):
        with pytest.raises(Unavailable, match="could not be read"):
            collector()
    assert asked == [1]
    answers.set()
    patient = StateCollector(lake.database, refreshing(0))
    monkeypatch.setattr(patient, "_samples", hang)
    assert [sample.value for sample in patient()] == [1]


def test_nothing_secret_is_in_a_label(lake: Catalog) -> None:
    execute(lake, OPEN, store="s3://key:hunter2@bucket", state="open")
    with state_of(lake):
        assert b"hunter2" not in metrics.exposition()[0]
        assert len(labels_of("deltamirror_circuit_state", "store")) == 1


def test_a_service_has_the_state_of_its_catalog_in_its_metrics_while_it_runs(lake: Catalog, tmp_path: Path) -> None:
    table = make_table(lake, tmp_path)
    append(table)
    with mirror_of(lake) as engine, following(engine):
        until(lambda: value("deltamirror_tables") == 1)
    assert value("deltamirror_tables") == 0
