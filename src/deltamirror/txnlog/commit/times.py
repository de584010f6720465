"""The times that commits state: those of verbatim ones were written before the head of their table was locked."""

from collections.abc import Mapping, Sequence

from deltamirror.delta.actions import CommitInfo, Metadata
from deltamirror.delta.properties import in_commit_timestamps
from deltamirror.delta.timestamps import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION, MOST_AHEAD, with_enablement
from deltamirror.delta.validation.rules import violation
from deltamirror.errors import InvalidAction, Refused
from deltamirror.txnlog.commit.draft import Draft, after

_ENABLEMENT = "metaData.in-commit-timestamp.enablement"


def require_timely(drafts: Sequence[Draft], previous: Mapping[int, int], clock: int) -> None:
    """Refuse a transaction that would date a table far ahead of the database's clock.

    Every later commit has to exceed the time of the one before it, and a transaction has one time in all its tables.
    ``previous`` are the times of the newest versions, by the ids of their tables.
    """
    for draft in drafts:
        stated = None if draft.info is None or not draft.is_verbatim else draft.info.in_commit_timestamp
        if stated is not None and stated > clock + MOST_AHEAD and _is_timestamped(draft):
            raise _wrong_time(draft, "ahead", f"inCommitTimestamp {stated} is over a day ahead of the clock, {clock}")
    newest = max(drafts, key=lambda draft: previous[draft.state.table_id])
    time = previous[newest.state.table_id]
    oldest = min(previous[draft.state.table_id] for draft in drafts)
    if time > max(clock, oldest) + MOST_AHEAD:
        raise Refused(
            f"the newest version of table {newest.state.name!r} has the time {time}, over a day ahead of the clock, "
            f"{clock}: a transaction would carry it to its other tables",
            hint="commit to this table in a transaction of its own",
            table=newest.state.name,
        )


def verbatim_time(draft: Draft, previous: int, clock: int) -> int:
    """The time of a verbatim commit: the one that it states, in order; ``previous`` is that of the version before."""
    info = draft.info
    stated = None if info is None else info.in_commit_timestamp
    if _is_timestamped(draft):
        if stated is None or not any(isinstance(action, CommitInfo) for action in draft.body[:1]):
            raise _wrong_time(draft, "first-missing", f"{draft.state.name!r} has in-commit timestamps, the commit none")
        if stated <= previous:
            problem = f"inCommitTimestamp {stated} does not exceed that of the version before, {previous}"
            raise _wrong_time(draft, "order", problem)
        return stated
    later = None if stated is None or stated <= previous else stated
    claims = (later, draft.change.committed_at, None if info is None else info.timestamp)
    # Without in-commit timestamps, a time that the commit states binds no reader: an impossible one is passed over.
    likely = next((claim for claim in claims if claim and claim <= clock + MOST_AHEAD), clock)
    return max(likely, previous + 1)


def require_provenance(draft: Draft, metadata: Metadata) -> None:
    """Refuse verbatim metadata that does not say since when timestamps hold.

    A writer that prepared it for another version, or before timestamps were enabled, would make readers look for times
    in commits that have none.
    """
    stated = None if draft.info is None else draft.info.in_commit_timestamp
    version = draft.change.at_version or 0
    due = with_enablement(draft.state.metadata, metadata, version=version, timestamp=stated or 0)
    if due.configuration != metadata.configuration:
        found = f"{_since(metadata)} instead of {_since(due)}"
        raise violation(
            _ENABLEMENT, action="metaData", index=None, field=f"configuration.{ENABLEMENT_VERSION}", found=found
        )


def _since(metadata: Metadata) -> str:
    version, time = (metadata.configuration.get(key) for key in (ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP))
    return "no version" if version is None else f"version {version} at {time}"


def _is_timestamped(draft: Draft) -> bool:
    _, metadata = after(draft.state, draft.small_actions)
    return in_commit_timestamps(metadata)


def _wrong_time(draft: Draft, rule: str, problem: str) -> InvalidAction:
    return InvalidAction(
        problem,
        hint="the commit begins with a commitInfo, whose inCommitTimestamp exceeds that of the version before and is "
        "at most a day ahead of the database's clock",
        rule=f"commitInfo.inCommitTimestamp.{rule}",
        action="commitInfo",
        field="inCommitTimestamp",
        found="nothing" if draft.info is None else str(draft.info.in_commit_timestamp),
        table=draft.state.name,
    )
