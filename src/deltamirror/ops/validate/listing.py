"""What the names of a log's files say: names that no writer gives, versions that are missing, files that are early."""

from collections import defaultdict
from collections.abc import Iterator

from deltamirror.delta import names
from deltamirror.delta.actions import Version
from deltamirror.deltalog.comparison import ListedLog
from deltamirror.deltalog.gaps import missing_versions, spelled
from deltamirror.deltalog.rules.findings import Finding, LogObject
from deltamirror.storage.store import Store


def listing_findings(store: Store, listed: ListedLog) -> Iterator[Finding]:
    """The rules that the names of a log's files break."""
    for metas in listed.misspelt.values():
        yield from (_of(store, meta.key).finding("log.name.misspelt", found=meta.key) for meta in metas)
    for found in store.obstacles(names.LOG_DIRECTORY):
        if names.is_log_name(found.key.removeprefix(f"{names.LOG_DIRECTORY}/")) or found.key == names.LOG_DIRECTORY:
            yield _of(store, found.key).finding("log.obstacle", found=f"it {found.what}")
    yield from _unusable_checkpoints(store, listed)
    if listed.commits or listed.checkpoints:
        yield from _missing_commits(store, listed)
        yield from _early_files(store, listed)
    else:
        yield _of(store, names.LOG_DIRECTORY).finding("log.empty", found="neither a commit nor a complete checkpoint")


def _unusable_checkpoints(store: Store, listed: ListedLog) -> Iterator[Finding]:
    """Those that readers pass over: empty ones, and those that lack a part."""
    parts: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    for name, meta in listed.others.items():
        file = names.parse(name)
        if isinstance(file, names.CHECKPOINTS) and not meta.size:
            yield _of(store, meta.key).finding("checkpoint.empty", found="0 bytes")
        elif isinstance(file, names.CheckpointPart):
            parts[file.version, file.parts].add(file.part)
    for (version, count), found in parts.items():
        if len(found) < count:
            first = names.CheckpointPart(Version(version), min(found), count).name
            missing = spelled(missing_versions(found, first=1, last=count)).partition(" ")[2]
            subject = _of(store, f"{names.LOG_DIRECTORY}/{first}")
            yield subject.finding("checkpoint.parts.missing", expected=f"{count} parts", found=f"no part {missing}")


def _missing_commits(store: Store, listed: ListedLog) -> Iterator[Finding]:
    """Gaps after the newest checkpoint keep all readers out; those before it lose old versions."""
    newest = max((each.version for each in listed.checkpoints), default=-1)
    last = max([*listed.commits, newest])
    subject = _of(store, names.LOG_DIRECTORY)
    if gaps := missing_versions(listed.commits, first=newest + 1, last=last):
        yield subject.finding("log.versions.gap", found=f"no commit of {spelled(gaps)}")
    older = [version for version in listed.commits if version <= newest]
    if older and (holes := missing_versions(older, first=min(older), last=max(older))):
        yield subject.finding("log.versions.hole", found=f"no commit of {spelled(holes)}")


def _early_files(store: Store, listed: ListedLog) -> Iterator[Finding]:
    """Files of versions that the log does not have yet."""
    newest = max(listed.commits, default=None)
    for files in listed.checkpoints:
        if newest is not None and files.version > newest:
            subject = _of(store, files.metas[0].key)
            yield subject.finding("checkpoint.version.ahead", found=f"the newest commit is that of version {newest}")
    last = max([*listed.commits, *(each.version for each in listed.checkpoints)])
    for version, meta in listed.checksums.items():
        if version > last:
            yield _of(store, meta.key).finding("checksum.version.ahead", found=f"the log ends at version {last}")
    for compaction in listed.compactions:
        if compaction.last > last:
            found = f"the log ends at version {last}"
            yield _of(store, compaction.meta.key).finding("compaction.version.ahead", found=found)


def _of(store: Store, key: str) -> LogObject:
    return LogObject(store.location, key)
