"""Who commits: deltamirror, delta-rs, or nobody but the database driver."""

import json
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction

from benchmarks.adds import PARTITION_COLUMN
from benchmarks.bare import open_bare
from benchmarks.lab import ENGINES, TABLE, Place
from deltamirror import Add, Catalog
from deltamirror.delta.lines import encode


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured: who commits, and to which engine."""

    who: str
    engine: str

    def __str__(self) -> str:
        return self.who if self.engine == "files" else f"{self.who} {self.engine}"


DELTA_RS = Subject("delta-rs", "files")
OVER_HTTP = Subject("HTTP", "postgresql")
BARE_SERVER = Subject("bare server", "files")
SUBJECTS = (
    *(Subject("deltamirror", engine) for engine in ENGINES),
    *(Subject("bare", engine) for engine in ENGINES),
    DELTA_RS,
)


class Writer(Protocol):
    """Commits one file at a time, durably if the engine can."""

    def commit(self, add: Add) -> None:
        """Add one file in a commit of its own."""

    def close(self) -> None:
        """Give back connections."""


class DeltaMirror:
    """The public API, as a user calls it."""

    def __init__(self, place: Place) -> None:
        self._catalog = Catalog(place.url)

    def commit(self, add: Add) -> None:
        with self._catalog.transaction() as transaction:
            transaction.append(TABLE, [add])

    def close(self) -> None:
        self._catalog.close()


class DeltaRs:
    """The fastest way that delta-rs has: a table object kept open, brought up to date after each commit.

    Without the update, each commit checks all versions since the table was opened. Its post-commit hooks stay on:
    without the checkpoints they write, each commit is slower than the one before.
    """

    def __init__(self, place: Place) -> None:
        self._table = DeltaTable(place.folder)
        self._schema = delta_rs_schema()

    def commit(self, add: Add) -> None:
        self._table.create_write_transaction([delta_rs_action(add)], "append", self._schema, [PARTITION_COLUMN])
        self._table.update_incremental()

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """How clients reach the commit API: a file of the place."""

    port: int
    token: str

    @property
    def address(self) -> str:
        """Of the server."""
        return f"http://127.0.0.1:{self.port}"

    def write(self, place: Place) -> None:
        """Write it down for the writers of a place."""
        (Path(place.folder) / "http.json").write_text(json.dumps([self.port, self.token]))

    @classmethod
    def read(cls, place: Place) -> "HttpAccess":
        """Read it again."""
        return cls(*json.loads((Path(place.folder) / "http.json").read_text()))


class OverHttp:
    """A client of the commit API: it sends its action to become the next version, whichever that is.

    Its connection stays open. The server closes one that rests: then the commit is sent again, by its key.
    """

    def __init__(self, place: Place) -> None:
        access = HttpAccess.read(place)
        self._connection = HTTPConnection("127.0.0.1", access.port)
        self._headers = {"Authorization": f"Bearer {access.token}", "Content-Type": "application/x-ndjson"}

    def commit(self, add: Add) -> None:
        headers = {**self._headers, "Idempotency-Key": str(uuid4())}
        try:
            self._send(add, headers)
        except ConnectionError:
            self._connection.close()
            self._send(add, headers)

    def close(self) -> None:
        self._connection.close()

    def _send(self, add: Add, headers: dict[str, str]) -> None:
        self._connection.request("POST", f"/api/v1/tables/{TABLE}/commits", encode(add) + b"\n", headers)
        answer = self._connection.getresponse()
        told = json.loads(answer.read())
        if answer.status != 201:
            raise RuntimeError(told["detail"])


def delta_rs_action(add: Add) -> AddAction:
    """A file as delta-rs takes it."""
    return AddAction(
        path=add.path,
        size=add.size,
        partition_values=add.partition_values,
        modification_time=add.modification_time,
        data_change=add.data_change,
        stats=add.stats or "",
    )


def delta_rs_schema() -> Schema:
    """The schema of the table as delta-rs takes it."""
    columns = {"id": "long", "customer": "string", "price": "double", "day": "date"}
    return Schema([Field(name, PrimitiveType(kind)) for name, kind in columns.items()])


def prepare(subject: Subject, place: Place) -> None:
    """Make the place ready for the subject's writers."""
    if subject == DELTA_RS:
        DeltaTable.create(place.folder, delta_rs_schema(), partition_by=[PARTITION_COLUMN])


def open_writer(subject: Subject, place: Place) -> Writer:
    """A writer; the place is prepared."""
    match subject.who:
        case "deltamirror":
            return DeltaMirror(place)
        case "delta-rs":
            return DeltaRs(place)
        case "HTTP" | "bare server":
            return OverHttp(place)
        case _:
            return open_bare(place)


def newest_version(subject: Subject, place: Place) -> int:
    """The newest version of the table, once its writers have closed the database."""
    if subject == DELTA_RS:
        return DeltaTable(place.folder).version()
    with Catalog(place.url) as catalog:
        return catalog.table(TABLE).info().head
