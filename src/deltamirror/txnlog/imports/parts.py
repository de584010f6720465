"""A table's history on its way into the catalog, in parts: of commit files, and of the checkpoint that comes first.

Everything here is pure, and its values pickle: executors make parts, in any order, and the driver stores them in order.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltamirror.delta import lines
from deltamirror.delta.actions import Action, Add, Cdc, CheckpointMetadata, CommitInfo, Remove, Sidecar
from deltamirror.delta.chunks import Chunk, compressed_chunk, plain_chunk
from deltamirror.delta.timestamps import LAST_TIMESTAMP
from deltamirror.delta.validation import OncePerCommit
from deltamirror.delta.validation.rules import violation
from deltamirror.errors import CapacityExceeded, DeltaMirrorError, InvalidInput, InvalidLine
from deltamirror.txnlog.content.rows import file_row, remove_row
from deltamirror.txnlog.database.access import Row
from deltamirror.txnlog.imports.checkpoint_columns import added_rows, removed_rows

_VERSION_BITS = 32
LAST_VERSION = (1 << _VERSION_BITS) - 1
"""The largest that can be imported."""

_ORDINAL_BITS = 31
_ROW_BITS = 20
"""Adds of one part of a base: as many as the largest row group that any writer makes."""

_PLAIN_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPart:
    """Some whole lines of a commit file: their bytes, and what they come to."""

    version: int
    part: int
    last: bool
    chunk: Chunk
    num_lines: int
    modified: int
    """The time of the file (ms)."""
    small: tuple[Action, ...]
    """The actions besides files."""
    added: list[Row]
    removed: list[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class BasePart:
    """A part of the state that the first version comes from."""

    part: int
    modified: int
    """The time of the checkpoint's file (ms)."""
    small: tuple[Action, ...]
    added: list[Row]
    removed: list[Row]


def imported_commit_id(table_id: int, version: int) -> int:
    """The id of an imported commit: below all that are made from the time, and in the order of versions."""
    if not 0 <= version <= LAST_VERSION:
        raise CapacityExceeded(f"version {version} cannot be imported: the limit is {LAST_VERSION}")
    return table_id << _VERSION_BITS | version


def commit_parts(
    blocks: Iterable[bytes], *, table_id: int, version: int, modified: int, source: str
) -> Iterator[CommitPart]:
    """The parts of a commit file that is given in blocks of whole lines, byte for byte.

    Raises what is wrong with a line, or with the commit as a whole, and says in which line of ``source``.
    """
    commit_id, reading, first = imported_commit_id(table_id, version), _Reading(source), 0
    for part, (block, last) in enumerate(_with_last(blocks)):
        numbered = list(enumerate(reading.actions(block), first))
        yield CommitPart(
            version=version,
            part=part,
            last=last,
            chunk=_chunk(block, alone=last and part == 0),
            num_lines=len(numbered),
            modified=modified,
            small=tuple(action for _, action in numbered if not isinstance(action, Add | Remove | Cdc)),
            added=[file_row(table_id, commit_id, n, action) for n, action in numbered if isinstance(action, Add)],
            removed=[
                remove_row(table_id, commit_id, n, action) for n, action in numbered if isinstance(action, Remove)
            ],
        )
        first += len(numbered)


def base_part(
    files: pa.Table,
    removes: pa.Table,
    others: Sequence[Action],
    *,
    table_id: int,
    version: int,
    part: int,
    modified: int,
) -> BasePart:
    """Some rows of the checkpoint that the first version comes from: its columns of adds and removes, and the rest."""
    first, commit_id = part << _ROW_BITS, imported_commit_id(table_id, version)
    if max(files.num_rows, removes.num_rows) > 1 << _ROW_BITS or first >= 1 << _ORDINAL_BITS:
        raise CapacityExceeded(
            f"part {part} of the checkpoint {version}, of {files.num_rows:,} files, is beyond what can be imported",
            hint=f"there may be {1 << (_ORDINAL_BITS - _ROW_BITS):,} parts of {1 << _ROW_BITS:,} files",
        )
    return BasePart(
        part=part,
        modified=modified,
        small=tuple(others),
        added=added_rows(files, table_id=table_id, commit_id=commit_id, first=first),
        removed=removed_rows(removes, table_id=table_id, commit_id=commit_id, first=first),
    )


def _with_last(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each block, and whether it is the last. A file without any has one, which is empty."""
    remaining = iter(blocks)
    block = next(remaining, b"")
    for following in remaining:
        yield block, False
        block = following
    yield block, True


def _chunk(block: bytes, *, alone: bool) -> Chunk:
    return plain_chunk(block) if alone and len(block) <= _PLAIN_BYTES else compressed_chunk(block)


class _Reading:
    """A commit file that is read in order: every line is an action, and no action clashes with an earlier one."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._once = OncePerCommit()
        self._lines = 0

    def actions(self, block: bytes) -> list[Action]:
        """The actions of the next lines. Blank ones count, but hold none."""
        found = block.split(b"\n")
        actions = [
            self._action(line, number)
            for number, line in enumerate(found, self._lines + 1)
            if line and not line.isspace()
        ]
        self._lines += len(found) - (not found[-1])
        return actions

    def _action(self, line: bytes, number: int) -> Action:
        try:
            action = lines.decode(line, number=number)
        except DeltaMirrorError as error:
            error.message = f"{self._source}, {error.message}"
            if isinstance(error, InvalidLine):
                error.source = self._source
            raise
        try:
            self._once.see(action)
            _require_in_commit(action)
            _require_datable(action)
        except InvalidInput as error:
            error.message = f"{self._source}, line {number}: {error.message}"
            raise
        return action


def _require_in_commit(action: Action) -> None:
    if isinstance(action, CheckpointMetadata | Sidecar):
        name = lines.wire_name(action)
        raise violation(f"{name}.in-commit", action=name, index=None, field="", found=name)


def _require_datable(action: Action) -> None:
    """Refuse a history after which no commit could follow."""
    time = action.in_commit_timestamp if isinstance(action, CommitInfo) else None
    if time is not None and time > LAST_TIMESTAMP:
        raise violation(
            "commitInfo.in-commit-timestamp.range",
            action="commitInfo",
            index=None,
            field="inCommitTimestamp",
            found=time,
        )
