"""The sidecars of a checkpoint that the next one names again: in them, no action changes.

They are judged as row groups are (``unchanged``), each as a whole. The actions of the others are read, and sorted anew
among the newer ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from deltamirror.delta.actions import Sidecar
from deltamirror.deltalog.checkpoint import parquet
from deltamirror.deltalog.checkpoint.blocks import in_threads
from deltamirror.deltalog.checkpoint.reconciliation import FileActions
from deltamirror.publish.checkpoint.unchanged import (
    Bounds,
    Group,
    Sought,
    groups_of,
    has_any,
    is_too_large,
    without_crowds,
)
from deltamirror.work import CheckpointUnit

_SMALL_PART: Final = 4
"""A sidecar with less than this part of the actions that it may have is small.

Newer actions are written again and again until they fill so much of one; and a reader opens so many times as many
sidecars as it has to, at most.
"""


@dataclass(frozen=True, slots=True)
class SidecarFile:
    """A sidecar as the checkpoint names it, and its file, which is the one that was written."""

    named: Sidecar
    file: parquet.File


@dataclass(frozen=True, slots=True, kw_only=True)
class UnchangedSidecars:
    """Sidecars that the next checkpoint names as they are."""

    named: Sequence[Sidecar]
    num_actions: int
    num_files: int


def unchanged_sidecars(
    sidecars: Sequence[SidecarFile],
    newer: FileActions,
    unit: CheckpointUnit,
    *,
    tombstones_after: int,
    has_form: Callable[[pa.Buffer], bool],
) -> list[Group]:
    """Those that no newer action and no expiry changes, each as one group with its place among ``sidecars``.

    The next checkpoint's sidecars have a form: one without it is not among them.
    """
    files = [each.file for each in sidecars]
    groups = [groups_of(file, compression=unit.compression) for file in files]
    lasting = [
        whole
        for number, file in enumerate(files)
        if (whole := _whole(file, groups[number], number, unit)) is not None
        and has_form(file.data)
        and (whole.removes is None or whole.oldest > tombstones_after)
    ]
    sought = [Sought(table) for table in newer]
    lasting = without_crowds(lasting)
    places = [(each.number, group) for each in lasting for group in groups[each.number]]
    judged = in_threads(lambda place: has_any(files[place[0]], place[1], sought), places)
    changed = {number for (number, _), is_changed in zip(places, judged, strict=True) if is_changed}
    return [each for each in lasting if each.number not in changed]


def _whole(file: parquet.File, groups: Sequence[Group], number: int, unit: CheckpointUnit) -> Group | None:
    """All row groups of a sidecar as one; None where one of them is in doubt, or its size is not as it should be."""
    num_rows = sum(each.num_rows for each in groups)
    is_certain = len(groups) == file.metadata.num_row_groups
    is_small = num_rows * _SMALL_PART < unit.sidecar_actions
    is_large = num_rows > unit.sidecar_actions or any(is_too_large(each, unit.row_group_bytes) for each in groups)
    if is_small or is_large or not is_certain or any(each.has_others for each in groups):
        return None
    return Group(
        number=number,
        num_rows=num_rows,
        num_files=sum(each.num_files for each in groups),
        num_removes=sum(each.num_removes for each in groups),
        num_bytes=sum(each.num_bytes for each in groups),
        least_bytes=sum(each.least_bytes for each in groups),
        files=_around([each.files for each in groups if each.files is not None]),
        removes=_around([each.removes for each in groups if each.removes is not None]),
        oldest=min((each.oldest for each in groups if each.removes is not None), default=0),
    )


def _around(bounds: Sequence[Bounds]) -> Bounds | None:
    if not bounds:
        return None
    return min(least for least, _ in bounds), max(greatest for _, greatest in bounds)
