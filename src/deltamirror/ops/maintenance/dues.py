"""Which maintenance of a table is due: a pure function of what was measured and what the settings ask for."""

from dataclasses import dataclass
from typing import Final

from deltamirror.config import MaintenanceSettings
from deltamirror.pipeline.failures.backoff import growing_pause
from deltamirror.work import Chore

_FIRST_PAUSE: Final = 60.0
_LONGEST_PAUSE: Final = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What was measured of a table; times are in milliseconds since 1970, by the database's clock."""

    at: int
    small_files: int
    """How many came since it was optimized, that an optimize can put together with others."""
    compactions: int = 0
    """How many can be written of commits that no checkpoint has."""
    vacuumed_at: int | None
    """None: never, by a service."""
    head_at: int
    """When it was committed to last."""
    retention: int
    """How many milliseconds files stay after a commit removed them."""
    resting: frozenset[Chore] = frozenset()
    """Those that failed, and are not to be tried again yet."""


def due(facts: TableFacts, wanted: MaintenanceSettings) -> tuple[Chore, ...]:
    """The chores that a table is due for, in their order: an optimize leaves work for a vacuum."""
    is_due = {
        Chore.OPTIMIZE: wanted.optimize and facts.small_files >= wanted.small_files,
        Chore.VACUUM: wanted.vacuum and _is_vacuum_due(facts, wanted.vacuum_interval * 1_000),
        Chore.COMPACT: wanted.compact and facts.compactions > 0,
    }
    return tuple(chore for chore, wanted_now in is_due.items() if wanted_now and chore not in facts.resting)


def pause_after(attempts: int) -> float:
    """For how many seconds a chore is left that failed so many times in a row."""
    return growing_pause(_FIRST_PAUSE, attempts - 1, _LONGEST_PAUSE)


def _is_vacuum_due(facts: TableFacts, interval: float) -> bool:
    """Whether the last one is long ago, and files can have come to the end of their retention since."""
    if facts.vacuumed_at is None:
        return True
    is_changed = facts.head_at >= facts.vacuumed_at - facts.retention
    return is_changed and facts.at - facts.vacuumed_at >= interval
