"""Slices of a log, and batches of their parts: all of it, in order, and never too much at once."""

from types import SimpleNamespace
from typing import Any

import pytest

from deltamirror.config import StorageSettings
from deltamirror.pipeline.run.slices import LogSlice, batches_of, commit_slices
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.store import ETag, Meta

pytestmark = [pytest.mark.requirement("R31"), pytest.mark.requirement("R87")]

MIB = 1024 * 1024


def slices_of(*sizes: int, first: int = 0) -> list[LogSlice]:
    """The slices of commits of these sizes."""
    metas = [
        (first + n, Meta(key=f"{first + n}", size=size, modified=0, etag=ETag(""))) for n, size in enumerate(sizes)
    ]
    return list(commit_slices(metas, table_id=7, address=StoreAddress.of("/lake/t", StorageSettings())))


def versions_of(slices: list[LogSlice]) -> list[tuple[int, list[int]]]:
    return [(each.version, [int(meta.key) for meta in each.commits]) for each in slices]


def test_small_commits_share_a_slice_up_to_a_number() -> None:
    found = slices_of(*[1] * 1_001, first=3)
    assert versions_of(found) == [
        (3, list(range(3, 503))),
        (503, list(range(503, 1_003))),
        (1_003, [1_003]),
    ]
    assert [each.num_bytes for each in found] == [500, 500, 1]


def test_commits_share_a_slice_up_to_a_size_and_a_large_one_has_its_own() -> None:
    found = slices_of(2 * MIB, 2 * MIB, 1, 100 * MIB, 1)
    assert versions_of(found) == [(0, [0, 1]), (2, [2]), (3, [3]), (4, [4])]
    assert [each.num_bytes for each in found] == [4 * MIB, 1, 100 * MIB, 1]


def test_no_commits_are_no_slice() -> None:
    assert slices_of() == []


def part_of(added: int, removed: int) -> Any:
    return SimpleNamespace(added=range(added), removed=range(removed))


def test_parts_are_stored_together_up_to_a_number_of_rows() -> None:
    parts = [part_of(30_000, 0), part_of(0, 19_998), part_of(1, 1), part_of(60_000, 0), part_of(0, 0)]
    assert list(batches_of(parts)) == [parts[:2], parts[2:4], parts[4:]]
    assert list(batches_of([])) == []
