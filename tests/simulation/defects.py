"""Defects, put into deltamirror on purpose: each switches off something that a guarantee rests on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import pytest
from sqlalchemy import BindParameter, bindparam, func, select, update

from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.deltalog.checkpoint import content
from deltamirror.errors import Diverged
from deltamirror.ops.reconcile import examination
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.pipeline.failures.backoff import RetryPolicy
from deltamirror.pipeline.failures.breaker import Rules
from deltamirror.pipeline.run import execution
from deltamirror.pipeline.service import pace, shutdown
from deltamirror.pipeline.service.lanes import MirrorLane
from deltamirror.publish import commits
from deltamirror.publish.checkpoint import classic
from deltamirror.publish.checkpoint.placement import Placed
from deltamirror.storage.calls import BoundedStore, StoreCalls
from deltamirror.storage.object_store import LARGE
from deltamirror.storage.store import ETag, Meta
from deltamirror.txnlog.commit import committing, preparation, ratification
from deltamirror.txnlog.commit.committing import Committing
from deltamirror.txnlog.commit.request import Committed
from deltamirror.txnlog.database.schema import mirror_status, tables
from deltamirror.txnlog.queue import outcomes
from deltamirror.txnlog.writer import SqlTxnLogWriter
from deltamirror.work import Published
from tests.simulation.plans import Plan

Patch = pytest.MonkeyPatch

_EARLY: Final = 150
"""Up to this step most writers have something to do."""

_OWN: Final[BindParameter[int]] = bindparam("own")
_NEWEST: Final = select(func.coalesce(func.max(mirror_status.c.version), -1)).where(
    mirror_status.c.table_id == _OWN, mirror_status.c.state == "SUCCESS"
)
_RAISE: Final = update(tables).where(tables.c.table_id == _OWN).values(published_version=bindparam("reached"))


@dataclass(frozen=True, slots=True)
class Defect:
    """What is broken, and the words in which that shows."""

    put_in: Callable[[Patch], None]
    shows: tuple[str, ...]
    within: int
    """So many schedules."""
    amid: tuple[str, ...] = ()
    """Only schedules count in which one of these kinds of events happens."""
    hangs: bool = False
    """Only schedules count in which a table hangs while services are stopped."""
    seed: int = 0
    """A schedule that found it, which is tried first: plans change, and then all of them are tried in their order."""

    def concerns(self, plan: Plan) -> bool:
        """Whether a schedule is one of those that should find it."""
        early = {event.kind for event in plan.events if event.at < _EARLY}
        return (plan.poison_hangs or not self.hangs) and (not self.amid or not early.isdisjoint(self.amid))


def _of(module: Any, name: str) -> Any:
    """What a module has got from another one."""
    return getattr(module, name)


def _publishes_first(patch: Patch) -> None:
    ratified, opened = _of(committing, "ratify"), _of(execution, "open_store")

    def published(session: Any, draft: Any, head: Any, **how: Any) -> Any:
        done = ratified(session, draft, head, **how)
        location = session.execute(
            select(tables.c.location).where(tables.c.table_id == draft.state.table_id)
        ).scalar_one()
        opened(SimpleNamespace(location=location)).create(f"{LOG_DIRECTORY}/{commit_name(done.version)}", b"{}")
        return done

    patch.setattr(committing, "ratify", published)


def _overwrites(patch: Patch) -> None:
    def put(self: Any, work: Any, key: str, data: Any) -> bool:
        self.guard()
        self.store.put(key, data)
        return False

    patch.setattr(commits._Publisher, "_put", put)


def _newest_first(patch: Patch) -> None:
    forwards = _of(execution, "publish_commits")

    def publish_backwards(unit: Any, store: Any, **how: Any) -> Any:
        forwards(replace(unit, commits=unit.commits[-1:], checksums=False), store, **how)
        return forwards(unit, store, **how)

    patch.setattr(execution, "publish_commits", publish_backwards)


def _records_unseen(patch: Patch) -> None:
    publishing = commits._Publisher.publish

    def published(self: Any, work: Any, version: int) -> Any:
        try:
            return publishing(self, work, version)
        except commits._Stopped:
            return Published(version=version, already=False, num_bytes=0, milliseconds=0), b"{}", 0.0

    patch.setattr(commits._Publisher, "publish", published)


def _exists_is_a_failure(patch: Patch) -> None:
    def is_there(self: Any, work: Any, key: str, data: Any) -> bool:
        raise Diverged("there is something already", table=self.unit.table, version=work.version, key=key)

    patch.setattr(commits._Publisher, "_is_there", is_there)


def _other_bytes(patch: Patch) -> None:
    data_of = _of(commits, "commit_data")
    patch.setattr(commits, "commit_data", lambda *args, **how: bytes(data_of(*args, **how)).replace(b'":', b'": '))


def _forgets_tokens(patch: Patch) -> None:
    patch.setattr(Committing, "_insert_token", lambda *_: None)


def _forgets_applications(patch: Patch) -> None:
    patch.setattr(Committing, "_progress_in", lambda *_: None)
    patch.setattr(Committing, "_applied", lambda *_: None)


def _guesses_lost_replies(patch: Patch) -> None:
    patch.setattr(Committing, "_look", lambda *_: None)


def _misses_conflicts(patch: Patch) -> None:
    for module in (preparation, ratification):
        patch.setattr(module, "require_no_conflict", lambda connection, standing, head: standing)


def _tears_transactions(patch: Patch) -> None:
    whole = SqlTxnLogWriter.commit

    def commit_each(self: Any, request: Any) -> Committed:
        versions: dict[str, int] = {}
        for change in request.changes:
            done = whole(self, replace(request, changes=(change,), token=None))
            versions |= done.versions
        return replace(done, versions=versions)

    patch.setattr(SqlTxnLogWriter, "commit", commit_each)


def _trusts_the_clock(patch: Patch) -> None:
    patch.setattr(committing, "next_timestamp", lambda clock, last: clock)


def _skips_gaps(patch: Patch) -> None:
    def newest(session: Any, table_ids: Sequence[int]) -> dict[int, int]:
        reached = {each: int(session.execute(_NEWEST, {"own": each}).scalar_one()) for each in table_ids}
        for table_id, version in reached.items():
            session.execute(_RAISE, {"own": table_id, "reached": version})
        return reached

    patch.setattr(outcomes, "_raise_published", newest)


def _never_tries_again(patch: Patch) -> None:
    patch.setattr(RetryPolicy, "__call__", lambda *_: 1e9)


def _stays_away(patch: Patch) -> None:
    patch.setattr(Rules, "may_try", lambda *_: False)


def _holds_back_all(patch: Patch) -> None:
    claimed = MirrorLane._claimed

    def claim_elsewhere(self: Any, *, open_circuits: Any = (), except_stores: Any = (), **how: Any) -> Any:
        return claimed(self, except_stores=[*except_stores, *open_circuits], **how)

    patch.setattr(MirrorLane, "_claimed", claim_elsewhere)
    patch.setattr(Rules, "asks_for_share", lambda *_: False)
    told = Rules.told
    patch.setattr(Rules, "told", lambda *args, **how: told(*args, **{**how, "failing": 100.0}))


def _does_not_compare(patch: Patch) -> None:
    patch.setattr(examination._Examination, "compare", lambda *_: None)
    patch.setattr(examination._Examination, "look_above", lambda *_: None)


def _leaves_what_misleads(patch: Patch) -> None:
    patch.setattr(Logs, "set_aside", lambda *_: ())


def _points_to_nothing(patch: Patch) -> None:
    patch.setattr(
        classic, "place", lambda store, key, data, **_: Placed(Meta(key, 0, 0, ETag("")), bytes(data), is_as_given=True)
    )


def _forgets_tombstones(patch: Patch) -> None:
    batches = content.row_batches
    patch.setattr(
        content, "row_batches", lambda state, **how: batches(replace(state, removes=state.removes.slice(0, 0)), **how)
    )


def _waits_for_ever(patch: Patch) -> None:
    patch.setattr(StoreCalls, "run", lambda self, act, **_: act())


def _leaves_a_thread_each_time(patch: Patch) -> None:
    patch.setattr(StoreCalls, "_admit", lambda *_, **__: None)


def _waits_as_for_a_transfer(patch: Patch) -> None:
    def sync(store: BoundedStore, folder: str) -> None:
        store._run("sync", folder, partial(store.inner.sync, folder), moves=LARGE + 1, is_final=True)

    patch.setattr(BoundedStore, "sync", sync)


def _finishes_everything(patch: Patch) -> None:
    patch.setattr(StoreCalls, "give_up", lambda *_: None)
    patch.setattr(shutdown, "_TO_FINISH", 10.0)


def _rests_without_bound(patch: Patch) -> None:
    patch.setattr(pace, "LONGEST_REST", float("inf"))


DEFECTS: Final[Mapping[str, Defect]] = {
    "a commit is published before it is committed": Defect(_publishes_first, ("G1",), 20),
    "a commit object is overwritten": Defect(_overwrites, ("G5",), 150, ("foreign_commit",)),
    "the newest version is published first": Defect(_newest_first, ("G3",), 20),
    "what was not put is recorded as published": Defect(_records_unseen, ("R53", "G3"), 100, seed=9),
    "an object that is there is a failure": Defect(_exists_is_a_failure, ("G6", "G7", "G5"), 100, seed=8),
    "other bytes are published than were committed": Defect(_other_bytes, ("G4",), 20),
    "a token is forgotten": Defect(_forgets_tokens, ("G2",), 150, ("crash_after_write",), seed=185),
    "the progress of an application is forgotten": Defect(_forgets_applications, ("G2",), 150, ("crash_after_write",)),
    "a lost reply of COMMIT is taken for a failure": Defect(
        _guesses_lost_replies, ("G2",), 150, ("database_flaky",), seed=1821
    ),
    "conflicts are missed": Defect(_misses_conflicts, ("G2",), 300, seed=20),
    "a transaction is committed table by table": Defect(_tears_transactions, ("G2",), 20, seed=4),
    "commits are timed by a clock that is set back": Defect(_trusts_the_clock, ("G2",), 150, ("set_clock",), seed=52),
    "a table counts as published beyond a gap": Defect(_skips_gaps, ("G3",), 150, ("lose_commit",), seed=737),
    "what failed is not tried again": Defect(_never_tries_again, ("G6", "G7"), 100, seed=11),
    "a store that was down is never tried": Defect(_stays_away, ("G6", "G7"), 100, ("store_down",), seed=113),
    "a circuit opens for two tables, and holds back all": Defect(_holds_back_all, ("G7",), 20, ("neighbour",), seed=89),
    "logs are not compared": Defect(
        _does_not_compare, ("G6", "G7"), 100, ("lose_commit", "alter_commit", "foreign_commit"), seed=42
    ),
    "a call that hangs is waited for": Defect(_waits_for_ever, ("G6", "G7"), 20, hangs=True),
    "each retry of a call that hangs leaves a thread": Defect(
        _leaves_a_thread_each_time, ("G7",), 20, hangs=True, seed=104
    ),
    "a sync that hangs is waited for as long as a transfer": Defect(
        _waits_as_for_a_transfer, ("G7",), 20, ("neighbour",), seed=19
    ),
    "a service that stops finishes its work first": Defect(_finishes_everything, ("G7",), 20, hangs=True, seed=152),
    "a lane rests for as long as a job that hung": Defect(
        _rests_without_bound, ("G6", "G7"), 20, ("pass_days",), hangs=True, seed=700_115
    ),
    "what misleads readers stays in the log": Defect(_leaves_what_misleads, ("G5",), 60, ("mislead",), seed=24),
    "the pointer names a checkpoint that is not there": Defect(_points_to_nothing, ("G3", "R53"), 20, seed=1),
    "checkpoints forget tombstones": Defect(_forgets_tombstones, ("G4",), 100, seed=1),
}
