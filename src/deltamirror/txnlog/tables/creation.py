"""Creating a table, with version 0 as its first commit."""

import uuid
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from sqlalchemy import insert, select

from deltamirror.delta.commitinfo import create_table_parameters
from deltamirror.delta.conflicts import ReadSet
from deltamirror.delta.definition import CLUSTERING_DOMAIN, TableDefinition, first_actions
from deltamirror.storage.location import canonical_location
from deltamirror.txnlog.commit.draft import draft_of
from deltamirror.txnlog.commit.ratification import Head, ratify
from deltamirror.txnlog.commit.request import Change, Committed, Operation
from deltamirror.txnlog.content.state import TableState
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import heads
from deltamirror.txnlog.tables.registry import fresh_table_id, insert_table, require_free, require_name

_BEFORE_FIRST: Final = {"version": -1, "metadata_version": -1, "protocol_version": -1}


def create_table(
    database: Database,
    definition: TableDefinition,
    *,
    txn_id: str,
    engine_info: str,
    compared: Collection[str] | None = None,
) -> Committed:
    """Create a table and commit its version 0, in one transaction of this id; ``compared``: see ``require_free``."""
    require_name(definition.name)
    definition = replace(definition, location=canonical_location(definition.location))
    with database.write() as session:
        session.lock_tables()
        require_free(session.connection, name=definition.name, location=definition.location, compared=compared)
        clock = int(session.execute(select(CLOCK)).scalar_one())
        table_id = fresh_table_id(session.connection)
        insert_table(session, table_id, name=definition.name, location=definition.location, created_at=clock)
        session.execute(insert(heads), {"table_id": table_id, "committed_at": 0, **_BEFORE_FIRST})
        return _commit_first(session, table_id, definition, clock=clock, txn_id=txn_id, engine_info=engine_info)


def _commit_first(
    session: Session, table_id: int, definition: TableDefinition, *, clock: int, txn_id: str, engine_info: str
) -> Committed:
    metadata, protocol, *domains = first_actions(definition, created_time=clock, fresh=lambda: str(uuid.uuid4()))
    state = TableState.of(
        protocol,
        metadata,
        table_id=table_id,
        name=definition.name,
        location=definition.location,
        committed_at=0,
        lineage=0,
        **_BEFORE_FIRST,
    )
    parameters = create_table_parameters(
        partition_by=metadata.partition_columns,
        cluster_by=definition.cluster_by,
        description=definition.description,
        properties=metadata.configuration,
    )
    change = Change(
        table=definition.name,
        actions=(metadata, protocol, *domains),
        at_version=0,
        reads=ReadSet.NOTHING,
        operation=Operation(name="CREATE TABLE", parameters=parameters, metrics={}),
        system_domains=frozenset({CLUSTERING_DOMAIN}),
    )
    draft = draft_of(change, state, (metadata, protocol, *domains))
    done = ratify(session, draft, Head(-1, 0, -1, -1), time=clock, txn_id=txn_id, engine_info=engine_info)
    return Committed(versions={definition.name: done.version}, timestamp=done.committed_at)
