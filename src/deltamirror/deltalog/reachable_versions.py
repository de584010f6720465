"""Which versions of a log can be had with their commits: from the beginning, or from a checkpoint on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltamirror.deltalog.gaps import missing_versions, spelled
from deltamirror.deltalog.listing import CheckpointFiles, CompactionFile, LogListing
from deltamirror.errors import DeltaMirrorError, InvalidInput, NotFound


@dataclass(frozen=True, slots=True)
class Reach:
    """The versions from ``first`` to ``last``. ``base`` is the state of the first; without one it is version 0.

    The commits above the base are all there; that of the base itself may be missing.
    """

    first: int
    last: int
    base: CheckpointFiles | None


def reach(listing: LogListing, *, from_version: int | None = None) -> Reach:
    """As much of the log as there is, or only from the oldest possible version at or above ``from_version`` on.

    A compaction stands for no commit: it has the outcome of its versions, and not what each of them did.
    """
    ways = list(_ways(listing))
    if not ways:
        raise _broken(listing)
    if from_version is not None and from_version > listing.last:
        raise _beyond(listing, from_version)
    chosen = next((way for way in ways if way.first >= (from_version or 0)), None)
    if chosen is None or (from_version == 0 and chosen.first > 0):
        raise _no_start(listing, ways[0], from_version or 0)
    _check_sizes(listing, chosen)
    return chosen


def _ways(listing: LogListing) -> Iterator[Reach]:
    """Every possible start, the oldest first."""
    start = last = listing.last
    while start in listing.commits:
        start -= 1
    if start < 0:
        yield Reach(0, last, None)
    for checkpoint in listing.checkpoints:
        if checkpoint.version >= start:
            yield Reach(checkpoint.version, last, checkpoint)


def _check_sizes(listing: LogListing, found: Reach) -> None:
    """A commit without a byte is what remains of a write that failed half way."""
    for version in range(found.first, found.last + 1):
        meta = listing.commits.get(version)
        if meta is not None and not meta.size:
            raise InvalidInput(
                f"the commit {meta.key} in {listing.location} is empty",
                hint="bring it back from a backup; its writer, or a copy, broke off",
            )


def _broken(listing: LogListing) -> InvalidInput:
    """No checkpoint has all commits after it, nor are these there from version 0 on."""
    newest = listing.checkpoints[-1].version if listing.checkpoints else None
    below = -1 if newest is None else newest
    missing = missing_versions(listing.commits, first=below + 1, last=listing.last)
    since = "and there is no checkpoint" if newest is None else f"and the newest checkpoint is that of version {newest}"
    return InvalidInput(
        f"the log at {listing.location} lacks the commits of {spelled(missing)}, {since}",
        hint="bring the missing files back, from a backup or from earlier versions of the bucket's objects"
        + _only_compacted(listing, missing),
    )


def _only_compacted(listing: LogListing, missing: Sequence[range]) -> str:
    """What compactions have of commits that are missing."""
    lacking = [each for each in listing.compactions if any(_meet(each, gap) for gap in missing)]
    if not lacking:
        return ""
    ranges = ", ".join(f"{each.first} to {each.last}" for each in lacking)
    return (
        f"; versions {ranges} are there in a .compacted.json only, which tells what became of them, not what each of "
        "them did: if Delta Spark reads the table, let it write a checkpoint, and import again"
    )


def _meet(compaction: CompactionFile, gap: range) -> bool:
    return compaction.first < gap.stop and gap.start <= compaction.last


def _beyond(listing: LogListing, version: int) -> NotFound:
    return NotFound(
        f"the log at {listing.location} ends at version {listing.last}: there is no version {version}", version=version
    )


def _no_start(listing: LogListing, oldest: Reach, version: int) -> DeltaMirrorError:
    if version == 0:
        missing = missing_versions(listing.commits, first=0, last=oldest.first)
        return InvalidInput(
            f"the log at {listing.location} lacks the commits of {spelled(missing)}",
            hint=f"begin with version {oldest.first}, the oldest that has a checkpoint",
        )
    return InvalidInput(
        f"the log at {listing.location} has no checkpoint at or above version {version} to begin with",
        hint=f"begin with an earlier version ({oldest.first} is the oldest), or let an engine write a checkpoint",
    )
