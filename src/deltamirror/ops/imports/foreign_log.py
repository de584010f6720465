"""The log of a table that is imported: as it was listed, and what became of it since."""

from collections.abc import Iterable, Iterator
from hashlib import sha256

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.lines import canonical_json
from deltamirror.deltalog.admission import require_importable
from deltamirror.deltalog.checkpoint.parquet import has_our_form
from deltamirror.deltalog.checkpoints import checkpoint_pieces
from deltamirror.deltalog.commits import changed, read_blocks, read_ranges
from deltamirror.deltalog.listing import CheckpointKind, LogListing, read_listing
from deltamirror.deltalog.parquet import opened
from deltamirror.deltalog.reachable_versions import Reach, reach
from deltamirror.pipeline.run.slices import LogSlice, Part, base_slices, commit_slices
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.store import Meta, Store
from deltamirror.txnlog.imports.importing import ImportedCheckpoint, StoredFile


def metas_digest(metas: Iterable[Meta]) -> str:
    """What tells objects from others of the same names; the same in every release, which goes on with an import."""
    facts = [[each.key, each.size, each.modified, each.etag] for each in metas]
    return sha256(canonical_json({"format": "deltamirror objects 1", "objects": facts})).hexdigest()


class ForeignLog:
    """The log at a location as it was listed, up to the version that was last then."""

    def __init__(self, store: Store, address: StoreAddress, from_version: int | None) -> None:
        self.address = address
        self._store = store
        self._ids: set[str] = set()
        self._listing = read_listing(store)
        found: Reach = reach(self._listing, from_version=from_version)
        self.first, self.last, self.base = found.first, found.last, found.base

    @property
    def base_id(self) -> str | None:
        """The checkpoint that the first version comes from: its name, and what tells its content from any other."""
        if self.base is None:
            return None
        return f"{self.base.name} {metas_digest(self.base.metas)[:16]}"

    def slices(self, table_id: int, version: int, part: int) -> Iterator[LogSlice]:
        """What is to be read from a version on; of the first one from a part of its checkpoint on."""
        if version == self.first and self.base is not None:
            pieces, modified = checkpoint_pieces(self._store, self.base), self.base.metas[0].modified
            yield from base_slices(
                pieces, table_id=table_id, address=self.address, version=version, modified=modified, part=part
            )
        commits = ((each, self._listing.commits[each]) for each in self._versions(version))
        yield from commit_slices(commits, table_id=table_id, address=self.address)

    def lines(self, version: int) -> Iterator[bytes]:
        """The lines of a commit."""
        meta = self._listing.commits.get(version)
        if meta is None:
            raise changed(self._store, f"the commit of version {version}")
        for block in read_blocks(self._store, meta):
            yield from block.splitlines(keepends=True)

    def check(self, parts: Iterable[Part]) -> None:
        """Refuse a protocol that we do not understand, whichever version had it."""
        for part in parts:
            for action in part.small:
                if isinstance(action, Protocol):
                    require_importable(action, location=self.address.location)

    def require_same(self, stored: Iterable[StoredFile]) -> None:
        """Raise LogChanged where the log has other files than those that were stored of it before."""
        for file in stored:
            meta = self._listing.commits.get(file.version)
            if meta is None and file.version == self.first and not file.num_bytes:
                continue  # a checkpoint without its commit
            if meta is None or (meta.size, meta.modified) != (file.num_bytes, file.modified):
                raise changed(self._store, f"the commit of version {file.version}")

    def first_seen_ids(self, parts: Iterable[Part]) -> set[str]:
        """The ids of the table that these parts state, and none before them."""
        stated = {action.id for part in parts for action in part.small if isinstance(action, Metadata)}
        fresh = stated - self._ids
        self._ids |= stated
        return fresh

    def is_at(self, store: Store) -> bool:
        """Whether another store has these very objects: a copy has other times, or other tags."""
        own = list(self._read_so_far())
        return all(_is_same(meta, store.head(meta.key)) for meta in (own[0], own[-1]))

    def has_grown(self) -> bool:
        """Whether versions were added since it was listed, which from then on belong to it.

        Raises LogChanged where something of what was read is gone, or another in its place.
        """
        listing = read_listing(self._store)
        found = {meta.key: meta for meta in _metas(listing)}
        for meta in self._read_so_far():
            if found.get(meta.key) != meta:
                raise changed(self._store, meta.key)
        reach(listing, from_version=self.first)
        return self._grow(listing)

    def has_more(self) -> bool:
        """Whether versions were added since it was listed; what became of older ones does not matter."""
        return self._grow(read_listing(self._store))

    def reusable_base(self) -> ImportedCheckpoint | None:
        """The base, if it is a file that later checkpoints may start from.

        Of one that looks like ours they would take over bytes, and nothing says that these are as they were written.
        """
        if self.base is None or self.base.kind is not CheckpointKind.CLASSIC:
            return None
        [meta] = self.base.metas
        if has_our_form(opened(self._store, meta).metadata):
            return None
        digest = sha256()
        for data in read_ranges(self._store, meta):
            digest.update(data)
        return ImportedCheckpoint(
            version=self.first,
            name=self.base.name,
            digest=digest.digest(),
            num_bytes=meta.size,
            modified=meta.modified,
        )

    def _grow(self, listing: LogListing) -> bool:
        grown = listing.last > self.last
        self._listing, self.last = listing, max(listing.last, self.last)
        return grown

    def _versions(self, version: int) -> Iterator[int]:
        """The commits to read; that of a checkpoint's own version may be missing."""
        for each in range(version, self.last + 1):
            if each > self.first or each in self._listing.commits:
                yield each

    def _read_so_far(self) -> Iterator[Meta]:
        yield from () if self.base is None else self.base.metas
        yield from (self._listing.commits[each] for each in self._versions(self.first))


def _is_same(listed: Meta, found: Meta | None) -> bool:
    """Listings give parts of seconds that the answer for one object does not have."""
    if found is None:
        return False
    return (listed.size, listed.etag, listed.modified // 1000) == (found.size, found.etag, found.modified // 1000)


def _metas(listing: LogListing) -> Iterator[Meta]:
    yield from listing.commits.values()
    yield from (meta for files in listing.checkpoints for meta in files.metas)
