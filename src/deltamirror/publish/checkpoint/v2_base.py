"""A checkpoint with sidecars, of which the next one names some again, and reads the others."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Final, Self

import pyarrow as pa

from deltamirror.delta import names
from deltamirror.delta.actions import Action, Metadata, Protocol, Sidecar
from deltamirror.delta.replay import State
from deltamirror.deltalog.checkpoint import content, parquet
from deltamirror.deltalog.checkpoint.content import Newer
from deltamirror.deltalog.checkpoint.layout import file_columns
from deltamirror.deltalog.checkpoint.reconciliation import FileActions
from deltamirror.deltalog.checkpoint.scratch import Pile
from deltamirror.deltalog.checkpoint.state import tombstones_after
from deltamirror.errors import InvalidInput
from deltamirror.publish.checkpoint.encoding import encoded
from deltamirror.publish.checkpoint.fetching import fetched
from deltamirror.publish.checkpoint.older_actions import older_actions
from deltamirror.publish.checkpoint.sidecars import TopFile, read_top
from deltamirror.publish.checkpoint.stitching import have_same_form
from deltamirror.publish.checkpoint.unchanged import Group
from deltamirror.publish.checkpoint.unchanged_sidecars import SidecarFile, unchanged_sidecars
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointBase, CheckpointUnit

_THREADS: Final = 4
_IN_MEMORY: Final = 256 * 1024 * 1024
"""So many bytes of all sidecars; more of them lie aside."""


@dataclass(frozen=True, slots=True)
class V2Base:
    """The sidecars of a checkpoint, and its actions that are no files."""

    sidecars: Sequence[SidecarFile]
    others: Sequence[Action]
    metadata: Metadata
    protocol: Protocol

    @classmethod
    def read(cls, top: bytes, base: CheckpointBase, store: Store) -> Self:
        """A sidecar that is gone or has another content than its name says makes the whole checkpoint unusable.

        One of the errors ``UNREADABLE`` then, and where the bytes are no checkpoint.
        """
        file, state = read_top(top, source=base.name), State()
        state.apply(file.others)
        sidecars = _fetched_together(file.sidecars, partial(_fetched, store, file, base.version))
        return cls(sidecars, file.others, state.metadata, state.protocol)

    def unchanged(self, newer: Newer, unit: CheckpointUnit) -> list[Group]:
        """The sidecars that the checkpoint after newer commits names again, by their places.

        There are none where the id of the table is another, which their names follow from; and none that have another
        form than the next ones get, in schema, writer and version of Spark.
        """
        metadata = newer.others.metadata
        if metadata.id != self.metadata.id:
            return []
        columns = file_columns(metadata, newer.others.protocol)
        schema = content.checkpoint_schema(columns)
        empty = encoded([columns.empty_table()], columns, schema, compression=unit.compression)
        return unchanged_sidecars(
            self.sidecars,
            newer.files,
            unit,
            tombstones_after=tombstones_after(metadata, committed_at=unit.committed_at),
            has_form=partial(have_same_form, empty),
        )

    def file_actions(self, metadata: Metadata, protocol: Protocol, *, without: Collection[int]) -> FileActions:
        """The files and tombstones of all sidecars but some, for a checkpoint with these."""
        files = [each.file for number, each in enumerate(self.sidecars) if number not in without]
        return older_actions(files, (self.metadata, self.protocol), wanted=(metadata, protocol))


def _fetched_together(sidecars: Sequence[Sidecar], fetch: Callable[[Sidecar], pa.Buffer]) -> list[SidecarFile]:
    """The files of sidecars, in one pile: each of them is small, but there may be hundreds."""
    pile, lock = Pile(_IN_MEMORY), Lock()

    def place_of(sidecar: Sidecar) -> tuple[int, int]:
        data = fetch(sidecar)
        with lock:
            pile.add(data)
            return pile.size - data.size, data.size

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="sidecar") as threads:
        places = list(threads.map(place_of, sidecars))
    whole = pile.whole()
    files = (parquet.File(whole.slice(start, size)) for start, size in places)
    return [SidecarFile(named, file) for named, file in zip(sidecars, files, strict=True)]


def _fetched(store: Store, file: TopFile, version: int, sidecar: Sidecar) -> pa.Buffer:
    data = fetched(store, f"{names.SIDECARS}/{sidecar.path}")
    if data is None:
        raise InvalidInput(f"there is no sidecar {sidecar.path} in {store.location}")
    if not file.is_as_written(sidecar, version, sha256(data).digest()):
        raise InvalidInput(f"the sidecar {sidecar.path} in {store.location} is not the one that was written")
    return data
