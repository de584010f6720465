"""What a service's log says of failures: each of them once, however often it is tried again."""

import logging
from typing import Final

from deltamirror.errors import DeltaMirrorError
from deltamirror.telemetry.mentions import Mentions
from deltamirror.work import CommitOutcome, Failure, Outcome

__all__ = ["FailureLines"]

_SERVICE: Final = "service"


class FailureLines:
    """Says what failed, and again only once it fails otherwise, or after it succeeded. All attempts are in SQL."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._mentions = Mentions()

    def tell(self, outcome: Outcome, failure: Failure | None) -> None:
        """Say what failed of a unit, if that is news."""
        place = outcome.table_id, outcome.lease.lane
        self._mentions.is_well(_SERVICE)
        if outcome.published if isinstance(outcome, CommitOutcome) else outcome.failure is None:
            self._mentions.is_well(place)
        if failure is not None and self._mentions.is_news(place, (failure.version, failure.error.code)):
            what = f"version {failure.version} of table {outcome.table!r}"
            self._log.warning("%s failed at %s: %s", what, failure.stage, failure.error, extra=outcome.log_fields)
        if isinstance(outcome, CommitOutcome):
            self._tell_of_checksum(outcome)

    def tell_of_pause(self, trouble: DeltaMirrorError, seconds: float) -> None:
        """Say that the service as a whole pauses: while pauses grow, and not each time that it is still in trouble."""
        if self._mentions.is_news(_SERVICE, (trouble.code, seconds)):
            self._log.error("the mirror pauses for %.1f s: %s", seconds, trouble, extra={"code": trouble.code})

    def _tell_of_checksum(self, outcome: CommitOutcome) -> None:
        missing, place = outcome.checksum_failure, (outcome.table_id, "checksum")
        if missing is None and outcome.published:
            self._mentions.is_well(place)
        if missing is not None and self._mentions.is_news(place, missing.error.code):
            fields = {**outcome.log_fields, "version": missing.version, "code": missing.error.code}
            said = "%s of table %r is not written: %s"
            self._log.warning(said, missing.key, outcome.table, missing.error, extra=fields)
