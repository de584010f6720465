"""``SqlTxnLogWriter``: the authoritative log, in SQL."""

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from sqlalchemy import case, func, select

from deltamirror.config import LiveSettings, Settings
from deltamirror.delta.actions import Action, Metadata
from deltamirror.delta.definition import TableDefinition
from deltamirror.delta.properties import log_retention_ms
from deltamirror.errors import DeltaMirrorError, Internal, NotFound
from deltamirror.telemetry import metrics, spans
from deltamirror.txnlog.commit.app_transactions import AppProgress, find_applied
from deltamirror.txnlog.commit.committing import Committing, find_token
from deltamirror.txnlog.commit.known_tables import KnownTables
from deltamirror.txnlog.commit.request import Change, Committed, Operation, Request
from deltamirror.txnlog.commit.staging import sweep_stages
from deltamirror.txnlog.content.state import TableState
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import versions
from deltamirror.txnlog.tables.creation import create_table
from deltamirror.txnlog.tables.registry import TableInfo, drop_table, rename_table


class SqlTxnLogWriter:
    """Commits Delta transactions to a SQL database; see :class:`deltamirror.txnlog.contract.TxnLogWriter`.

    Safe to share between threads. Every process has its own.
    """

    def __init__(self, database: Database, settings: Settings | LiveSettings, *, engine_info: str) -> None:
        self.database = database
        self._engine_info = engine_info
        self._live = LiveSettings.of(settings)
        self._tables = KnownTables(database)

    def begin(self, *, token: str | None = None) -> "SqlTransaction":
        """Open a transaction."""
        return SqlTransaction(self, token)

    def commit(self, request: Request) -> Committed:
        """Commit a transaction: all of its changes, or none."""
        return _measured(lambda: self._committing(request).run())

    def _committing(self, request: Request) -> Committing:
        return Committing(request, self.database, self._tables, self._live.current, engine_info=self._engine_info)

    def find_token(self, token: str | None, content: bytes | None, tables: Collection[str]) -> Committed | None:
        """The answer to an earlier use of a token; TokenReused if that was for other content."""
        return None if token is None or content is None else find_token(self.database, token, content, tables)

    def find_applied(
        self, app_versions: Mapping[str, Mapping[str, int]], at_versions: Mapping[str, int | None] | None = None
    ) -> Committed | None:
        """The answer for a transaction whose application versions, by table, are recorded already.

        ``at_versions`` are the versions that it names for itself.
        """
        if not any(app_versions.values()):
            return None
        progress = [
            AppProgress(name, self.state(name).table_id, each, (at_versions or {}).get(name))
            for name, each in app_versions.items()
        ]
        with self.database.read() as connection:
            return find_applied(connection, progress)

    def commit_at(
        self, table: str, version: int, actions: Iterable[Action], *, operation: Operation | None = None
    ) -> Committed:
        """Commit to one table at exactly this version."""
        change = Change(table=table, actions=actions, at_version=version, operation=operation or Operation())
        return self.commit(Request(changes=(change,)))

    def create_table(self, definition: TableDefinition, *, compared: Collection[str] | None = None) -> Committed:
        """Create a table; ``PlacesMoved`` where there are tables on disk at other locations than were ``compared``."""
        begun, txn_id = time.time_ns(), str(uuid.uuid4())
        act = partial(create_table, self.database, definition, txn_id=txn_id, engine_info=self._engine_info)
        committed = _measured(partial(act, compared=compared))
        spans.committed(txn_id, committed.versions, begun=begun)
        self._tables.forget(definition.name)  # the remembered state is of another table
        self.database.announce()
        return committed

    def drop_table(self, name: str, *, unpublished: bool = False) -> None:
        """Forget a table."""
        drop_table(self.database, name, unpublished=unpublished)
        self._tables.forget(name)

    def rename_table(self, name: str, new_name: str) -> TableInfo:
        """Give a table another name."""
        renamed = rename_table(self.database, name, new_name)
        self._tables.forget(name)
        self._tables.forget(new_name)
        return renamed

    def state(self, name: str, *, remembered: bool = False) -> TableState:
        """A table at its head; ``remembered`` if an earlier sight of it is as good."""
        return self._tables.state(name, remembered=remembered)

    def exists(self, name: str) -> bool:
        """Whether there is a table of this name."""
        try:
            self.state(name)
        except NotFound:
            return False
        return True

    def metadata(self, name: str) -> Metadata:
        """The metadata of a table at its head."""
        return self.state(name).metadata

    def next_version(self, name: str) -> int:
        """The version that the next commit gets, if no other writer comes first."""
        return self.state(name).version + 1

    def retained_from(self, name: str) -> int:
        """The oldest version that was current at some time inside of ``delta.logRetentionDuration``."""
        state, c = self.state(name), versions.c
        with self.database.read() as connection:
            clock = int(connection.execute(select(CLOCK)).scalar_one())
            newest_expired = func.max(case((c.committed_at <= clock - log_retention_ms(state.metadata), c.version)))
            found = select(func.coalesce(newest_expired, func.min(c.version))).where(c.table_id == state.table_id)
            return int(connection.execute(found).scalar_one())

    def optimise(self, *, older_than: float) -> int:
        """Delete stages whose writers died."""
        return sweep_stages(self.database, older_than=older_than)


def _measured(commit: Callable[[], Committed]) -> Committed:
    begun, outcome = time.perf_counter(), "interrupted"
    try:
        committed = commit()
        outcome = "already-applied" if committed.already_applied else "committed"
        return committed
    except DeltaMirrorError as error:
        outcome = error.code
        raise
    except Exception:
        outcome = Internal.code
        raise
    finally:
        metrics.observe_commit(time.perf_counter() - begun, outcome=outcome)


class SqlTransaction:
    """A transaction that collects changes until it is committed."""

    def __init__(self, writer: SqlTxnLogWriter, token: str | None) -> None:
        self._writer = writer
        self._token = token
        self._changes: list[Change] = []

    def stage(self, change: Change) -> None:
        """Add what the transaction does to one table."""
        self._changes.append(change)

    def commit(self) -> Committed:
        """Commit all changes, or none."""
        # Their streams are used up by one commit, whatever comes of it.
        changes, self._changes = tuple(self._changes), []
        return self._writer.commit(Request(changes=changes, token=self._token))
