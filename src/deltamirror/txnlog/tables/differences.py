"""What two versions of a table differ in: the files that one has and the other has not."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.sql import Select

from deltamirror.delta.actions import Add, FileKey
from deltamirror.delta.replay import reconciliation_key
from deltamirror.txnlog.content.projection import ended_by
from deltamirror.txnlog.content.rows import add_of
from deltamirror.txnlog.database.schema import versions
from deltamirror.txnlog.tables.reading import Snapshot, look_at


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBack:
    """The way from the files of one version to those of an earlier one."""

    added: list[Add]
    """Those that only the earlier version has."""
    removed: list[Add]
    """Those that only the later version has."""
    num_files: int
    """How many files the earlier version has."""
    num_bytes: int
    """And their size."""


def difference(later: Snapshot, earlier: Snapshot) -> WayBack:
    """What has to be added to, and removed from, one version of a table to get an earlier one.

    A file that was removed in between and added again is in both, as is one whose statistics alone have changed.
    """
    ended = earlier.files_query().where(ended_by(later.version))
    begun = later.files_query().where(versions.c.version > earlier.version)
    added, removed = _by_key(earlier, ended), _by_key(later, begun)
    whole = earlier.files_query().subquery()
    with look_at(earlier) as connection:
        count, size = connection.execute(select(func.count(), func.sum(whole.c.size))).one()
    return WayBack(
        added=[added[key] for key in added.keys() - removed.keys()],
        removed=[removed[key] for key in removed.keys() - added.keys()],
        num_files=int(count),
        num_bytes=int(size or 0),
    )


def _by_key(taken: Snapshot, query: Select[Any]) -> dict[FileKey, Add]:
    with look_at(taken) as connection:
        found = (add_of(row) for row in connection.execute(query))
        return {reconciliation_key(each): each for each in found}
