"""``deltamirror table create|alter``: what a table is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.listing import table_document
from deltamirror.cli.opening import catalog_of
from deltamirror.cli.output import Lines, answer
from deltamirror.cli.parameters import by_column, names, pairs
from deltamirror.delta.schema import StructType, read_schema
from deltamirror.delta.schema.arrow import from_arrow
from deltamirror.errors import InvalidSchema

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog='Example: deltamirror table create t --location lake/t --schema "id long"')
@click.argument("name")
@click.option("--location", required=True, metavar="URL", help="The table's folder: a path, file:, s3:, gs: or az:.")
@click.option("--schema", metavar="COLUMNS", help='The columns: "id long, day date NOT NULL".')
@click.option(
    "--schema-file",
    type=_FILE,
    metavar="FILE",
    help="The columns from a JSON schema (Spark, Delta), an Arrow IPC file or schema, or a Parquet file.",
)
@click.option("--partition-by", callback=names, multiple=True, metavar="COLUMN", help="A partition column; repeatable.")
@click.option("--property", "properties", callback=pairs, multiple=True, metavar="K=V", help="A table property.")
@click.option("--feature", "features", callback=names, multiple=True, metavar="F", help="A table feature.")
@click.option("--description", metavar="TEXT", help="What the table is for.")
@with_invocation
def create(
    invocation: Invocation,
    *,
    name: str,
    location: str,
    schema: str | None,
    schema_file: Path | None,
    partition_by: tuple[str, ...],
    properties: dict[str, str],
    features: tuple[str, ...],
    description: str | None,
) -> None:
    """Create table NAME, with version 0 as its first commit."""
    columns = _schema_from(schema, schema_file)
    with catalog_of(invocation) as catalog:
        table = catalog.create_table(
            name,
            location=location,
            schema=columns,
            partition_by=partition_by,
            properties=properties,
            features=features,
            description=description,
        )
        info = table.info()
    answer(
        {"table": table_document(info)},
        Lines((f"Created {info.name} at {info.location}, version {info.head}.",)),
        json=invocation.json,
    )


@click.command(epilog='Example: deltamirror table alter orders --add-column "amount double"')
@click.argument("name")
@click.option("--set", "properties", callback=pairs, multiple=True, metavar="K=V", help="Set a table property.")
@click.option("--unset", callback=names, multiple=True, metavar="K", help="Remove a table property.")
@click.option(
    "--add-column",
    "columns",
    multiple=True,
    metavar="COLUMN",
    help='Add a column, at any depth: "amount double", "address.zip string AFTER street".',
)
@click.option(
    "--drop-column", "drop_columns", multiple=True, metavar="COLUMN", help="Drop a column; takes column mapping."
)
@click.option(
    "--rename-column",
    "rename_columns",
    type=(str, str),
    callback=by_column,
    multiple=True,
    metavar="COLUMN NAME",
    help="Rename a column; takes column mapping.",
)
@click.option(
    "--change-column",
    "change_columns",
    type=(str, str),
    callback=by_column,
    multiple=True,
    metavar="COLUMN CLAUSES",
    help='Change a column: amount "TYPE decimal(12,2) COMMENT \'net\' AFTER id", id "DROP NOT NULL".',
)
@click.option(
    "--enable-column-mapping", is_flag=True, help="Map columns by name, so that they can be renamed and dropped."
)
@click.option(
    "--enable-feature", "features", callback=names, multiple=True, metavar="F", help="Enable a table feature."
)
@click.option(
    "--add-constraint",
    "constraints",
    callback=pairs,
    multiple=True,
    metavar="NAME=EXPR",
    help='Add a CHECK constraint: "positive=amount > 0".',
)
@click.option("--drop-constraint", "dropped", callback=names, multiple=True, metavar="NAME", help="Drop a constraint.")
@click.option("--rows-checked", is_flag=True, help="The rows in the table are known to satisfy an added constraint.")
@click.option("--comment", metavar="TEXT", help="What the table is for.")
@with_invocation
def alter(invocation: Invocation, /, *, name: str, **wishes: Any) -> None:
    """Change table NAME; all changes together are one commit.

    Options may be repeated. A change that is in force already makes no commit. Columns are dropped first, then renamed,
    changed and added. A constraint is not checked against the rows of data files: on a table that has files, check them
    first, and give --rows-checked.
    """
    if not any(value not in (None, (), {}, False) for value in wishes.values()):
        raise click.UsageError("say what to change: --set, --unset, --add-column, …")
    with catalog_of(invocation) as catalog:
        table = catalog.table(name)
        done = table.alter(**wishes)
        [entry] = table.history(limit=1)
    said = "{0} is so already; version {1} is still its head." if done is None else "Altered {0}: it is at version {1}."
    version = entry.version if done is None else done.versions[name]
    document = {"table": name, "version": version, "operation": entry.operation, "changed": done is not None}
    answer(document, Lines((said.format(name, version),)), json=invocation.json)


def _schema_from(inline: str | None, file: Path | None) -> StructType:
    """The schema that was given in one of the two ways."""
    if (inline is None) == (file is None):
        raise click.UsageError("give the columns with --schema or with --schema-file, one of them")
    return read_schema(inline) if inline is not None else _schema_of_file(file or Path())


def _schema_of_file(file: Path) -> StructType:
    """The schema in a Parquet file, an Arrow IPC file or stream, or a JSON file of Spark or Delta."""
    with file.open("rb") as stream:
        head = stream.read(6)
    try:
        if head[:4] == b"PAR1":
            return from_arrow(pq.read_schema(file))
        if head == b"ARROW1":
            return from_arrow(pa.ipc.open_file(file).schema)
        if head[:4] == b"\xff\xff\xff\xff":
            return _schema_of_stream(file)
        return read_schema(file.read_text(encoding="utf-8-sig"))
    except InvalidSchema as error:
        raise replace(error, message=f"{file}: {error.message}") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        message = f"{file}: not a schema in Arrow, Parquet or JSON: {error}"
        raise InvalidSchema(message, hint="name a file of one of these kinds") from error


def _schema_of_stream(file: Path) -> StructType:
    # Either a whole stream or the schema message alone (``pa.Schema.serialize``); both begin with it.
    with pa.OSFile(str(file)) as stream:
        return from_arrow(pa.ipc.read_schema(stream))
