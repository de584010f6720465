"""What goes wrong in a schedule, by the kinds of a plan's events."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Final

from deltamirror.delta.names import LAST_CHECKPOINT, LOG_DIRECTORY, Commit, commit_name, parse
from deltamirror.storage.store import Meta
from tests.simulation.actors import Actor
from tests.simulation.guarantees import Observer, SeenTable
from tests.simulation.plans import OF_ONE_TABLE, Event
from tests.simulation.strands import Process
from tests.simulation.world import Trouble, World

_FLAKY: Final = ("away", "lost", "lost", "late", "late", "phantom", "throttled", "transient", "denied", "full")

_PARTS: Final = (
    frozenset[str](),
    frozenset({"create", "replace", "put", "delete", "copy", "sweep"}),
    frozenset({"list", "folders"}),
    frozenset({"read", "head"}),
)
"""All that a store does, and parts of it."""

_UUID: Final = "3a0d65cd-4056-49b8-937b-95f9e3ee90e5"
_MISLEADING: Final = (
    LAST_CHECKPOINT,
    "{0:020}.checkpoint.parquet",
    f"{{0:020}}.checkpoint.{_UUID}.parquet",
    f"{{0:020}}.checkpoint.{_UUID}.json",
    "{0:020}.crc",
    "{1:020}.{0:020}.compacted.json",
)
"""What readers go by beside commits."""

_LACKS_ITS_SIDECAR: Final = (
    b'{"checkpointMetadata":{"version":1}}\n{"sidecar":{"path":"gone.parquet","sizeInBytes":7,"modificationTime":1}}\n'
)


class Chaos:
    """Lets the events of a plan happen, each before its step."""

    def __init__(self, world: World, observer: Observer, actors: Sequence[Actor], events: Sequence[Event]) -> None:
        self._world, self._observer, self._actors = world, observer, actors
        self._waiting = sorted(events, key=lambda event: event.at, reverse=True)
        self._planned: list[tuple[int, Callable[[], None]]] = []

    def before_step(self, step: int) -> None:
        """Whatever is due."""
        while self._waiting and self._waiting[-1].at <= step:
            self.happen(self._waiting.pop())
        for due, act in [each for each in self._planned if each[0] <= step]:
            self._planned.remove((due, act))
            act()

    def happen(self, event: Event) -> None:
        """One event."""
        self._world.schedule.note(f"{event.kind} {event.target} {event.amount}")
        getattr(self, event.kind)(event)

    @property
    def is_over(self) -> bool:
        """Whether all has happened."""
        return not self._waiting and not self._planned

    def end(self) -> None:
        """Nothing goes wrong any more; whoever is down comes back."""
        self._waiting.clear()
        self._planned.clear()
        self._world.end_troubles()
        self._world.doomed_writers.clear()
        self._world.doomed_putters.clear()
        for actor in self._actors:
            actor.process.is_suspended = False
            if not actor.process.is_alive:
                actor.start()

    # Processes

    def crash(self, event: Event) -> None:
        """A process is killed, and started again some steps later."""
        actor = self._actor(event)
        if actor.process.is_alive:
            self._world.schedule.kill(actor.process)
            self._later(event, actor.start)

    def crash_after_write(self, event: Event) -> None:
        """A process is killed as soon as it has committed something to the database, before it hears of it."""
        self._doom(event, self._world.doomed_writers)

    def crash_after_put(self, event: Event) -> None:
        """A process is killed as soon as it has put an object, before it hears of it."""
        self._doom(event, self._world.doomed_putters)

    def suspend(self, event: Event) -> None:
        """A process stands still for some steps."""
        process = self._actor(event).process
        process.is_suspended = True
        self._later(event, lambda: setattr(process, "is_suspended", False))

    # Time

    def elapse(self, event: Event) -> None:
        """Nobody does anything for some seconds."""
        self._world.schedule.now += event.amount

    def pass_days(self, event: Event) -> None:
        """Nobody does anything for some days."""
        self._world.schedule.now += event.amount * 86_400

    def set_clock(self, event: Event) -> None:
        """The clock of the database is set."""
        self._world.offset += event.amount

    # Stores and the database

    def store_down(self, event: Event) -> None:
        """No store answers."""
        self._trouble(self._world.bucket, ["away"], 100, event)

    def store_flaky(self, event: Event) -> None:
        """Every third request to a store fails, or seems to."""
        self._trouble(self._world.bucket, _FLAKY, 33, event)

    def table_down(self, event: Event) -> None:
        """One table cannot be written."""
        self._trouble(self._table(event).location, ["away", "denied", "full"], 100, event)

    def table_hangs(self, event: Event) -> None:
        """No call to one table comes back, as on a dead mount; or no call that writes."""
        self._trouble(self._table(event).location, ["hangs"], 100, event, only=_PARTS[event.target % len(_PARTS)])

    def store_partial(self, event: Event) -> None:
        """A store does some things, and others not: it is read and not written, or written and not listed."""
        parts = _PARTS[1:]
        kinds = ["away", "denied", "full", "transient"]
        self._trouble(self._world.bucket, kinds, 100, event, only=parts[event.target % len(parts)])

    def neighbour(self, event: Event) -> None:
        """One table is in trouble from here on, of one kind: always, or every other time."""
        table, kind = self._table(event), OF_ONE_TABLE[event.amount % len(OF_ONE_TABLE)]
        percent = 100 if event.amount < len(OF_ONE_TABLE) else 50
        self._world.troubles.stores.append((f"{table.location}/", Trouble([kind], percent, sys.maxsize)))
        self._observer.in_trouble.add(table.table_id)

    def database_down(self, event: Event) -> None:
        """The database does not answer."""
        self._world.troubles.database.append(Trouble(["away"], 100, self._until(event)))

    def database_flaky(self, event: Event) -> None:
        """Some transactions fail, and some only seem to."""
        self._world.troubles.database.append(Trouble(["away", "lost", "lost"], 30, self._until(event)))

    # Logs

    def foreign_commit(self, event: Event) -> None:
        """Somebody else commits after the newest version in the log, or, if it is lost there, in its place."""
        table = self._table(event)
        if version := self._newest(table) + 1:
            self._put(table, f"{LOG_DIRECTORY}/{commit_name(version)}", _foreign(table, version, event.amount))

    def lose_commit(self, event: Event) -> None:
        """Somebody deletes a commit."""
        self._lose(event, self._commits(self._table(event)))

    def alter_commit(self, event: Event) -> None:
        """Somebody changes a commit."""
        table, found = self._table(event), self._commits(self._table(event))
        if found:
            self._put(table, found[event.amount % len(found)].key, b'{"commitInfo":{"operation":"altered"}}\n')

    def lose_checkpoint(self, event: Event) -> None:
        """Somebody deletes a checkpoint."""
        self._lose(event, [meta for meta in self._listed(self._table(event)) if ".checkpoint." in meta.key])

    def lose_checksum(self, event: Event) -> None:
        """Somebody deletes a version checksum."""
        self._lose(event, [meta for meta in self._listed(self._table(event)) if meta.key.endswith(".crc")])

    def lose_pointer(self, event: Event) -> None:
        """Somebody deletes the pointer."""
        self._lose(event, [meta for meta in self._listed(self._table(event)) if meta.key.endswith(LAST_CHECKPOINT)])

    def mislead(self, event: Event) -> None:
        """Somebody puts what readers go by, and what says something else than the commits, at one of the last versions.

        Or above them, where a commit of ours may come later.
        """
        table = self._table(event)
        version = self._newest(table) - 2 + event.amount // len(_MISLEADING)
        kind = _MISLEADING[event.amount % len(_MISLEADING)]
        if version > table.log_start:
            name = kind.format(version, version - 1)
            self._put(table, f"{LOG_DIRECTORY}/{name}", self._wrong(table, kind, version))

    def repair(self, event: Event) -> None:
        """The operator comes early."""
        operator = self._actors[-1]
        if operator.process.is_done:
            operator.start()

    def _actor(self, event: Event) -> Actor:
        return self._actors[event.target % len(self._actors)]

    def _doom(self, event: Event, doomed: dict[Process, Callable[[], None]]) -> None:
        actor = self._actor(event)
        doomed[actor.process] = lambda: self.crash(event) if actor.process.is_alive else None

    def _table(self, event: Event) -> SeenTable:
        tables = list(self._observer.tables.values())
        return tables[event.target % len(tables)]

    def _until(self, event: Event) -> int:
        return self._world.schedule.steps + event.amount

    def _later(self, event: Event, act: Callable[[], None]) -> None:
        self._planned.append((self._until(event), act))

    def _trouble(
        self, prefix: str, kinds: Sequence[str], percent: int, event: Event, *, only: frozenset[str] = frozenset()
    ) -> None:
        self._world.troubles.stores.append((prefix, Trouble(kinds, percent, self._until(event), only)))

    def _listed(self, table: SeenTable) -> list[Meta]:
        return list(self._world.store(table.location).list(LOG_DIRECTORY))

    def _commits(self, table: SeenTable) -> list[Meta]:
        return [meta for meta in self._listed(table) if isinstance(parse(meta.key.rpartition("/")[2]), Commit)]

    def _newest(self, table: SeenTable) -> int:
        """The newest version in the log; -1 where it has none."""
        return max((int(meta.key.rpartition("/")[2][:20]) for meta in self._commits(table)), default=-1)

    def _lose(self, event: Event, found: Sequence[Meta]) -> None:
        if found:
            location, key = self._table(event).location, found[event.amount % len(found)].key
            store = self._world.store(location)
            self._world.apply(location, "delete", key, lambda: store.delete([key]), ours=False)

    def _wrong(self, table: SeenTable, kind: str, version: int) -> bytes:
        """What such an object might hold: the state of another version, a version that is not there, or no state."""
        if kind == LAST_CHECKPOINT and version % 3:
            return json.dumps({"version": version, "size": 3}).encode()
        if ".checkpoint." in kind and kind.endswith(".json"):
            return _LACKS_ITS_SIDECAR
        others = [meta.key for meta in self._listed(table) if f"{version:020}" not in meta.key]
        theirs = [key for key in others if key.endswith(".checkpoint.parquet")]
        if kind.endswith(".parquet") and theirs and (found := self._world.store(table.location).read(theirs[-1])):
            return found.data
        return b"{" if version % 2 else b"nothing"

    def _put(self, table: SeenTable, key: str, data: bytes) -> None:
        store = self._world.store(table.location)
        self._world.apply(table.location, "put", key, lambda: store.put(key, data), ours=False)


def _foreign(table: SeenTable, version: int, number: int) -> bytes:
    """A commit as another writer makes it."""
    time = max(each.committed_at for each in table.versions) + 1 + version
    info = {"inCommitTimestamp": time, "timestamp": time, "operation": "WRITE", "txnId": f"foreign-{version}-{number}"}
    file = {"path": f"foreign-{version}-{number}.parquet", "partitionValues": {}, "size": 7, "modificationTime": 1}
    lines = [{"commitInfo": info}, {"add": {**file, "dataChange": True}}]
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()
