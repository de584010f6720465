"""Row tracking: every row of a table has an id, given by its file's first id and its position in the file.

Ids are handed out in the order of the commit's adds, above the high water mark, which the domain
``delta.rowTracking`` holds. The mark is known only once the commit's version is, so ids are assigned at that moment
and again, from the bare actions, whenever a commit is rebased.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec.structs import replace

from deltamirror.delta.actions import Action, Add, DomainMetadata, Long
from deltamirror.errors import InvalidAction

ROW_TRACKING_DOMAIN = "delta.rowTracking"

MOST_ROW_ID = 2**63 - 1
MOST_RECORDS = 2**40
"""No file has more rows. A larger count is a mistake that would use up the row ids of its table."""

NumRecords: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_RECORDS)]

_BEFORE_FIRST_ROW = -1


class _Stats(msgspec.Struct):
    numRecords: NumRecords  # noqa: N815  # the member's name on the wire


class _Mark(msgspec.Struct):
    rowIdHighWaterMark: Long  # noqa: N815  # the member's name on the wire


_STATS = msgspec.json.Decoder(_Stats)
_MARK = msgspec.json.Decoder(_Mark)


def high_water_mark(domains: Mapping[str, DomainMetadata]) -> int | None:
    """The highest row id handed out so far; ``None`` if the table has not handed out any."""
    domain = domains.get(ROW_TRACKING_DOMAIN)
    if domain is None or domain.removed:
        return None
    try:
        return _MARK.decode(domain.configuration).rowIdHighWaterMark
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidAction(
            f"the domain {ROW_TRACKING_DOMAIN} holds no rowIdHighWaterMark: {error}",
            rule="domainMetadata.configuration.row-tracking",
            action="domainMetadata",
            field="configuration",
            found=domain.configuration,
        ) from error


def assign(
    actions: Iterable[Action], *, high_water_mark: int | None, version: int
) -> tuple[list[Action], DomainMetadata | None]:
    """The actions of commit ``version`` with row ids, and the domain that records the mark they reached.

    An add that states its ids (it adds a file again, to change its deletion vector or statistics) keeps them.
    The domain is there only if the mark moved; it is the last of the returned actions, too.
    """
    ids = RowIds(high_water_mark=high_water_mark, version=version)
    assigned = ids.number(actions)
    if ids.mark == ids.start:
        return assigned, None
    domain = row_tracking_domain(ids.mark)
    return [*assigned, domain], domain


class RowIds:
    """Hands out row ids to the adds of commit ``version``, some of them at a time; ``mark`` is the last id so far."""

    def __init__(self, *, high_water_mark: int | None, version: int) -> None:
        self.start = self.mark = _BEFORE_FIRST_ROW if high_water_mark is None else high_water_mark
        self.version = version

    def number(self, actions: Iterable[Action], *, index: int = 0) -> list[Action]:
        """The next actions of the commit, the first of them at ``index``, with row ids."""
        numbered: list[Action] = []
        for place, action in enumerate(actions, index):
            if isinstance(action, Add):
                add, self.mark = _with_ids(action, index=place, start=self.start, mark=self.mark, version=self.version)
                numbered.append(add)
            else:
                numbered.append(action)
        return numbered


def _with_ids(add: Add, *, index: int, start: int, mark: int, version: int) -> tuple[Add, int]:
    """``add`` with both ids, and the mark after it."""
    commit_version = version if add.default_row_commit_version is None else add.default_row_commit_version
    if add.base_row_id is None:
        stated = replace(add, base_row_id=mark + 1, default_row_commit_version=commit_version)
        reached = mark + _num_records(add, index)
        if reached >= MOST_ROW_ID:
            raise _exhausted(add, index=index, mark=mark)
        return stated, reached
    if add.base_row_id > start or add.base_row_id + _stated_records(add) - 1 > start:
        raise _beyond_mark(add, index=index, mark=start)
    if add.default_row_commit_version is None:
        add = replace(add, default_row_commit_version=commit_version)
    return add, mark


def _stated_records(add: Add) -> int:
    """The rows of a file that is added again; 0 where its statistics do not tell."""
    try:
        return _STATS.decode(add.stats or "").numRecords
    except msgspec.DecodeError:
        return 0


def _num_records(add: Add, index: int) -> int:
    """The rows of the file, deleted ones included: each of them has an id."""
    try:
        return _STATS.decode(add.stats or "").numRecords
    except msgspec.DecodeError as error:
        raise InvalidAction(
            f"row tracking needs numRecords in the stats of {add.path}",
            hint="write the file with statistics, or state numRecords in add.stats",
            rule="add.stats.num-records",
            action="add",
            index=index,
            field="stats",
            found="nothing" if add.stats is None else add.stats,
        ) from error


def _beyond_mark(add: Add, *, index: int, mark: int) -> InvalidAction:
    return InvalidAction(
        f"{add.path} states baseRowId {add.base_row_id} for {_stated_records(add)} rows, which the table has not "
        f"handed out (its mark is {mark})",
        hint="leave baseRowId out of files that the table does not have: ids are assigned at commit; a file that is "
        "added again keeps its numRecords",
        rule="add.baseRowId.beyond-mark",
        action="add",
        index=index,
        field="baseRowId",
        found=str(add.base_row_id),
    )


def _exhausted(add: Add, *, index: int, mark: int) -> InvalidAction:
    return InvalidAction(
        f"{add.path} would use up the row ids of the table: its mark is {mark}, the last id {MOST_ROW_ID}",
        hint="rewrite the table into a new one: its row ids begin again",
        rule="add.baseRowId.exhausted",
        action="add",
        index=index,
        field="baseRowId",
        found=str(mark),
    )


def row_tracking_domain(mark: int) -> DomainMetadata:
    """The action that records the last id handed out."""
    # Delta Lake on Spark repeats the domain's name inside its configuration; exact bytes need it.
    configuration = f'{{"rowIdHighWaterMark":{mark},"domainName":"{ROW_TRACKING_DOMAIN}"}}'
    return DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration=configuration, removed=False)
