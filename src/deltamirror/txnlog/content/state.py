"""What is in force in a table: the facts that a writer has to know before it commits."""

from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, bindparam, func, select
from sqlalchemy.sql import Select

from deltamirror.delta import lines
from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.conflicts import IsolationLevel, table_isolation
from deltamirror.delta.features import require_readable, require_writable, row_tracking
from deltamirror.delta.properties import in_commit_timestamps
from deltamirror.delta.validation import TableRules
from deltamirror.errors import Internal, NotFound, Unsupported
from deltamirror.txnlog.content.near_names import no_such_table
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.schema import heads, metadata, protocols, tables
from deltamirror.txnlog.database.statements import LINEAGE

A = TypeVar("A", Metadata, Protocol)


@dataclass(frozen=True, kw_only=True)
class TableState:
    """A table at its head, as it was when it was read."""

    table_id: int
    name: str
    location: str
    version: int
    committed_at: int
    metadata_version: int
    protocol_version: int
    lineage: int
    protocol: Protocol
    metadata: Metadata
    rules: TableRules
    """What actions have to meet; made once, since a state is kept for many commits."""
    timestamped: bool
    """Whether commits carry in-commit timestamps."""
    tracks_rows: bool
    """Whether adds get row ids."""
    isolation: IsolationLevel
    """The level at which commits are checked, unless they only rearrange data."""
    write_obstacle: Unsupported | None
    """Why commits cannot be authored here: the protocol asks for a feature that we do not know."""

    @classmethod
    def of(cls, protocol: Protocol, metadata: Metadata, **facts: Any) -> "TableState":
        """A state, with what follows from protocol and metadata."""
        obstacle, isolation = None, IsolationLevel.SERIALIZABLE
        try:
            require_writable(protocol, table=facts["name"])
            isolation = table_isolation(metadata)
        except Unsupported as error:
            obstacle = error
        return cls(
            protocol=protocol,
            metadata=metadata,
            rules=TableRules.of(protocol, metadata),
            timestamped=in_commit_timestamps(metadata),
            tracks_rows=row_tracking(metadata, protocol),
            isolation=isolation,
            write_obstacle=obstacle,
            **facts,
        )

    def at(self, version: int, committed_at: int) -> "TableState":
        """The same table after a commit that changed neither metadata nor protocol."""
        # By hand: dataclasses.replace takes a good part of the time of a small commit.
        state = object.__new__(TableState)
        state.__dict__.update(self.__dict__, version=version, committed_at=committed_at)
        return state


_STATE = (
    select(
        tables.c.table_id,
        tables.c.name,
        tables.c.location,
        heads.c.version,
        heads.c.committed_at,
        heads.c.metadata_version,
        heads.c.protocol_version,
        LINEAGE.label("lineage"),
        metadata.c.line.label("metadata_line"),
        protocols.c.line.label("protocol_line"),
    )
    .join(heads, heads.c.table_id == tables.c.table_id)
    .join(metadata, (metadata.c.table_id == tables.c.table_id) & (metadata.c.version == heads.c.metadata_version))
    .join(protocols, (protocols.c.table_id == tables.c.table_id) & (protocols.c.version == heads.c.protocol_version))
    .where(tables.c.name == bindparam("named"))
)


def load_state(database: Database, name: str) -> TableState:
    """The table of this name at its head."""
    rows = database.glance(_STATE, {"named": name})
    if not rows:
        with database.read() as connection:
            raise no_such_table(connection, name)
    facts = dict(zip(_STATE.selected_columns.keys(), rows[0], strict=True))
    table_metadata = decoded_line(facts.pop("metadata_line"), Metadata)
    protocol = decoded_line(facts.pop("protocol_line"), Protocol)
    require_readable(protocol, table=name)
    return TableState.of(protocol, table_metadata, **facts)


def in_force(connection: Connection, table_id: int, version: int) -> tuple[Protocol, Metadata]:
    """Protocol and metadata as of a version."""
    as_of = {"of_table": table_id, "at_version": version}
    protocol = connection.execute(_NEWEST_PROTOCOL, as_of).scalar_one_or_none()
    table_metadata = connection.execute(_NEWEST_METADATA, as_of).scalar_one_or_none()
    if protocol is None or table_metadata is None:
        raise NotFound(
            f"the catalog has no version {version} of the table, whose history begins later",
            hint="`deltamirror table history` shows its versions",
            version=version,
        )
    return decoded_line(protocol, Protocol), decoded_line(table_metadata, Metadata)


def in_force_before(database: Database, table_id: int, version: int) -> tuple[Protocol, Metadata] | None:
    """Protocol and metadata that a version follows on; None where it is the first that the catalog has."""
    try:
        with database.read() as connection:
            return in_force(connection, table_id, version - 1)
    except NotFound:
        return None


def _newest(projection: Table) -> Select[Any]:
    c, own = projection.c, projection.c.table_id == bindparam("of_table")
    newest = select(func.max(c.version)).where(own, c.version <= bindparam("at_version")).scalar_subquery()
    return select(c.line).where(own, c.version == newest)


_NEWEST_PROTOCOL = _newest(protocols)
_NEWEST_METADATA = _newest(metadata)


def decoded_line(line: str, kind: type[A]) -> A:
    """An action as a projection holds it."""
    action = lines.decode(line)
    if not isinstance(action, kind):
        raise Internal(f"a projection holds {lines.wire_name(action)} where {kind.__name__} belongs")
    return action
