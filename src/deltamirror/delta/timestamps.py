"""In-commit timestamps: a time that the commit itself states, strictly increasing along the log.

The caller owns the clock. A commit that enables in-commit timestamps on an existing table also states since which
version and time they hold, so that readers know where to fall back to file times.
"""

from msgspec.structs import replace

from deltamirror.delta.actions import Metadata
from deltamirror.delta.order import ordered
from deltamirror.delta.properties import in_commit_timestamps

ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"
_PROVENANCE = (ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP)

LAST_TIMESTAMP = 253_402_300_799_999
"""The end of the year 9999 (ms). After a later one no commit could follow for long, and readers show no such date."""

MOST_AHEAD = 24 * 60 * 60 * 1000
"""How far the time of a commit may be ahead of the database's clock (ms): every later commit has to exceed it."""


def next_timestamp(clock_ms: int, previous_ms: int | None) -> int:
    """The timestamp of a commit whose predecessor has ``previous_ms``: later than that, even if the clock stepped back.

    >>> next_timestamp(1_000, None), next_timestamp(1_000, 400), next_timestamp(1_000, 5_000)
    (1000, 1000, 5001)
    """
    return clock_ms if previous_ms is None else max(clock_ms, previous_ms + 1)


def with_enablement(before: Metadata | None, after: Metadata, *, version: int, timestamp: int) -> Metadata:
    """``after`` with the provenance properties that a commit of ``version`` at ``timestamp`` has to state.

    ``before`` is the metadata in force so far, ``None`` for a table that does not exist. The commit that enables
    in-commit timestamps states both properties, unless it is version 0; later metadata keeps them. A commit that
    is rebased calls this again with its version and timestamp: values of an earlier attempt, or of an earlier time at
    which the timestamps were enabled, are replaced.
    """
    if not in_commit_timestamps(after):
        return after
    provenance = _provenance(before, version=version, timestamp=timestamp)
    kept = {key: value for key, value in after.configuration.items() if key in provenance or key not in _PROVENANCE}
    configuration = {**kept, **provenance}
    return after if configuration == after.configuration else replace(after, configuration=ordered(configuration))


def _provenance(before: Metadata | None, *, version: int, timestamp: int) -> dict[str, str]:
    """Since when in-commit timestamps hold; nothing where they have held from version 0 on."""
    if version == 0:
        return {}
    if before is None or not in_commit_timestamps(before):
        return {ENABLEMENT_VERSION: str(version), ENABLEMENT_TIMESTAMP: str(timestamp)}
    return {key: before.configuration[key] for key in _PROVENANCE if key in before.configuration}
