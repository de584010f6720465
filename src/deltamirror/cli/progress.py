"""What a run of the mirror came to so far, and how it is shown: a bar on a terminal, some lines elsewhere."""

import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from deltamirror.cli.logs import configure_logs
from deltamirror.config import LogSettings
from deltamirror.deltalog.gaps import spelled
from deltamirror.pipeline.service.service import lasting_failure
from deltamirror.work import CommitOutcome, Failure, Lane, Outcome

# A shorter backlog is gone before an operator looks.
LONG_BACKLOG: Final = 200
_LINES: Final = 10

Advance = Callable[[int], None]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was done between two looks at a tally."""

    versions: int
    tables: int
    checkpoints: int
    failures: int

    def __bool__(self) -> bool:
        return bool(self.versions or self.checkpoints or self.failures)


class RunTally:
    """What came of a run, by the ids of tables. It is told from several threads."""

    def __init__(self, advance: Advance) -> None:
        self.versions: Counter[int] = Counter()
        self.checkpoints = 0
        self.failed: dict[tuple[int, Lane], Failure] = {}
        """Of each table and lane what failed last, unless it succeeded since."""
        self._advance = advance
        self._lock = threading.Lock()
        self._recent: Counter[int] = Counter()
        self._recent_checkpoints = self._recent_failures = 0

    def take(self) -> Done:
        """What was done since the last call."""
        with self._lock:
            done = Done(
                versions=self._recent.total(),
                tables=len(self._recent),
                checkpoints=self._recent_checkpoints,
                failures=self._recent_failures,
            )
            self._recent.clear()
            self._recent_checkpoints = self._recent_failures = 0
        return done

    def observe(self, outcome: Outcome) -> None:
        """Count what came of a unit of work."""
        with self._lock:
            if isinstance(outcome, CommitOutcome):
                self._count_versions(outcome)
            elif outcome.failure is None and not outcome.base_unusable:
                self.checkpoints += 1
                self._recent_checkpoints += 1
                said = "table %r: checkpoint of version %d"
                logger.info(said, outcome.table, outcome.version, extra=outcome.log_fields)
            self._note_failure(outcome)

    def _count_versions(self, outcome: CommitOutcome) -> None:
        if outcome.published:
            first, last = outcome.published[0].version, outcome.published[-1].version
            fields = {**outcome.log_fields, "first_version": first, "version": last}
            logger.info("table %r: %s published", outcome.table, spelled([range(first, last + 1)]), extra=fields)
            self.versions[outcome.table_id] += len(outcome.published)
            self._recent[outcome.table_id] += len(outcome.published)
            self._advance(len(outcome.published))

    def _note_failure(self, outcome: Outcome) -> None:
        place = outcome.table_id, outcome.lease.lane
        self.failed.pop(place, None)
        if (failure := lasting_failure(outcome)) is not None:
            self.failed[place] = failure
            self._recent_failures += 1


@contextmanager
def shown(
    total: int, *, quiet: bool, log: LogSettings, done: str = "published", unit: str = "versions"
) -> Iterator[Advance]:
    """Show on standard error how many of ``total`` versions are ``done``, if they are many; not when ``quiet``."""
    if quiet or total <= LONG_BACKLOG:
        yield _untold
    elif sys.stderr.isatty():
        with _bar(total, log, done, unit) as advance:
            yield advance
    else:
        yield _Lines(total, f"{unit} {done}")


class _Lines:
    """A line for each tenth of the work."""

    def __init__(self, total: int, what: str) -> None:
        self._total = total
        self._what = what
        self._done = 0

    def __call__(self, versions: int) -> None:
        before, self._done = self._done, self._done + versions
        if before * _LINES // self._total < self._done * _LINES // self._total:
            click.echo(f"{self._done:,} of {self._total:,} {self._what}", err=True)


@contextmanager
def _bar(total: int, log: LogSettings, done: str, unit: str) -> Iterator[Advance]:
    columns = (TextColumn(done), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        # While there is a bar, standard error is a stream that writes above it; log lines have to go there.
        configure_logs(log)
        try:
            yield lambda versions: progress.advance(task, versions)
        finally:
            progress.stop()
            configure_logs(log)


def _untold(versions: int) -> None:
    """No terminal shows it."""
