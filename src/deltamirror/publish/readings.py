"""Published versions, opened by an independent reader, and held against what was committed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, TypeAlias

import pyarrow.compute as pc

from deltamirror.config import redact_text
from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.checksum import Checksum
from deltamirror.deltalog.checkpoint.state import CheckpointState
from deltamirror.deltalog.delta_rs import DELTA_RS, add_actions, knows_too_little, open_table
from deltamirror.deltalog.listing import read_listing
from deltamirror.deltalog.states import state_at
from deltamirror.errors import Internal, Transient
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.clients import Credentials
from deltamirror.storage.store import Store

_IN_MEMORY = "memory://"
"""Stores that no other library can reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedVersion:
    """A version as a reader sees it, or as it was committed; None: not known."""

    num_files: int | None
    num_bytes: int | None
    """Of all files together."""
    min_reader_version: int
    min_writer_version: int
    metadata_id: str
    partition_columns: Sequence[str]
    configuration: Mapping[str, str]

    @classmethod
    def of(cls, protocol: Protocol, metadata: Metadata, *, num_files: int | None, num_bytes: int | None) -> Self:
        """From the actions that are in force."""
        return cls(
            num_files=num_files,
            num_bytes=num_bytes,
            min_reader_version=protocol.min_reader_version,
            min_writer_version=protocol.min_writer_version,
            metadata_id=metadata.id,
            partition_columns=list(metadata.partition_columns),
            configuration=dict(metadata.configuration),
        )

    @classmethod
    def of_checksum(cls, checksum: Checksum) -> Self:
        """As the version checksum says, which follows from the committed lines."""
        files, size = checksum.num_files, checksum.table_size_bytes
        return cls.of(checksum.protocol, checksum.metadata, num_files=files, num_bytes=size)

    def difference(self, expected: Self) -> str:
        """The first field that is not as expected; empty where all are."""
        for each in fields(self):
            found, wanted = getattr(self, each.name), getattr(expected, each.name)
            if wanted is not None and found != wanted:
                return f"{each.name} is {found!r}, not {wanted!r}"
        return ""


LogReader: TypeAlias = Callable[[int], OpenedVersion | None]
"""Opens a version of a table; None where it does not know a feature of the table, or has no way to its store."""


def read_by_delta_rs(address: StoreAddress, credentials: Credentials, version: int) -> OpenedVersion | None:
    """A version as delta-rs sees it, from the log alone; Transient where it cannot open it."""
    if address.location.startswith(_IN_MEMORY):
        return None
    try:
        return _reading(open_table(address.location, version, address.options, credentials))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a library of others raises; a panic is no Exception
        message = redact_text(f"{type(error).__name__}: {error}")
    if knows_too_little(message):
        return None
    raise Transient(
        f"{DELTA_RS} cannot open version {version} of the log in {address.location}: {message}",
        hint=f"the mirror tries again; `deltamirror validate {address.location}` holds the log against the protocol",
    )


def require_as_committed(
    read: LogReader, store: Store, version: int, *, table: str, expected: OpenedVersion | None
) -> None:
    """Open a published version; Internal where the reader sees something else than was committed.

    Our own reader of logs takes the place of one that knows too little of the table. Where nothing is ``expected``, it
    suffices that the version can be opened.
    """
    found, reader = read(version), DELTA_RS
    if found is None:
        found, reader = _of_state(state_at(store, read_listing(store), version)), "deltamirror"
    if expected is not None and (difference := found.difference(expected)):
        raise Internal(
            f"{reader} reads version {version} of table {table!r} in {store.location} otherwise than it was committed: "
            f"{difference}",
            hint=f"`deltamirror verify {table} --level paranoid` shows what is wrong, and --repair repairs it",
        )


def _reading(table: Any) -> OpenedVersion:
    protocol, metadata, sizes = table.protocol(), table.metadata(), add_actions(table).column("size_bytes")
    return OpenedVersion(
        num_files=len(sizes),
        num_bytes=pc.sum(sizes, min_count=0).as_py(),
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        metadata_id=str(metadata.id),
        partition_columns=list(metadata.partition_columns),
        configuration=dict(metadata.configuration),
    )


def _of_state(state: CheckpointState) -> OpenedVersion:
    size = pc.sum(state.files.column("size"), min_count=0).as_py()
    return OpenedVersion.of(state.protocol, state.metadata, num_files=state.files.num_rows, num_bytes=size)
