"""The contract of a transaction-log writer: what mirrors, tools and tests may rely on, whatever stores the log."""

from collections.abc import Iterable
from typing import Protocol

from deltamirror.delta.actions import Action, Metadata
from deltamirror.delta.definition import TableDefinition
from deltamirror.txnlog.commit.request import Change, Committed, Operation, Request


class OpenTransaction(Protocol):
    """A transaction that collects changes until it is committed."""

    def stage(self, change: Change) -> None:
        """Add what the transaction does to one table."""

    def commit(self) -> Committed:
        """Commit all changes, or none."""


class TxnLogWriter(Protocol):
    """An authoritative log of Delta transactions."""

    def begin(self, *, token: str | None = None) -> OpenTransaction:
        """Open a transaction; a ``token`` makes committing it idempotent."""

    def commit(self, request: Request) -> Committed:
        """Commit a transaction: all of its changes, or none.

        Raises Conflict when another commit came first and Delta's rules do not let this one follow it. A transaction
        that is in the log already (same token, or application transactions at or below the latest) is answered with
        the versions that it got.
        """

    def commit_at(
        self, table: str, version: int, actions: Iterable[Action], *, operation: Operation | None = None
    ) -> Committed:
        """Commit to one table at exactly this version, or raise Conflict."""

    def create_table(self, definition: TableDefinition) -> Committed:
        """Create a table; its version 0 is committed with it."""

    def drop_table(self, name: str, *, unpublished: bool = False) -> None:
        """Forget a table. Data files and ``_delta_log/`` stay. With unpublished versions, only if told so."""

    def exists(self, name: str) -> bool:
        """Whether the log has a table of this name."""

    def metadata(self, name: str) -> Metadata:
        """The metadata of a table at its head."""

    def next_version(self, name: str) -> int:
        """The version that the next commit to a table gets, if no other writer comes first."""

    def retained_from(self, name: str) -> int:
        """The oldest version that the table's retention asks for; the log may forget what lies before it."""

    def optimise(self, *, older_than: float) -> int:
        """Delete orphans: stages whose writers died this many seconds ago. How many there were."""
