"""Reference logs, written by others, and tables that begin with such a log."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq
from sqlalchemy import func, insert, select

from deltamirror import Catalog, Metadata, Protocol
from deltamirror.delta.actions import Action
from deltamirror.delta.lines import decode_commit
from deltamirror.errors import InvalidAction
from deltamirror.txnlog.commit.draft import draft_of
from deltamirror.txnlog.commit.ratification import Head, ratify
from deltamirror.txnlog.commit.request import Change
from deltamirror.txnlog.content.state import TableState
from deltamirror.txnlog.database.schema import heads, tables
from deltamirror.txnlog.tables.registry import insert_table

A = TypeVar("A", Protocol, Metadata)

_BEFORE_FIRST = {"version": -1, "metadata_version": -1, "protocol_version": -1}


def commit_files(log: Path) -> Iterator[bytes]:
    """The bytes of the commits of a log from version 0 on, up to the first gap."""
    files = {int(path.stem): path for path in log.glob("*.json") if path.stem.isdigit()}
    version = 0
    while version in files:
        yield files[version].read_bytes()
        version += 1


def has_texts(checkpoint: Path) -> bool:
    """Whether it has statistics as texts, as commits do; what it has typed only is not compared with them."""
    return any(field.name == "stats" for field in pq.read_schema(checkpoint).field("add").type)


def without_empty_tags(checksum: bytes) -> bytes:
    """A checksum as Delta Lake writes it on Spark up to 4.1.

    On Spark 4.2 it lists files that it has read from a checkpoint with empty tags, where neither the commit nor the
    checkpoint has any.
    """
    return checksum.replace(b',"tags":{}', b"")


def committed_verbatim(catalog: Catalog, name: str, commits: Mapping[int, bytes]) -> Iterator[int]:
    """Commit what another writer wrote after version 0 as it is; each version, once it is committed."""
    for version, data in sorted(commits.items()):
        if version > 0:
            with catalog.transaction() as tx:
                tx.stage_lines(name, data, at_version=version)
            yield version


def begin_table(catalog: Catalog, name: str, first: bytes, *, location: str | None = None) -> None:
    """A table whose version 0 is the commit of another writer, stored untouched."""
    actions = decode_commit(first)
    with catalog.database.write() as session:
        table_id = int(session.execute(select(func.coalesce(func.max(tables.c.table_id), 0))).scalar_one()) + 1
        place = location or f"file:///nowhere/{name}"
        insert_table(session, table_id, name=name, location=place, created_at=0)
        session.execute(insert(heads), {"table_id": table_id, "committed_at": 0, **_BEFORE_FIRST})
        protocol, metadata = _of(actions, Protocol), _of(actions, Metadata)
        state = TableState.of(
            protocol,
            metadata,
            table_id=table_id,
            name=name,
            location=place,
            committed_at=0,
            lineage=0,
            **_BEFORE_FIRST,
        )
        change = Change(table=name, lines=first.splitlines(keepends=True), at_version=0)
        draft = draft_of(change, state, actions, first)
        ratify(session, draft, Head(-1, 0, -1, -1), time=1, txn_id=f"first-{name}", engine_info="")


def _of(actions: list[Action], kind: type[A]) -> A:
    for action in actions:
        if isinstance(action, kind):
            return action
    raise InvalidAction(f"the log begins without {kind.__name__}", rule="log.first", action=kind.__name__)
