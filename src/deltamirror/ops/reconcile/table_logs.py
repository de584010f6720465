"""The logs of a ``MirrorEngine``'s tables, compared by the process that has the turn."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Self

from deltamirror.config import settings_for
from deltamirror.deltalog.pointer import POINTER_KEY
from deltamirror.errors import DeltaMirrorError, LeaseLost, Refused
from deltamirror.ops.reconcile.aside import remove_link, set_aside
from deltamirror.ops.reconcile.checksums import write_checksums
from deltamirror.ops.reconcile.examination import Findings, Look, examine
from deltamirror.ops.reconcile.shortcuts import Misleading
from deltamirror.pipeline.failures.policy import way_out
from deltamirror.pipeline.run.inspection import Inspector
from deltamirror.pipeline.service.engine import PublishingEngine
from deltamirror.pipeline.service.turns import Turns
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.location import store_prefix
from deltamirror.storage.store import Meta, Obstacle, Store
from deltamirror.txnlog.content.state import in_force
from deltamirror.txnlog.queue.expected_objects import KeptLog
from deltamirror.txnlog.queue.findings import Turn
from deltamirror.txnlog.tables.registry import MirrorState

_log = logging.getLogger(__name__)


class Logs:
    """Compares logs, in turns with the other processes that do. A turn is kept for as long as it takes.

    Engine and inspector stay the caller's.
    """

    def __init__(self, engine: PublishingEngine, inspector: Inspector) -> None:
        self.engine = engine
        self.inspector = inspector
        self._judged: dict[int, frozenset[Meta]] = {}
        self._turns = Turns(engine.database, engine.live, owner=engine.owner)

    def __enter__(self) -> Self:
        self._turns.__enter__()
        return self

    def __exit__(self, *outcome: object) -> None:
        self._turns.__exit__(*outcome)

    def store(self, log: KeptLog) -> Store:
        """The store that a log is in."""
        return self.inspector.store(self.address(log))

    def address(self, log: KeptLog) -> StoreAddress:
        """Where a log is, for this process and for others."""
        return StoreAddress.of(log.location, self.engine.settings.storage)

    def require_mirrored(self, table: str) -> None:
        """Refuse a table that is paused or in quarantine."""
        (status,) = self.engine.status(table)
        if status.state is not MirrorState.ACTIVE:
            shows = f"config show --table {table}" if status.is_disabled else f"status {table}"
            hint = way_out(status) if status.state is MirrorState.QUARANTINED else f"`deltamirror {shows}` shows why"
            raise Refused(f"table {table!r} is not mirrored: it is {status.state}", hint=hint, table=table)

    def is_left_alone(self, log: KeptLog) -> bool:
        """Whether the circuit of a log's store is open, and no probe is due."""
        prefix, gate = store_prefix(log.location), self.engine.breakers.gate()
        return prefix in gate.shut and prefix not in gate.tried

    def examine(self, log: KeptLog, look: Look) -> Findings:
        """What is not in a log as it should be."""
        with self.engine.breakers.looking(log.location):
            known = self._judged.pop(log.table_id, frozenset())
            look = replace(look, judged=known, writes_checksums=partial(self._writes_checksums, log))
            findings = examine(self.engine.database, log, self.inspector, self.address(log), look)
            self._judged[log.table_id] = findings.judged
            return findings

    def write_checksums(self, log: KeptLog, findings: Findings) -> int:
        """Write the version checksums that a log should have, and does not; how many."""
        return write_checksums(self.engine.database, log, self.store(log), findings.checksums)

    def set_aside(self, log: KeptLog, findings: Findings, turn: Turn, *, waits: bool) -> tuple[str, ...]:
        """Move what misleads readers to where no reader looks, the pointer first; where it is kept.

        To be done before checkpoints are recorded as lost: one that is written again may have another name, and the
        next comparison finds by the recorded name alone that one is gone which was moved, and not taken back.
        One that cannot be moved keeps no other from it: it is an obstacle from then on. ``LeaseLost`` if another
        process writes a checkpoint, and so the pointer, at once or after waiting for a while.
        """
        wrong = sorted(findings.misleading, key=lambda each: each.meta.key != POINTER_KEY)
        kept = list[str]()
        for each in wrong:
            turn.require()
            try:
                place = self._out_of_sight(log, each, waits=waits)
            except DeltaMirrorError as error:
                if error.retryable or isinstance(error, LeaseLost):
                    raise
                what = f"{each.reason}, and cannot be moved aside: {error.message}"
                findings.obstacles.append(Obstacle(each.meta.key, what, is_link=False))
                continue
            if place is None:
                continue
            kept.append(place)
            fields = {"table": log.name, "table_id": log.table_id, "version": each.version}
            told = f"it is moved to {place}" if place else "it is taken away"
            _log.warning("%s in the log of table %r %s; %s", each.meta.key, log.name, each.reason, told, extra=fields)
        return tuple(filter(None, kept))

    def _out_of_sight(self, log: KeptLog, found: Misleading, *, waits: bool) -> str | None:
        if found.is_link:
            remove_link(self.store(log), found.meta.key)
            return ""
        if found.meta.key != POINTER_KEY:
            return set_aside(self.store(log), found.meta)
        with self._turns.without_checkpoints(log.table_id, log.name, waits=waits):
            return set_aside(self.store(log), found.meta)

    @contextmanager
    def turn(self, log: KeptLog, *, waits: bool) -> Iterator[Turn]:
        """A turn at a log; ``LeaseLost`` if another process has it, at once or after waiting for a while."""
        self.engine.breakers.require(log.location)
        with self._turns.at(log.table_id, log.name, waits=waits) as lease:
            turn = Turn(self.engine.database, lease, seconds=self._turns.seconds)
            yield turn
            if turn.is_over:
                self._turns.forget(lease)

    def _writes_checksums(self, log: KeptLog) -> bool:
        with self.engine.database.read() as connection:
            _, metadata = in_force(connection, log.table_id, log.head)
        return settings_for(self.engine.settings, log.name, metadata.configuration).mirror.checksums
