"""A trace leads from the commit to the publication of each of its versions, if the application records spans."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from deltamirror import Catalog
from deltamirror.pipeline.service import jobs
from deltamirror.telemetry import spans
from tests.support.lakes.lake import add, execute
from tests.support.mirrors.local import append, make_table, mirror_of


def recorded_by(provider: TracerProvider, monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    provider = TracerProvider()
    yield recorded_by(provider, monkeypatch)
    provider.shutdown()


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    found: int = span.context.trace_id
    return found


def attribute(span: ReadableSpan, name: str) -> object:
    assert span.attributes is not None
    return span.attributes[f"deltamirror.{name}"]


def test_the_transaction_is_the_trace_of_its_commit_and_of_each_publication(
    lake: Catalog, tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    for name in ("a", "b"):
        make_table(lake, tmp_path, name)
    with lake.transaction() as transaction:
        transaction.append("a", [add("f")])
        transaction.append("b", [add("g")])
    with mirror_of(lake) as engine:
        engine.run(once=True)
    rows = execute(
        lake,
        "SELECT v.txn_id, t.name, v.version, v.committed_at, s.published_at FROM dl_table_versions v"
        " JOIN dl_tables t ON t.table_id = v.table_id"
        " JOIN dl_mirror_status s ON s.table_id = v.table_id AND s.version = v.version",
    )
    expected = {
        (UUID(row.txn_id).int, row.name, row.version, row.committed_at * 10**6, row.published_at * 10**6)
        for row in rows
    }
    assert expected == {
        (
            trace_of(span),
            attribute(span, "table"),
            attribute(span, "version"),
            span.start_time,
            span.end_time,
        )
        for span in named(exporter, "deltamirror.publish")
    }
    commits = {trace_of(span): attribute(span, "versions") for span in named(exporter, "deltamirror.commit")}
    assert set(commits) == {trace_id for trace_id, *_ in expected}
    assert ("a@1", "b@1") in commits.values()


def test_a_commit_inside_of_the_applications_trace_is_linked_to_it(
    lake: Catalog, tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    table = make_table(lake, tmp_path)
    with trace.get_tracer("application").start_as_current_span("request") as request:
        append(table)
    links = [span.links for span in named(exporter, "deltamirror.commit")]
    assert [[link.context for link in found] for found in links] == [[], [request.get_span_context()]]


def test_a_sampler_by_trace_id_decides_alike_for_commit_and_publication(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = recorded_by(TracerProvider(sampler=TraceIdRatioBased(0.5)), monkeypatch)
    append(make_table(lake, tmp_path), 20)
    with mirror_of(lake) as engine:
        engine.run(once=True)
    commits, publications = (
        {trace_of(span) for span in named(exporter, f"deltamirror.{act}")} for act in ("commit", "publish")
    )
    assert commits == publications


def test_nothing_is_asked_of_the_database_while_no_spans_are_recorded(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(jobs, "txn_ids")
    assert not spans.are_recorded()
    append(make_table(lake, tmp_path))
    with mirror_of(lake) as engine:
        assert engine.run(once=True).versions == 2


def test_without_the_library_there_are_no_spans(lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "opentelemetry", None)
        importlib.reload(spans)
        append(make_table(lake, tmp_path))
        spans.committed("x", {"t": 1}, begun=0)
        spans.published("x", "t", 1, committed_at=0, visible_at=1, num_bytes=1)
        assert not spans.are_recorded()
    importlib.reload(spans)


def test_the_id_of_another_writers_transaction_is_a_trace_too(exporter: InMemorySpanExporter) -> None:
    for _ in range(2):
        spans.published("not a UUID", "t", 1, committed_at=1, visible_at=2, num_bytes=1)
    first, second = named(exporter, "deltamirror.publish")
    assert trace_of(first) == trace_of(second) != 0
