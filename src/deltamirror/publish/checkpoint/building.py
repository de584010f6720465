"""From a unit of work to what its checkpoint has to hold: commits, replayed on the checkpoint before them.

The base is believed because its file has the digest that was recorded. Row groups and sidecars in which nothing changes
are not even decoded: the state that is built lacks their actions, and the next checkpoint has them as they are.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from deltamirror.delta import properties
from deltamirror.delta.chunks import commit_digest
from deltamirror.delta.replay import State
from deltamirror.deltalog.checkpoint import content
from deltamirror.deltalog.checkpoint.content import CheckpointState
from deltamirror.deltalog.checkpoint.layout import checkpoint_columns
from deltamirror.deltalog.checkpoint.statistics import statistics_schema
from deltamirror.errors import Internal
from deltamirror.publish.checkpoint.base_checkpoint import read_base
from deltamirror.publish.checkpoint.classic_base import UNREADABLE, ClassicBase
from deltamirror.publish.checkpoint.stitching import UnchangedGroups
from deltamirror.publish.checkpoint.unchanged import Group
from deltamirror.publish.checkpoint.unchanged_sidecars import UnchangedSidecars
from deltamirror.publish.checkpoint.v2_base import V2Base
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointBase, CheckpointUnit, CommitWork, Fetch


class BaseUnusable(Exception):
    """The state cannot be built from the base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a checkpoint has to hold."""

    state: CheckpointState
    """Without the file actions of unchanged row groups and sidecars."""
    num_files: int
    """How many live files there are, those of unchanged row groups and sidecars among them."""
    unchanged: UnchangedGroups | None = None
    """Row groups of a base in one file; None: the state has all other file actions."""
    sidecars: UnchangedSidecars | None = None
    """Sidecars of a base that has some; None: the state has all other file actions."""


def build(unit: CheckpointUnit, store: Store, fetch: Fetch) -> Built:
    """The state of the unit's version; BaseUnusable where the base does not lead to it."""
    fetched = (_decoded(work, fetch) for work in unit.commits)
    built = _from_all(unit, fetched) if unit.base is None else _from_base(unit, unit.base, store, fetched)
    if unit.num_files not in (None, built.num_files):
        if unit.base is not None:
            raise BaseUnusable  # whatever is wrong with it: all lines say how many there are
        raise Internal(
            f"the lines of {unit.table} up to version {unit.version} leave {built.num_files:,} files, "
            f"but the catalog counts {unit.num_files:,}"
        )
    return built


def is_v2(found: State | CheckpointState) -> bool:
    """Whether a checkpoint of this state has sidecars."""
    has_feature = "v2Checkpoint" in (found.protocol.reader_features or ())
    return has_feature and properties.checkpoint_policy(found.metadata) == "v2"


def _from_all(unit: CheckpointUnit, fetched: Iterable[Iterable[bytes]]) -> Built:
    state = content.replay(fetched, version=unit.version, committed_at=unit.committed_at, base=None)
    return Built(state=state, num_files=state.files.num_rows)


def _from_base(
    unit: CheckpointUnit, recorded: CheckpointBase, store: Store, fetched: Iterable[Iterable[bytes]]
) -> Built:
    with _reading_base():
        base = read_base(recorded, store)
    if base is None:
        raise BaseUnusable
    newer = content.replay_newer(fetched, base.others)
    times = {"base_committed_at": recorded.committed_at, "committed_at": unit.committed_at}
    if not content.can_continue(base.metadata, newer.others.metadata, **times):
        raise BaseUnusable
    others = newer.others
    _check_columns(others)
    is_alike = isinstance(base, V2Base) == is_v2(others)
    with _reading_base():
        unchanged = base.unchanged(newer, unit) if is_alike else []
        numbers = [each.number for each in unchanged]
        older = base.file_actions(others.metadata, others.protocol, without=numbers)
    state = content.continued(newer, older, version=unit.version, committed_at=unit.committed_at)
    return Built(
        state=state,
        num_files=state.files.num_rows + sum(each.num_files for each in unchanged),
        unchanged=UnchangedGroups(base.data, numbers) if unchanged and isinstance(base, ClassicBase) else None,
        sidecars=_named_again(base, unchanged) if unchanged and isinstance(base, V2Base) else None,
    )


def _check_columns(wanted: State) -> None:
    """Metadata that no checkpoint can be made of fails the unit: the error does not condemn the base."""
    checkpoint_columns(wanted.metadata, wanted.protocol)
    statistics_schema(wanted.metadata, wanted.protocol)


def _named_again(base: V2Base, unchanged: Sequence[Group]) -> UnchangedSidecars:
    return UnchangedSidecars(
        named=[base.sidecars[each.number].named for each in unchanged],
        num_actions=sum(each.num_rows for each in unchanged),
        num_files=sum(each.num_files for each in unchanged),
    )


@contextmanager
def _reading_base() -> Iterator[None]:
    try:
        yield
    except MemoryError:  # Arrow's is an exception of both kinds
        raise
    except UNREADABLE as error:
        raise BaseUnusable from error


def _decoded(work: CommitWork, fetch: Fetch) -> Iterator[bytes]:
    """The commit's lines, chunk by chunk; at the end it is sure that none is missing. A base has no digest."""
    digests = []
    for chunk in fetch(work):
        digests.append(chunk.digest)
        yield chunk.decoded()
    if work.is_base:
        return
    if not digests or commit_digest(digests) != work.digest:
        raise Internal(f"the stored commit {work.version} does not have the digest that it was stored with")
