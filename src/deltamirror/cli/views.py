"""``deltamirror table show|files``: a table, looked at."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import click
import msgspec
import pyarrow as pa

from deltamirror.catalog import Snapshot, Table, TableInfo
from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.listing import table_document
from deltamirror.cli.opening import catalog_of
from deltamirror.cli.output import Fields, Grid, answer, moment, write_json_list
from deltamirror.cli.parameters import partition_values, point_in_time, whole_number
from deltamirror.delta import lines
from deltamirror.delta.actions import CommitInfo
from deltamirror.delta.schema import column_text, schema_string

_BATCH: Final = 10_000
_JSON_COLUMNS: Final = frozenset({"deletion_vector", "partition_values", "tags"})


@click.command(epilog="Example: deltamirror table show orders")
@click.argument("name")
@with_invocation
def show(invocation: Invocation, *, name: str) -> None:
    """Show table NAME: its columns, properties, protocol and domains.

    Also where it is, and how far applications are.
    """
    with catalog_of(invocation) as catalog:
        table = catalog.table(name)
        info, snapshot = table.info(), table.snapshot()
        answer({"table": _described(info, snapshot)}, Fields(_present(_fields(info, snapshot))), json=invocation.json)


@click.command(epilog="Example: deltamirror table files orders --version 3")
@click.argument("name")
@click.option("--version", type=int, callback=whole_number(0), metavar="N", help="The files of version N.")
@click.option(
    "--as-of",
    callback=point_in_time,
    metavar="TIME",
    help="The files of the newest version at TIME: ISO 8601 (UTC unless it says otherwise), or milliseconds.",
)
@click.option(
    "--partition",
    callback=partition_values,
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Only this partition. Repeated for a column, any of its values; `COLUMN=` is null.",
)
@with_invocation
def files(
    invocation: Invocation,
    *,
    name: str,
    version: int | None,
    as_of: datetime | None,
    partition: dict[str, list[str | None]],
) -> None:
    """List the data files of table NAME, at any version."""
    if version is not None and as_of is not None:
        raise click.UsageError("give --version or --as-of, not both")
    with catalog_of(invocation) as catalog:
        snapshot = catalog.table(name).snapshot(version=version, as_of=as_of)
        found = snapshot.files(partitions=partition)
    if invocation.json:
        head = {"table": name, "version": snapshot.version, "timestamp": snapshot.timestamp}
        write_json_list(head, "files", _file_objects(found))
    else:
        answer({}, Grid(("SIZE", "MODIFIED", "PARTITION", "PATH"), _file_rows(found), empty="No files."), json=False)


def metrics_of(table: Table, version: int) -> dict[str, str]:
    """What a commit of ours says that it did."""
    info = lines.decode(table.commit_file(version).partition(b"\n")[0])
    return dict(info.operation_metrics or {}) if isinstance(info, CommitInfo) else {}


def _fields(info: TableInfo, snapshot: Snapshot) -> dict[str, object]:
    published = "nothing" if info.published is None else f"version {info.published}"
    return {
        "table": info.name,
        "description": snapshot.metadata.description,
        "location": info.location,
        "state": info.state,
        "head": f"version {info.head}, {moment(info.head_timestamp)}",
        "published": f"{published}, {info.unpublished} to go",
        "created": moment(info.created_at),
        "id": info.id,
        "columns": "\n".join(map(column_text, snapshot.schema.fields)),
        "partitioned by": ", ".join(snapshot.metadata.partition_columns),
        "properties": "\n".join(f"{key} = {value}" for key, value in snapshot.metadata.configuration.items()),
        "protocol": _protocol(snapshot),
        "applications": "\n".join(f"{app} at version {txn.version}" for app, txn in snapshot.transactions().items()),
        "domains": "\n".join(snapshot.domain_metadata()),
    }


def _present(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _described(info: TableInfo, snapshot: Snapshot) -> dict[str, object]:
    return {
        **table_document(info),
        "description": snapshot.metadata.description,
        "schema": msgspec.Raw(schema_string(snapshot.schema).encode()),
        "partition_columns": snapshot.metadata.partition_columns,
        "properties": snapshot.metadata.configuration,
        "protocol": snapshot.protocol,
        "applications": {app: txn.version for app, txn in snapshot.transactions().items()},
        "domains": {name: domain.configuration for name, domain in snapshot.domain_metadata().items()},
    }


def _protocol(snapshot: Snapshot) -> str:
    protocol = snapshot.protocol
    features = protocol.writer_features or []
    listed = f": {', '.join(features)}" if features else ""
    return f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}{listed}"


def _file_objects(found: pa.Table) -> Iterator[dict[str, object]]:
    for batch in found.to_batches(max_chunksize=_BATCH):
        for row in batch.to_pylist():
            yield {name: _raw(value) if name in _JSON_COLUMNS else value for name, value in row.items()}


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


def _file_rows(found: pa.Table) -> Iterator[tuple[object, ...]]:
    for batch in found.select(["size", "modification_time", "partition_values", "path"]).to_batches(_BATCH):
        for row in batch.to_pylist():
            values: dict[str, str | None] = msgspec.json.decode(row["partition_values"])
            partition = "/".join(f"{column}={'null' if value is None else value}" for column, value in values.items())
            yield row["size"], moment(row["modification_time"]), partition, row["path"]
