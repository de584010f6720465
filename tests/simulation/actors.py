"""Who takes part in a schedule: writers, services, an operator. Each lives in a process, and may be started again."""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Final

from deltamirror import Catalog, MirrorEngine
from deltamirror.catalog.transaction import Transaction
from deltamirror.config import Settings
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.errors import (
    Conflict,
    DeltaMirrorError,
    Diverged,
    InvalidInput,
    NotFound,
    Refused,
    Transient,
    Unavailable,
    Unsupported,
)
from deltamirror.ops.adopt.adoption import adopt
from deltamirror.ops.reconcile.repair import repair
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.txnlog.commit.request import Committed
from deltamirror.wiring import open_logs
from tests.simulation.guarantees import EVERYWHERE, Observer, SeenTable
from tests.simulation.plans import Operation
from tests.simulation.strands import Process
from tests.simulation.world import World
from tests.support.lakes.lake import add

_PAUSE: Final = 8.0
_CONFLICTS: Final = 4


class Actor(ABC):
    """Somebody with a process."""

    def __init__(self, world: World, observer: Observer, settings: Settings, name: str) -> None:
        self._world, self._observer, self._settings, self.name = world, observer, settings, name
        self._lots = random.Random(f"{name} {world.lots.random()}")
        self._lives = 0
        self.process = Process(name)

    def start(self) -> None:
        """Begin, or begin again after a crash."""
        self._lives += 1
        self.process = Process(self.name if self._lives == 1 else f"{self.name}'{self._lives}")
        self._world.schedule.spawn("main", self.run, self.process)

    @property
    def is_finished(self) -> bool:
        """Whether it has done all that it came for."""
        return True

    @abstractmethod
    def run(self) -> None:
        """Its main thread."""

    def stop(self) -> None:  # noqa: B027 - most come to an end by themselves
        """Ask it to come to an end."""


class Service(Actor):
    """``deltamirror mirror --follow``."""

    _engine: MirrorEngine | None = None
    _is_stopped = False

    def start(self) -> None:
        """Begin, or begin again after a crash, or after it was stopped."""
        self._engine, self._is_stopped = None, False
        super().start()

    def run(self) -> None:
        """Until it is stopped."""
        with MirrorEngine(settings=self._settings) as engine:
            self._engine = engine
            if not self._is_stopped:
                engine.run()

    def stop(self) -> None:
        """As a signal does."""
        self._is_stopped = True
        if self._engine is not None:
            self._engine.stop()


class Operator(Actor):
    """Looks after tables that are in quarantine, once in a while."""

    def __init__(self, world: World, observer: Observer, settings: Settings, name: str, *, adopts: bool) -> None:
        super().__init__(world, observer, settings, name)
        self._adopts, self._is_wanted = adopts, True

    def run(self) -> None:
        """Until nobody wants it."""
        with MirrorEngine(settings=self._settings) as engine, open_logs(engine) as logs:
            while self._is_wanted:
                for table in list(self._observer.tables.values()):
                    if table.is_quarantined:
                        self._look_after(logs, table)
                self._world.schedule.sleep(_PAUSE)

    def stop(self) -> None:
        """It goes."""
        self._is_wanted = False

    def _look_after(self, logs: Logs, table: SeenTable) -> None:
        try:
            self._repair(logs, table)
        except DeltaMirrorError as error:
            self._world.schedule.note(f"the operator fails at {table.name}: {error}")

    def _repair(self, logs: Logs, table: SeenTable) -> None:
        try:
            repair(logs, table.name, replace_altered=True)
        except NotFound:  # all of its objects are lost for good
            repair(logs, table.name, begin_anew=True)
        except Diverged as diverged:
            if not self._adopts or not self._adopt(logs, table.name):
                self._move_away(table.location, diverged.version)

    def _adopt(self, logs: Logs, table: str) -> bool:
        """Take their commits in; False where that is impossible, so that they have to go."""
        try:
            done = adopt(logs, table, drop_conflicting=True, split_transactions=True)
        except (Diverged, InvalidInput, Refused, Unsupported) as error:
            self._world.schedule.note(f"{table} is not adopted: {error}")
            return False
        self._world.schedule.note(f"adopted {done}")
        return True

    def _move_away(self, location: str, version: int | None) -> None:
        """Commits of somebody else go, from this one on."""
        store, first = self._world.store(location), f"{LOG_DIRECTORY}/{commit_name(version or 0)}"
        theirs = [meta.key for meta in store.list(LOG_DIRECTORY) if (location, meta.key) in self._observer.touched]
        for key in theirs:
            if key >= first and key.endswith(".json"):
                self._world.apply(location, "delete", key, partial(store.delete, [key]), ours=False)


