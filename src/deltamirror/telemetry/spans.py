"""Spans from a commit to its publication, by the API of OpenTelemetry alone; none where that, or an SDK, is missing.

The commit and the publications of its versions take place in different processes, which share no more than the
database. So the trace follows from the transaction: its id is the trace's. A trace that the application has open while
it commits is linked to. A sampler that decides by the id of the trace decides for both processes alike.
"""

import hashlib
import time
from collections.abc import Mapping
from typing import Final
from uuid import UUID

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
except ModuleNotFoundError:  # the extra otel is not installed
    _IS_INSTALLED = False
else:
    _IS_INSTALLED = True

_NAME: Final = "deltamirror"
_MOST_TABLES: Final = 100
_NANOSECONDS: Final = 1_000_000
"""In a millisecond, the unit of times in the database."""


def are_recorded() -> bool:
    """Whether the application has set up an SDK."""
    if not _IS_INSTALLED:
        return False
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


def committed(txn_id: str, versions: Mapping[str, int], *, begun: int) -> None:
    """A transaction was committed; it was begun at this time, in nanoseconds since the epoch."""
    if not are_recorded():
        return
    current = trace.get_current_span().get_span_context()
    links = [trace.Link(current)] if current.is_valid else []
    tables = [f"{table}@{version}" for table, version in list(versions.items())[:_MOST_TABLES]]
    span = trace.get_tracer(_NAME).start_span(
        "deltamirror.commit",
        context=_context(txn_id),
        attributes={"deltamirror.txn_id": txn_id, "deltamirror.versions": tables},
        links=links,
        start_time=begun,
    )
    span.end(time.time_ns())


def published(txn_id: str, table: str, version: int, *, committed_at: int, visible_at: int, num_bytes: int) -> None:
    """A version of a transaction became visible: a span from its commit until then, in milliseconds of the database."""
    if not are_recorded():
        return
    span = trace.get_tracer(_NAME).start_span(
        "deltamirror.publish",
        context=_context(txn_id),
        kind=trace.SpanKind.CONSUMER,
        attributes={
            "deltamirror.txn_id": txn_id,
            "deltamirror.table": table,
            "deltamirror.version": version,
            "deltamirror.bytes": num_bytes,
        },
        start_time=committed_at * _NANOSECONDS,
    )
    span.end(max(committed_at, visible_at) * _NANOSECONDS)


def _context(txn_id: str) -> "Context":
    """The place in a trace where all spans of a transaction belong, in whichever process they are made."""
    digest = hashlib.sha256(txn_id.encode()).digest()
    parent = trace.SpanContext(
        trace_id=_trace_id(txn_id, digest),
        span_id=int.from_bytes(digest[:8]) or 1,
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())


def _trace_id(txn_id: str, digest: bytes) -> int:
    """The transaction's own id, which is a UUID; another writer's may be anything."""
    try:
        return UUID(txn_id).int or 1
    except ValueError:
        return int.from_bytes(digest[8:24]) or 1
