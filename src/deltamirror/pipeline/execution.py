"""Running one unit, in whatever process: its store, its lines, its right to go on. Nothing but an outcome comes out."""

import threading
import time
from collections.abc import Iterator

from deltamirror.config import redact_text
from deltamirror.delta.chunks import Chunk
from deltamirror.errors import DeltaMirrorError, Internal, InvalidSettings, LeaseLost
from deltamirror.mirror.checkpoint.publish import publish_checkpoint
from deltamirror.mirror.commits import publish_commits
from deltamirror.storage.open import StoreAddress, open_store
from deltamirror.storage.probe import probe
from deltamirror.storage.store import Store
from deltamirror.txnlog.backlog import fetch_chunks
from deltamirror.txnlog.database import Database
from deltamirror.txnlog.leases import holds
from deltamirror.work import CheckpointOutcome, CommitOutcome, CommitUnit, CommitWork, Failure, Outcome, Stage, Unit

__all__ = ["Resources", "execute", "failed"]


class Resources:
    """What the units of one process share: the database, where it can be reached, and stores that keep their promises.

    Safe to share between threads.
    """

    def __init__(self, database: Database | None) -> None:
        self.database = database
        self._stores: dict[StoreAddress, Store] = {}
        self._lock = threading.Lock()
        self._probed: set[tuple[str, str | None]] = set()

    def store(self, address: StoreAddress) -> Store:
        """The store at an address. A remote one that lets two writers win is refused before anything is published."""
        with self._lock:
            found = self._stores.get(address)
        if found is None:
            found = open_store(address)
            self._require_promises(address, found)
            with self._lock:
                self._stores[address] = found
        return found

    def _require_promises(self, address: StoreAddress, store: Store) -> None:
        scheme, _, rest = address.location.partition("://")
        bucket = (f"{scheme}://{rest.partition('/')[0]}", address.options.endpoint)
        if scheme != "file" and bucket not in self._probed:
            probe(store)
            self._probed.add(bucket)


def execute(unit: Unit, resources: Resources, *, abandoned: threading.Event | None = None) -> Outcome:
    """Do the work of a unit. ``abandoned`` is set when nobody waits for it any more: then it puts nothing further."""
    work = _Execution(unit, resources, abandoned or threading.Event())
    try:
        store = resources.store(unit.address)
        if isinstance(unit, CommitUnit):
            return publish_commits(unit, store, fetch=work.chunks, guard=work.require_lease)
        return publish_checkpoint(unit, store, fetch=work.chunks, guard=work.require_lease)
    except DeltaMirrorError as error:
        return failed(unit, error)
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is this unit's trouble and nobody else's
        return failed(unit, Internal(redact_text(f"a unit of table {unit.table!r}: {type(error).__name__}: {error}")))


def failed(unit: Unit, error: DeltaMirrorError) -> Outcome:
    """The outcome of a unit that did nothing; one that lost its lease has not failed."""
    lost = isinstance(error, LeaseLost)
    if isinstance(unit, CommitUnit):
        failure = Failure(error=error, stage=Stage.OPEN, version=unit.commits[0].version)
        return CommitOutcome(table_id=unit.table_id, lease=unit.lease, failure=None if lost else failure)
    failure = Failure(error=error, stage=Stage.OPEN, version=unit.version)
    return CheckpointOutcome(table_id=unit.table_id, lease=unit.lease, version=unit.version, failure=failure)


class _Execution:
    """Where a unit gets its lines from, and who says whether it may go on."""

    def __init__(self, unit: Unit, resources: Resources, abandoned: threading.Event) -> None:
        self._unit = unit
        self._database = resources.database
        self._abandoned = abandoned

    def chunks(self, work: CommitWork) -> Iterator[Chunk]:
        """The chunks that a commit carries, or those that the database has."""
        if work.chunks is not None:
            yield from work.chunks
            return
        with self._required().read() as connection:
            yield from fetch_chunks(connection, work)

    def require_lease(self) -> None:
        """The database's word on the lease; where it cannot be asked, the time that the lease was given for."""
        lease = self._unit.lease
        if self._abandoned.is_set():
            raise LeaseLost(f"nobody waits for this unit of table {self._unit.table!r}", table=self._unit.table)
        if self._database is None:
            held = time.time() < lease.held_until
        else:
            with self._database.read() as connection:
                held = holds(connection, lease)
        if not held:
            raise LeaseLost(f"the lease of table {self._unit.table!r} has ended", table=self._unit.table)

    def _required(self) -> Database:
        if self._database is None:
            raise InvalidSettings(
                "the executor cannot reach the catalog's database",
                hint="set DELTAMIRROR_CATALOG__URL for the workers, or spark.lines to carried",
                key="catalog.url",
            )
        return self._database
