"""The state of a table from the lines of its commits, without a Python object for each file."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.actions import Action, DomainMetadata, Txn
from deltamirror.delta.replay import State, checkpoint_actions
from deltamirror.deltalog.checkpoint.blocks import blocks_of, in_threads
from deltamirror.deltalog.checkpoint.file_lines import Block, MapKeys, parsed
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES
from deltamirror.deltalog.checkpoint.merging import are_few, merged
from deltamirror.deltalog.checkpoint.reconciliation import FileActions, reconciled
from deltamirror.deltalog.checkpoint.scratch import Gathering
from deltamirror.deltalog.checkpoint.state import CheckpointState, tombstones_after, transactions_after
from deltamirror.deltalog.checkpoint.typed_columns import with_statistics

_ORDINAL: Final = pa.field("ordinal", pa.int64())
_ADDS: Final = FILES.append(_ORDINAL)
_REMOVES: Final = REMOVES.append(_ORDINAL)


@dataclass(frozen=True, slots=True)
class Newer:
    """The actions of commits that follow on a checkpoint, or on nothing."""

    others: State
    """Protocol, metadata, transactions and domains after the commits, those of the checkpoint included."""
    files: FileActions
    """The commits' own, in the order of keys, no key twice."""


def replay(
    fetched: Iterable[Iterable[bytes]], *, version: int, committed_at: int, base: CheckpointState | None
) -> CheckpointState:
    """The state after commits, oldest first, each of them a stream of whole lines, that follow on ``base``."""
    newer = replay_newer(fetched, () if base is None else base.others)
    older = None if base is None else (base.files, base.removes)
    return continued(newer, older, version=version, committed_at=committed_at)


def replay_newer(fetched: Iterable[Iterable[bytes]], others: Collection[Action]) -> Newer:
    """The actions of commits that follow on a checkpoint with these actions beside its files."""
    state = State()
    state.apply(others)
    return Newer(state, reconciled(*_gathered(_blocks(fetched), state)))


def continued(newer: Newer, older: FileActions | None, *, version: int, committed_at: int) -> CheckpointState:
    """The state after ``newer`` actions replaced those of ``older`` files, which may be a part of a checkpoint's.

    ``older`` files may have ``stats_parsed``.
    """
    (files, tombstones), others = newer.files, newer.others
    if older is not None:
        older_files, older_removes = older
        if are_few(newer.files):
            older_files, files = with_statistics(older_files, files, others.metadata, others.protocol)
        files, tombstones = merged((older_files, older_removes), (files, tombstones))
    return _state(others, files, tombstones, version=version, committed_at=committed_at)


def _gathered(blocks: Iterable[Block], others: State) -> FileActions:
    """The file actions of all blocks; the other actions are applied to ``others``."""
    adds, removes = Gathering(_ADDS), Gathering(_REMOVES)
    for block in blocks:
        others.apply(block.actions)
        adds.add(block.adds)
        removes.add(block.removes)
    # The memory of parsing goes back to the system before reconciliation needs about as much.
    pa.default_memory_pool().release_unused()
    return adds.whole(), removes.whole()


def _blocks(fetched: Iterable[Iterable[bytes]]) -> Iterator[Block]:
    """What the lines say, with ordinals that go through."""
    count = 0
    for block in in_threads(partial(parsed, keys=MapKeys()), blocks_of(fetched)):
        adds, removes = _numbered(block.adds, count), _numbered(block.removes, count)
        yield Block(actions=block.actions, adds=adds, removes=removes, num_lines=block.num_lines)
        count += block.num_lines


def _numbered(files: pa.Table, first: int) -> pa.Table:
    place = files.schema.get_field_index("ordinal")
    return files.set_column(place, _ORDINAL, pc.add(files.column(place), first))


def _state(others: State, files: pa.Table, tombstones: pa.Table, *, version: int, committed_at: int) -> CheckpointState:
    metadata = others.metadata
    deleted_after = tombstones_after(metadata, committed_at=committed_at)
    updated_after = transactions_after(metadata, committed_at=committed_at)
    kept = list(checkpoint_actions(others, tombstones_after=deleted_after, transactions_after=updated_after))
    unexpired = pc.greater(pc.fill_null(tombstones.column("deletionTimestamp"), 0), deleted_after)
    return CheckpointState(
        version=version,
        protocol=others.protocol,
        metadata=metadata,
        transactions=tuple(sorted((each for each in kept if isinstance(each, Txn)), key=lambda each: each.app_id)),
        domains=tuple(
            sorted((each for each in kept if isinstance(each, DomainMetadata)), key=lambda each: each.domain)
        ),
        files=files,
        removes=tombstones.filter(unexpired),
    )
