from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deltamirror.telemetry import metrics
from deltamirror.telemetry.metrics import Sample
from tests.support.monitoring.scraping import labels_of, own_labels, value


@pytest.fixture(autouse=True)
def labels() -> Iterator[None]:
    with own_labels():
        yield


def test_a_commit_is_counted_once_with_its_outcome() -> None:
    before = value("deltamirror_commits_total"), value("deltamirror_commit_seconds_count", outcome="conflict")
    metrics.observe_commit(0.2, outcome="committed")
    metrics.observe_commit(0.2, outcome="conflict")
    after = value("deltamirror_commits_total"), value("deltamirror_commit_seconds_count", outcome="conflict")
    assert after == (before[0] + 1, before[1] + 1)


def test_every_metric_has_our_prefix_a_help_and_no_version_of_a_table() -> None:
    metrics.observe_publish("sales.orders", [0.5])
    families = list(text_string_to_metric_families(metrics.exposition()[0].decode()))
    assert all(family.name.startswith("deltamirror_") and family.documentation for family in families)
    labelled = {family.name for family in families for sample in family.samples if "version" in sample.labels}
    assert labelled == {"deltamirror_build_info"}


def test_tables_beyond_the_bound_share_one_label() -> None:
    metrics.limit_tables(2)
    before = value("deltamirror_publish_seconds_count", table="other")
    for table in ("a", "b", "c", "d", "a"):
        metrics.observe_publish(table, [1.0])
    assert labels_of("deltamirror_publish_seconds_count", "table") == {"a", "b", "other"}
    assert value("deltamirror_publish_seconds_count", table="other") == before + 2


def test_a_smaller_bound_takes_labels_away_at_once() -> None:
    for table in ("a", "b", "c"):
        metrics.observe_publish(table, [1.0])
    metrics.limit_tables(1)
    assert labels_of("deltamirror_publish_seconds_count", "table") - {"other"} == {"a"}
    assert metrics.table_label("c") == "other"


def test_a_dropped_table_makes_room_for_another() -> None:
    metrics.limit_tables(1)
    metrics.observe_publish("dropped", [1.0])
    metrics.forget_tables({"dropped", "unknown"})
    assert metrics.table_label("kept") == "kept"
    assert "dropped" not in labels_of("deltamirror_publish_seconds_count", "table")


def test_state_is_read_at_each_scrape_until_it_is_unregistered() -> None:
    values = iter([1.0, 2.0])
    unregister = metrics.register(lambda: [Sample("deltamirror_probe", "A probe.", next(values), {"lane": "x"})])
    try:
        assert [value("deltamirror_probe", lane="x") for _ in range(2)] == [1.0, 2.0]
    finally:
        unregister()
    assert value("deltamirror_probe", lane="x") == 0.0


def test_the_same_state_of_two_collectors_is_exposed_once() -> None:
    def collected() -> list[Sample]:
        return [Sample("deltamirror_probe_total", "A probe.", 7)]

    ends = [metrics.register(collected), metrics.register(collected)]
    try:
        body = metrics.exposition()[0].decode()
    finally:
        for end in ends:
            end()
    assert body.count("\ndeltamirror_probe_total 7.0") == body.count("# TYPE deltamirror_probe_total counter") == 1


def test_state_that_cannot_be_read_leaves_the_other_metrics(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> list[Sample]:
        raise RuntimeError("password=hunter2")

    before = value("deltamirror_scrape_errors_total")
    unregister = metrics.register(broken)
    try:
        for _ in range(3):
            metrics.exposition()
    finally:
        unregister()
    assert value("deltamirror_scrape_errors_total") == before + 3
    assert [record.message for record in caplog.records] == ["metrics of the state in SQL are missing: RuntimeError"]


def test_the_reference_page_has_every_metric_that_is_served() -> None:
    documented = {each.name for each in metrics.DESCRIPTIONS}
    families = text_string_to_metric_families(metrics.exposition()[0].decode())
    served = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    assert {name for name in served if not name.endswith("_created")} == documented
