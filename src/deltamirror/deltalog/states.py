"""The state of a version, from the newest checkpoint at or below it and the commits that follow."""

from collections.abc import Iterator, Sequence
from itertools import chain

from deltamirror.delta.actions import CommitInfo
from deltamirror.delta.lines import decode, decode_commit
from deltamirror.delta.timestamps import next_timestamp
from deltamirror.deltalog.checkpoint.content import CheckpointState, replay
from deltamirror.deltalog.checkpoints import placed, read_checkpoint
from deltamirror.deltalog.commits import read_blocks, read_commits, read_whole
from deltamirror.deltalog.gaps import missing_versions, spelled
from deltamirror.deltalog.listing import CheckpointFiles, LogListing
from deltamirror.errors import DeltaMirrorError, InvalidInput, NotFound, Unsupported
from deltamirror.storage.store import Meta, Store


def state_at(store: Store, listing: LogListing, version: int | None = None) -> CheckpointState:
    """What the table holds at a version, the last one unless told otherwise, in the order of paths.

    Where a commit is missing, a compaction takes its place. Tombstones are those that the log still has, and that had
    not expired when the version was committed.
    """
    wanted = listing.last if version is None else version
    base = _base(listing, wanted)
    metas = _following(listing, base, wanted)
    state = None if base is None else read_checkpoint(store, base)
    committed_at = commit_time(listing, wanted, data=_beginning(store, listing, wanted))
    try:
        with placed(store.location):
            return replay(read_commits(store, metas), version=wanted, committed_at=committed_at, base=state)
    except (InvalidInput, Unsupported):
        _name_culprit(store, metas)
        raise


def commit_time(listing: LogListing, version: int, *, data: bytes | None) -> int:
    """When a version was committed, in milliseconds: the in-commit timestamp, if the ``data`` of its commit has one.

    Otherwise it is the time of its file, or a millisecond after the version before it where that is not earlier. The
    beginning of the data suffices; without any, and without a commit, the time is that of the file in its place.
    """
    stated = None if data is None else _in_commit_timestamp(data)
    if stated is not None:
        return stated
    time = None
    for each in sorted(each for each in listing.commits if each < version):
        time = next_timestamp(listing.commits[each].modified, time)
    return next_timestamp(_file_of(listing, version).modified, time)


def _base(listing: LogListing, version: int) -> CheckpointFiles | None:
    """An older one would need the same commits, and more."""
    below = [each for each in listing.checkpoints if each.version <= version]
    return next((each for each in below if each.version == below[-1].version), None)


def _following(listing: LogListing, base: CheckpointFiles | None, version: int) -> list[Meta]:
    if not 0 <= version <= listing.last:
        raise NotFound(
            f"the log at {listing.location} has no version {version}: it ends at {listing.last}", version=version
        )
    first = 0 if base is None else base.version + 1
    try:
        return list(_files(listing, first, version))
    except LookupError:
        raise _unreachable(listing, first, version) from None


def _files(listing: LogListing, first: int, last: int) -> Iterator[Meta]:
    """Commits; instead of a missing one, the compaction that leads farthest. It may repeat what is before it.

    That is harmless: of every key it has the newest action, and nothing of the others.
    """
    at = first
    while at <= last:
        if (commit := listing.commits.get(at)) is not None:
            yield commit
            at += 1
            continue
        covering = [each for each in listing.compactions if each.first <= at <= each.last <= last]
        if not covering:
            raise LookupError(at)
        chosen = max(covering, key=lambda each: each.last)
        yield chosen.meta
        at = chosen.last + 1


def _unreachable(listing: LogListing, first: int, version: int) -> DeltaMirrorError:
    missing = spelled(missing_versions(listing.commits, first=first, last=version))
    message = f"version {version} of the log at {listing.location} cannot be had: it lacks the commits of {missing}"
    if version < listing.last:
        return NotFound(message, hint="take a later version: cleanup deletes what is old", version=version)
    return InvalidInput(message, hint="bring the missing files back from a backup")


def _file_of(listing: LogListing, version: int) -> Meta:
    """The file that a version is known from: its commit, else its checkpoint, else a compaction that ends with it."""
    if version in listing.commits:
        return listing.commits[version]
    checkpoints = (each.metas[0] for each in listing.checkpoints if each.version == version)
    compactions = (each.meta for each in listing.compactions if each.last == version)
    found = next(chain(checkpoints, compactions), None)
    if found is None:
        raise NotFound(f"the log at {listing.location} has no file of version {version}", version=version)
    return found


def _beginning(store: Store, listing: LogListing, version: int) -> bytes | None:
    meta = listing.commits.get(version)
    return None if meta is None else next(read_blocks(store, meta), b"")


def _in_commit_timestamp(data: bytes) -> int | None:
    """Only the first line of a commit may state one. If it is damaged, the reader of the commit says so."""
    line = data.lstrip().partition(b"\n")[0]
    try:
        action = decode(line)
    except (InvalidInput, Unsupported):
        return None
    return action.in_commit_timestamp if isinstance(action, CommitInfo) else None


def _name_culprit(store: Store, metas: Sequence[Meta]) -> None:
    """Raise the error of the first commit that cannot be decoded, with its file and line; return where all can."""
    for meta in metas:
        decode_commit(read_whole(store, meta), source=f"{store.location}/{meta.key}")
