"""Commits on their way to executors that cannot reach the database: read by the driver, as much as one job carries."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from deltamirror.batches import packed
from deltamirror.delta.names import commit_key
from deltamirror.errors import DeltaMirrorError, Internal, Unavailable
from deltamirror.pipeline.run.spark.sharing import LARGEST, carried_bytes
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import fetch_chunks, with_chunks
from deltamirror.work import CommitOutcome, CommitUnit, CommitWork, StageTimes, Unit, carrying


class Carrier:
    """Puts the chunks of commits into units, of at most ``largest`` bytes: no more of them are in memory.

    Commits that have their chunks keep them. Without a database, so do those that have none.
    """

    def __init__(self, database: Database | None, *, largest: int = LARGEST) -> None:
        self._database = database
        self.largest = largest

    def has_room_for(self, unit: Unit) -> bool:
        """Whether a unit is certain to fit into one job, before it is read."""
        return sum(map(_most_bytes, unit.commits)) <= self.largest

    def loaded(self, unit: Unit) -> Unit | None:
        """The unit with the chunks of its commits; None where these are too much for one job."""
        commits: list[CommitWork] = []
        begun, size = time.monotonic(), 0
        for some in self.loads(unit.commits):
            loaded = self._read(some)
            size += sum(map(carried_bytes, loaded))
            if size > self.largest:
                return None
            commits += loaded
        return carrying(unit, commits, read=(time.monotonic() - begun) * 1_000)

    def loads(self, commits: Iterable[CommitWork]) -> Iterator[list[CommitWork]]:
        """Consecutive commits that one job carries together; one that may be too much for it is by itself."""
        return packed(commits, _most_bytes, self.largest)

    def _read(self, commits: Sequence[CommitWork]) -> Sequence[CommitWork]:
        absent = [work for work in commits if work.chunks is None]
        if self._database is None or not absent:
            return commits
        try:
            found = self._fetched(self._database, absent)
        except Internal:
            raise
        except DeltaMirrorError as error:
            # Trouble of the database is no failure of the tables that are to be published.
            message = f"the commits to publish cannot be read: {error.message}"
            raise Unavailable(message, hint=error.hint) from error
        return [found.get(work.version, work) for work in commits]

    def _fetched(self, database: Database, commits: Sequence[CommitWork]) -> dict[int, CommitWork]:
        with database.read() as connection:
            if sum(map(_most_bytes, commits)) <= self.largest:
                return {work.version: work for work in with_chunks(connection, commits)}
            [large] = commits
            chunks, size = [], 0
            for chunk in fetch_chunks(connection, large):
                chunks.append(chunk)
                size += len(chunk.data)
                if size > self.largest:
                    break
            return {large.version: replace(large, chunks=tuple(chunks))}


def publish_in_a_row(
    unit: CommitUnit,
    loads: Iterable[Sequence[CommitWork]],
    run: Callable[[CommitUnit], CommitOutcome],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> CommitOutcome:
    """What comes of a unit whose commits are published load by load, each as a unit that follows on the one before it.

    The first load of which not all is published ends it, so that nothing is put behind a gap, and so does the end of
    the budget.
    """
    begun = told = clock()
    outcome = CommitOutcome(table_id=unit.table_id, lease=unit.lease)
    for commits in loads:
        left = unit.budget - (clock() - begun)
        if outcome.published and left <= 0:
            break
        found = run(_following(unit, commits, outcome, budget=max(0.0, left)))
        before, told = told, clock()
        outcome = _joined(outcome, found, seconds=told - before)
        if found.failure is not None or len(found.published) < len(commits):
            break
    return outcome


def _following(unit: CommitUnit, commits: Sequence[CommitWork], before: CommitOutcome, *, budget: float) -> CommitUnit:
    """Some commits of a unit, as a unit that goes on where those before it ended."""
    part = replace(unit, commits=tuple(commits), budget=budget)
    if not before.published:
        return part
    return replace(
        part,
        follows=commit_key(before.published[-1].version),
        checksum=before.checksum,
        checksums=unit.checksums and before.checksum is not None,
    )


def _joined(before: CommitOutcome, found: CommitOutcome, *, seconds: float) -> CommitOutcome:
    """Both outcomes as one that ended so many seconds after the first of them."""
    older = (replace(done, age=done.age + seconds * 1_000) for done in before.published)
    return replace(
        found,
        published=tuple(chain(older, found.published)),
        checksum=found.checksum if found.published else before.checksum,
        checksum_failure=before.checksum_failure or found.checksum_failure,
        stages=(before.stages or StageTimes()) + (found.stages or StageTimes()),
    )


def _most_bytes(work: CommitWork) -> float:
    """How many bytes a commit carries, at most: compressed, it has fewer. The size of a base is not known before."""
    if work.chunks is not None:
        return carried_bytes(work)
    return math.inf if work.is_base else work.num_bytes
