"""Bringing an earlier version of a table back, as one more version: its files, its metadata, its clustering columns.

The protocol stays, and gets the features again that the earlier version had: files may use them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Self

import msgspec

from deltamirror.catalog.rows import removed_file
from deltamirror.catalog.verification import FileVerifier
from deltamirror.delta.actions import Action, DomainMetadata, Metadata, Protocol
from deltamirror.delta.commitinfo import Parameters, restore_metrics, restore_parameters
from deltamirror.delta.definition import CLUSTERING_DOMAIN
from deltamirror.delta.features import FENCE_FEATURE, upgrade, writer_features_of
from deltamirror.delta.properties import MAX_COLUMN_ID, append_only, max_column_id
from deltamirror.delta.validation.vectors import named_paths
from deltamirror.errors import NotFound, Refused
from deltamirror.txnlog.tables.differences import WayBack, difference
from deltamirror.txnlog.tables.reading import Snapshot

_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Restoration:
    """A table at its head, and the version of it that is to come back."""

    head: Snapshot
    wanted: Snapshot
    asked: str | None
    """The time that was asked for; None: the version was."""
    files: WayBack

    @classmethod
    def of(cls, head: Snapshot, wanted: Snapshot, asked: str | None) -> Self:
        """What it takes to bring a version back."""
        return cls(head, wanted, asked, difference(head, wanted))

    @property
    def metadata(self) -> Metadata:
        """That of the version, but for column ids: those that were given since are not given again."""
        found, highest = self.wanted.metadata, max_column_id(self.head.metadata)
        if highest is None or (max_column_id(found) or highest) >= highest:
            return found
        return msgspec.structs.replace(found, configuration={**found.configuration, MAX_COLUMN_ID: str(highest)})

    @property
    def protocol(self) -> Protocol:
        """That of the head, with all features of the version; a fence stays as it is."""
        return upgrade(self.head.protocol, writer_features_of(self.wanted.protocol) - {FENCE_FEATURE})

    @property
    def is_needed(self) -> bool:
        """Whether the table differs from the version."""
        same = (self.metadata, self.protocol) == (self.head.metadata, self.head.protocol)
        return not same or bool(self.files.added or self.files.removed or self._clustering())

    @property
    def parameters(self) -> Parameters:
        """What was asked for, in Delta Spark's words."""
        return restore_parameters(self.wanted.version if self.asked is None else None, self.asked)

    @property
    def metrics(self) -> dict[str, str]:
        """What it does, in Delta Spark's words."""
        return restore_metrics(
            self.files.added, self.files.removed, num_files=self.files.num_files, num_bytes=self.files.num_bytes
        )

    def actions(self) -> Iterator[Action]:
        """The actions of the commit, in Delta Spark's order, but for the protocol, which it puts last."""
        yield self.metadata
        yield self.protocol
        for add in sorted(self.files.added, key=attrgetter("path")):
            yield msgspec.structs.replace(add, data_change=True)
        for add in sorted(self.files.removed, key=attrgetter("path")):
            yield removed_file(add, data_change=True)
        yield from self._clustering()

    def require_possible(self, verifier: FileVerifier) -> None:
        """Refuse to delete rows of a table that is append-only, and a version whose files are not all in the store."""
        if self.files.removed and append_only(self.head.metadata):
            raise Refused(
                f"table {self.head.table!r} has delta.appendOnly, and a restore to version {self.wanted.version} "
                "deletes rows",
                hint="set delta.appendOnly to false first",
                table=self.head.table,
            )
        needed = [path for add in self.files.added for path in named_paths(add.path, add.deletion_vector)]
        if not (missing := verifier.missing(needed)):
            return
        named = ", ".join(sorted(missing)[:_NAMED]) + (", …" if len(missing) > _NAMED else "")
        raise NotFound(
            f"table {self.head.table!r} cannot be restored to version {self.wanted.version}: {len(missing)} of "
            f"{len(needed)} files are gone: {named}",
            hint="vacuum deletes the files of versions that are past their retention; restore a later version",
            table=self.head.table,
            version=self.wanted.version,
        )

    def _clustering(self) -> list[DomainMetadata]:
        before, wanted = (each.domain_metadata().get(CLUSTERING_DOMAIN) for each in (self.head, self.wanted))
        if wanted is None:
            return [] if before is None else [msgspec.structs.replace(before, removed=True)]
        return [] if wanted == before else [wanted]