class Writer(Actor):
    """Commits one transaction after the other. What it does not know the fate of, it sends again, if it can."""

    def __init__(
        self, world: World, observer: Observer, settings: Settings, name: str, operations: Sequence[Operation]
    ) -> None:
        super().__init__(world, observer, settings, name)
        self._operations = operations
        self._done = self._attempt = 0
        self._chosen: str | None = None
        """The file that is removed; written down before anything is sent, as the rest is."""
        self._is_sent = False

    @property
    def is_finished(self) -> bool:
        """Whether it has committed, or given up, everything."""
        return self._done >= len(self._operations)

    def run(self) -> None:
        """Until it is finished. What was under way at a crash is sent again, if the log would know it again."""
        catalog = Catalog(settings=self._settings)
        if self._is_sent and not self._operations[self._done].retried:
            self._next()
        while not self.is_finished:
            operation = self._operations[self._done]
            try:
                self._send(catalog, operation)
            except (Diverged, Transient, Unavailable) as error:
                self._world.schedule.note(f"{self.name} does not know: {error}")
                if operation.retried:
                    self._world.schedule.sleep(self._lots.uniform(0, _PAUSE))
                else:
                    self._next()
            except DeltaMirrorError as error:
                self._observer.refused(self._files(operation))
                self._world.schedule.note(f"{self.name} was refused: {error}")
                self._refused(error)

    def _send(self, catalog: Catalog, operation: Operation) -> None:
        if operation.kind in ("remove", "rewrite") and self._chosen is None:
            self._chosen = self._choose(catalog, operation)
            if self._chosen is None:
                self._next()
                return
        self._is_sent = True
        token = f"{self.name}-{self._done}-{self._attempt}" if operation.retried == "token" else None
        with catalog.transaction(token=token) as transaction:
            self._fill(transaction, operation)
        self._answered(operation, transaction.result)

    def _answered(self, operation: Operation, committed: Committed) -> None:
        if operation.kind == "unknown":
            raise AssertionError("G8: a table feature that nobody knows was committed")
        self._observer.acknowledged(self._files(operation), committed.versions)
        self._next()

    def _refused(self, error: DeltaMirrorError) -> None:
        if not isinstance(error, Conflict | InvalidInput | Unsupported):
            raise error
        self._attempt, self._chosen, self._is_sent = self._attempt + 1, None, False
        if self._attempt > _CONFLICTS or isinstance(error, Unsupported):
            self._next()

    def _next(self) -> None:
        self._done, self._attempt, self._chosen, self._is_sent = self._done + 1, 0, None, False
        if self._lots.random() < 0.5:
            self._world.schedule.sleep(self._lots.uniform(0, _PAUSE))

    def _choose(self, catalog: Catalog, operation: Operation) -> str | None:
        table = self._tables(operation)[0]
        found = sorted(catalog.table(table).snapshot().files().column("path").to_pylist())
        own = [path for path in found if not path.startswith(EVERYWHERE)]
        return self._lots.choice(own[:2]) if own else None

    def _fill(self, transaction: Transaction, operation: Operation) -> None:
        for table in self._tables(operation):
            match operation.kind:
                case "append":
                    transaction.append(table, [add(file) for file in self._files(operation)])
                case "remove":
                    transaction.remove(table, [self._chosen or ""])
                case "rewrite":
                    transaction.remove(table, [self._chosen or ""])
                    transaction.append(table, [add(file) for file in self._files(operation)])
                case "property":
                    transaction.set_metadata(table, properties={"k": f"{self.name}-{self._done}"})
                case "unknown":
                    transaction.upgrade_protocol(table, "mysteryFeature")
            if operation.retried == "app":
                transaction.set_transaction(table, self.name, self._done * 10 + self._attempt)

    def _tables(self, operation: Operation) -> list[str]:
        names = [table.name for table in self._observer.tables.values()]
        return names if operation.table < 0 else [names[operation.table % len(names)]]

    def _files(self, operation: Operation) -> list[str]:
        if operation.kind not in ("append", "rewrite"):
            return []
        prefix = EVERYWHERE if operation.table < 0 else ""
        stem = f"{prefix}{self.name}-{self._done}-{self._attempt}"
        return [f"{stem}-{number}.parquet" for number in range(operation.files)]
