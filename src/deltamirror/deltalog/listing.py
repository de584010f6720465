"""What lies in a ``_delta_log/``, from one listing: commits, checkpoints that are complete, compactions, checksums."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Final, TypeAlias

from deltamirror.delta import names
from deltamirror.errors import DeltaMirrorError, InvalidInput, InvalidLocation, NotFound
from deltamirror.storage.store import Meta, Store


class CheckpointKind(StrEnum):
    """How the rows of a checkpoint are laid out in files."""

    CLASSIC = "classic"  # one file
    PARTS = "parts"  # several files
    V2 = "v2"  # one file, and sidecars


CheckpointName: TypeAlias = names.Checkpoint | names.CheckpointPart | names.UuidCheckpoint

_FOLDER: Final = f"{names.LOG_DIRECTORY}/"
_BEYOND_NUMBERS: Final = f"{_FOLDER}:"
"""Names of log files begin with a digit, and a colon follows on the digits: sidecars and the pointer lie beyond."""

_PREFERENCE: Final[Mapping[CheckpointKind, int]] = {
    CheckpointKind.CLASSIC: 0,
    CheckpointKind.PARTS: 1,
    CheckpointKind.V2: 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFiles:
    """A checkpoint with all files that bear its version; the sidecars that these may name are not looked for.

    ``kind`` is that of the name: a file of the classic name may have sidecars, too.
    """

    version: int
    kind: CheckpointKind
    metas: tuple[Meta, ...]

    @property
    def name(self) -> str:
        """The name of its first file, within ``_delta_log/``."""
        return self.metas[0].key.removeprefix(_FOLDER)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFile:
    """What remains of the commits from ``first`` to ``last``, in one file."""

    first: int
    last: int
    meta: Meta


@dataclass(frozen=True, slots=True, kw_only=True)
class LogListing:
    """The files of a log. It has at least one commit or checkpoint."""

    location: str
    commits: Mapping[int, Meta]
    checkpoints: tuple[CheckpointFiles, ...]
    """Ascending; of several at one version, first the one that needs the fewest files."""
    compactions: tuple[CompactionFile, ...]
    checksums: Mapping[int, Meta]

    @property
    def last(self) -> int:
        """The newest version that a commit or a checkpoint is there for."""
        return max([*self.commits, *(each.version for each in self.checkpoints)])


def read_listing(store: Store) -> LogListing:
    """The log below a store's location; an error that says what is there instead where there is none.

    Empty checkpoints, which writers leave that died, and incomplete ones are passed over, as readers do. A
    misspelt name is an error: Delta Lake on Spark fails at it, or reads something else than other readers.
    """
    commits: dict[int, Meta] = {}
    checksums: dict[int, Meta] = {}
    compactions: list[CompactionFile] = []
    checkpoints: list[tuple[CheckpointName, Meta]] = []
    for name, meta in numbered_files(store, first=0):
        match names.parse(name):
            case names.Misspelt():
                raise _misspelt(store, meta)
            case names.Commit(version):
                commits[version] = meta
            case names.ChecksumFile(version):
                checksums[version] = meta
            case names.Compaction(version, end):
                compactions.append(CompactionFile(first=version, last=end, meta=meta))
            case names.Checkpoint() | names.CheckpointPart() | names.UuidCheckpoint() as file:
                checkpoints.append((file, meta))
    _require_objects(store)
    complete = complete_checkpoints(checkpoints)
    if not commits and not complete:
        raise _no_log(store)
    return LogListing(
        location=store.location,
        commits=commits,
        checkpoints=complete,
        compactions=tuple(compactions),
        checksums=checksums,
    )


def numbered_files(store: Store, *, first: int | None = None) -> Iterator[tuple[str, Meta]]:
    """The files of a log by their names, from a version on. Other objects may come before its versions.

    A store that lists folder by folder never looks into that of the sidecars.
    """
    after = None if first is None else f"{_FOLDER}{names.listing_prefix(first)}"
    listed = store.list(names.LOG_DIRECTORY, after=after)
    for meta in takewhile(lambda meta: meta.key < _BEYOND_NUMBERS, listed):
        yield meta.key.removeprefix(_FOLDER), meta


def complete_checkpoints(files: Iterable[tuple[CheckpointName, Meta]]) -> tuple[CheckpointFiles, ...]:
    """The checkpoints that readers find among these files, ascending; empty and incomplete ones are passed over."""
    complete = _complete((file, meta) for file, meta in files if meta.size)
    return tuple(sorted(complete, key=lambda each: (each.version, _PREFERENCE[each.kind], each.name)))


def _complete(checkpoints: Iterable[tuple[CheckpointName, Meta]]) -> Iterator[CheckpointFiles]:
    parts: defaultdict[tuple[int, int], dict[int, Meta]] = defaultdict(dict)
    for file, meta in checkpoints:
        match file:
            case names.Checkpoint(version):
                yield CheckpointFiles(version=version, kind=CheckpointKind.CLASSIC, metas=(meta,))
            case names.UuidCheckpoint(version):
                yield CheckpointFiles(version=version, kind=CheckpointKind.V2, metas=(meta,))
            case names.CheckpointPart(version, part, count):
                parts[version, count][part] = meta
    for (of_version, of_parts), found in parts.items():
        if len(found) == of_parts:
            yield CheckpointFiles(
                version=of_version, kind=CheckpointKind.PARTS, metas=tuple(found[each] for each in sorted(found))
            )


def _require_objects(store: Store) -> None:
    """Refuse what has the name of a file of the log, and is none: readers may follow a link, and we do not."""
    for found in store.obstacles(names.LOG_DIRECTORY):
        if names.is_log_name(found.key.removeprefix(_FOLDER)):
            raise InvalidLocation(
                f"in the log at {store.location}, {found.key} {found.what}",
                hint="put the file itself in its place, or move it out of the log",
            )


def _misspelt(store: Store, meta: Meta) -> InvalidInput:
    return InvalidInput(
        f"the log at {store.location} has {meta.key}: Delta Lake on Spark takes it for a file of the log, and other "
        "readers do not, since versions have 20 digits and parts of a checkpoint 10",
        hint="no Delta writer writes such a name: find out what it is, and move it out of the log",
    )


def _no_log(store: Store) -> DeltaMirrorError:
    """What there is in place of a log."""
    location = store.location
    if next(store.list(names.LOG_DIRECTORY), None) is not None:
        return InvalidInput(
            f"the log at {location} has neither a commit nor a complete checkpoint",
            hint=f"look into {_FOLDER}: a copy may have come to an end too early; without commits there is no table",
        )
    if any(meta.key.endswith(".metadata.json") for meta in store.list("metadata")):
        return InvalidInput(
            f"at {location} is an Iceberg table, and no Delta table",
            hint="convert it first: with Spark, CONVERT TO DELTA iceberg.`<location>`",
        )
    if next(store.list(), None) is None:
        return NotFound(f"there is nothing at {location}", hint="check the location, and who may read it")
    if location.endswith(f"/{names.LOG_DIRECTORY}"):
        return InvalidInput(f"{location} is a log, and not a table", hint="give the folder above it")
    return InvalidInput(
        f"at {location} are files, but no Delta log: there is no {names.LOG_DIRECTORY} folder",
        hint="give the folder of the table itself; to make a table of Parquet files: CONVERT TO DELTA with Spark",
    )
