"""Failures that an operator has to look at: which they are, and the one line of the log that says so."""

import logging
from dataclasses import dataclass

from deltamirror.config import MirrorSettings
from deltamirror.errors import DeltaMirrorError
from deltamirror.pipeline.failures.breaker import moment
from deltamirror.pipeline.failures.policy import EscalatedWhen, policy_of
from deltamirror.work import CommitOutcome, Outcome

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EscalationPolicy:
    """Whether a failure is more than passing trouble."""

    settings: MirrorSettings

    def __call__(self, error: DeltaMirrorError, attempts: int) -> bool:
        """By its class, and by how many attempts there were."""
        match policy_of(error.code).escalates:
            case EscalatedWhen.AT_ONCE:
                return True
            case EscalatedWhen.PAST_ATTEMPTS:
                return attempts >= self.settings.attempts
            case EscalatedWhen.NEVER:
                return False


def tell(outcome: Outcome) -> None:
    """Say that an operator has to look at what failed."""
    if (failure := outcome.failure) is not None:
        what = "version" if isinstance(outcome, CommitOutcome) else "the checkpoint of version"
        _log.error(
            "%s %d of table %r failed %s (%s): %s; %s; `deltamirror report %s %d`",
            what,
            failure.version,
            outcome.table,
            "once" if outcome.attempt in (None, 1) else f"{outcome.attempt} times",
            failure.error.code,
            failure.error,
            f"next try {moment(outcome.retry_at)}" if outcome.retry_at is not None else "the table is quarantined",
            outcome.table,
            failure.version,
            extra=outcome.log_fields,
        )
