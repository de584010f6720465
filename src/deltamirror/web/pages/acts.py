"""What operators do on the page: pause, resume, repair, silence. Each act is logged with its operator's name."""

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from deltamirror.errors import DeltaMirrorError, Refused
from deltamirror.ops.alerts.silencing import exact_patterns, words_of
from deltamirror.ops.engine import MirrorEngine
from deltamirror.ops.reconcile.repair import Repaired, repair
from deltamirror.ops.wording import counted, moment
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.txnlog.alerts import end_silence, silence
from deltamirror.txnlog.queue.pause import pause_all, resume_all
from deltamirror.txnlog.tables.registry import pause_mirror, resume_mirror, table_info
from deltamirror.web.pages.gathering import now_ms
from deltamirror.wiring import open_logs

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 2
_LONG_MS: Final = 60_000
"""A repair that lasts longer leaves its place to others: its store may hang, and theirs may not."""
_MOST: Final = 8
"""Repairs under way, however long they last: each has a thread."""
_REMEMBERED: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairState:
    """A repair that was begun on the page."""

    operator: str
    started_at: int
    ended_at: int | None = None
    outcome: str = ""
    is_good: bool = True


class Operations:
    """Carries out what operators ask for."""

    def __init__(self, engine: MirrorEngine) -> None:
        self._engine, self._lock = engine, threading.Lock()
        self._repairs: OrderedDict[str, RepairState] = OrderedDict()

    def pause(self, table: str, *, operator: str, unpublished: bool) -> str:
        """Stop mirroring a table; what to say about it."""
        pause_mirror(self._engine.database, table, unpublished=unpublished)
        _log.info("%s paused %s", operator, table)
        return f"{table} is paused: commits wait to be published."

    def resume(self, table: str, *, operator: str) -> str:
        """Mirror a table again; what to say about it."""
        resume_mirror(self._engine.database, table)
        _log.info("%s resumed %s", operator, table)
        return f"{table} is mirrored again."

    def pause_all(self, *, operator: str) -> str:
        """Stop mirroring all tables; what to say about it."""
        pause_all(self._engine.database)
        _log.info("%s paused all tables", operator)
        return "All tables are paused: commits wait to be published."

    def resume_all(self, *, operator: str) -> str:
        """Mirror all tables again; what to say about it."""
        resume_all(self._engine.database)
        _log.info("%s resumed all tables", operator)
        return "Tables are mirrored again, but for those that were paused one by one."

    def silence(self, rule: str, subject: str, *, seconds: float, reason: str, operator: str) -> str:
        """Let no notification be sent of a rule, a table, or one alert, for a while; what to say about it."""
        database = self._engine.database
        rules, subjects = exact_patterns(database, rule, subject, self._engine.live.current)
        made = silence(database, seconds=seconds, reason=reason, author=operator, rule=rules, subject=subjects)
        _log.info("%s silenced %s until %s: %s", operator, words_of(made), moment(made.ends_at), reason)
        return f"Silenced {words_of(made)} until {moment(made.ends_at)}: no notification is sent."

    def unsilence(self, silence_id: str, *, operator: str, table: str | None = None) -> str:
        """End a silence; with a ``table``, only one of that table alone. What to say about it."""
        ended = end_silence(self._engine.database, silence_id, subject=table)
        _log.info("%s ended the silence of %s", operator, words_of(ended))
        return f"No longer silenced: {words_of(ended)}."

    def repair(self, table: str, *, operator: str) -> str:
        """Begin to repair a table as ``deltamirror repair TABLE`` does, in the background; what to say about it."""
        with self._engine.database.read() as connection:
            table_info(connection, table)
        with self._lock:
            self._require_place(table)
            begun = self._repairs[table] = RepairState(operator=operator, started_at=now_ms())
            self._repairs.move_to_end(table)
            self._forget()
        _log.info("%s began to repair %s", operator, table)
        # A repair that is cut short by the end of the process is taken up by the next one.
        threading.Thread(
            target=self._repair, args=[table, begun], name=f"deltamirror-repair-{table}", daemon=True
        ).start()
        return f"The repair of {table} has begun."

    def _require_place(self, table: str) -> None:
        under_way = {name: each for name, each in self._repairs.items() if each.ended_at is None}
        if table in under_way:
            raise Refused(f"{table} is being repaired already", hint="this page shows when it is done", table=table)
        recent = sum(now_ms() - each.started_at < _LONG_MS for each in under_way.values())
        if recent >= _AT_ONCE or len(under_way) >= _MOST:
            free = "when one is done" if recent < _AT_ONCE else "when one is done, or in a minute"
            raise Refused(
                f"busy: {counted(len(under_way), 'table')} being repaired; {table} is not", hint=f"try again {free}"
            )

    def _forget(self) -> None:
        """Forget the oldest repairs that are over."""
        over = [name for name, each in self._repairs.items() if each.ended_at is not None]
        for name in over[: max(len(self._repairs) - _REMEMBERED, 0)]:
            del self._repairs[name]

    def repair_of(self, table: str) -> RepairState | None:
        """The last repair of a table that was begun on the page."""
        return self._repairs.get(table)

    def _repair(self, table: str, begun: RepairState) -> None:
        outcome, is_good = self._outcome(table)
        _log.info("the repair of %s ended: %s", table, outcome)
        with self._lock:
            self._repairs[table] = replace(begun, ended_at=now_ms(), outcome=outcome, is_good=is_good)
            self._repairs.move_to_end(table)

    def _outcome(self, table: str) -> tuple[str, bool]:
        try:
            with open_logs(self._engine) as logs:
                return _said(repair(logs, table)), True
        except Exception as error:  # noqa: BLE001  the page tells what it was
            ours: DeltaMirrorError = our_error(error)
            return f"{ours.message}. {ours.hint}", False


def _said(done: Repaired) -> str:
    again = f"{counted(len(done.missing), 'version')} written again; " if done.missing else ""
    moved = f"{counted(len(done.misleading), 'misleading object')} moved aside; " if done.misleading else ""
    compared = counted(done.checked, "object")
    return f"{again}{moved}published up to version {done.published} ({compared} compared)."
