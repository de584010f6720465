"""Which objects of a log may go: a pure choice, held against the rules of the protocol case by case."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta.names import sidecar_name
from deltamirror.deltalog.retention import (
    DAY,
    Window,
    cutoff,
    expired_files,
    expired_originals,
    expired_sidecars,
    starts,
)
from deltamirror.storage.store import ETag, Meta

HOUR = DAY // 24
LOG = "_delta_log/"


def meta(key: str, *, modified: int = 0) -> Meta:
    return Meta(key, size=1, modified=modified, etag=ETag(""))


def listed(*names: str) -> list[tuple[str, Meta]]:
    return [(name, meta(LOG + name)) for name in names]


def gone(names: list[str], log_start: int) -> list[str]:
    return [each.key.removeprefix(LOG) for each in expired_files(listed(*names), log_start=log_start)]


@pytest.mark.parametrize(
    ("now", "retention", "expected"),
    [
        (40 * DAY, 30 * DAY, 10 * DAY),
        (40 * DAY + 23 * HOUR, 30 * DAY, 10 * DAY),
        (40 * DAY + HOUR, 30 * DAY + 2 * HOUR, 9 * DAY),
        (40 * DAY + 5, 0, 40 * DAY),
        (DAY, 3 * DAY, -2 * DAY),
    ],
)
def test_the_cut_off_is_the_midnight_before_the_end_of_retention(now: int, retention: int, expected: int) -> None:
    assert cutoff(now, retention) == expected


def window(**changed: Any) -> Window:
    return Window(**{"log_start": 0, "published": 40, "first_young": 25, "pointer": 40, **changed})


@pytest.mark.requirement("R20")
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, [20, 10]),  # that of version 20 is the newest which is no younger than the cut-off; 24 needs it
        ({"first_young": 21}, [20, 10]),  # at the cut-off is ideal
        ({"first_young": 20}, [10]),  # one that is younger is none, although the commit before it is old
        ({"first_young": None}, [40, 30, 20, 10]),  # all is old: the newest state stays
        ({"first_young": 10}, []),
        ({"first_young": 0}, []),
        ({"log_start": 20}, []),  # the log starts there
        ({"log_start": 10}, [20]),
        ({"pointer": None}, []),  # readers are sent nowhere
        ({"pointer": 10}, [10]),  # readers are sent there
        ({"published": 19}, [10]),
        ({"published": -1}, []),
    ],
)
def test_the_log_comes_to_start_with_the_newest_checkpoint_that_the_oldest_version_in_the_window_needs(
    changed: dict[str, int | None], expected: list[int]
) -> None:
    assert starts([10, 20, 30, 40], window(**changed)) == expected


def test_without_a_checkpoint_nothing_goes() -> None:
    assert starts([], window(first_young=None)) == []


@given(
    times=st.lists(st.integers(0, 40), min_size=1, max_size=30),
    checkpoints=st.sets(st.integers(0, 29)),
    before=st.integers(0, 40),
)
def test_whatever_somebody_asks_for_within_the_window_can_be_read(
    times: list[int], checkpoints: set[int], before: int
) -> None:
    """Times as readers see them: a version is never younger than the next one."""
    seen = list(itertools.accumulate(times, max))
    head = len(seen) - 1
    young = next((version for version, time in enumerate(times) if time > before), None)
    there = {each for each in checkpoints if each <= head}
    pointer = max(there, default=None)
    found = starts(there, Window(log_start=0, published=head, first_young=young, pointer=pointer))
    for moment in range(before, 42):
        asked = max((version for version, time in enumerate(seen) if time <= moment), default=None)
        if found and asked is not None:
            assert any(found[0] <= each <= asked for each in there)


ALL = [
    "00000000000000000000.00000000000000000009.compacted.json",
    "00000000000000000000.crc",
    "00000000000000000000.json",
    "00000000000000000001.checkpoint.0000000001.0000000002.parquet",
    "00000000000000000001.checkpoint.0000000002.0000000002.parquet",
    "00000000000000000001.checkpoint.parquet",
    "00000000000000000001.crc",
    "00000000000000000001.json",
    "00000000000000000002.00000000000000000005.compacted.json",
    "00000000000000000002.checkpoint.6b5b1b0e-0000-4000-8000-000000000000.json",
    "00000000000000000002.checkpoint.parquet",
    "00000000000000000002.crc",
    "00000000000000000002.json",
    "00000000000000000003.00000000000000000004.compacted.json",
    "00000000000000000003.json",
    "0000000001.json",
    "00000000000000000001.json.bak",
    "00000000000000000001.txt",
]


@pytest.mark.requirement("R19")
def test_the_oldest_go_first_and_of_a_version_its_checkpoints_last() -> None:
    assert gone(ALL, 2) == [
        "00000000000000000000.json",
        "00000000000000000000.crc",
        "00000000000000000000.00000000000000000009.compacted.json",
        "00000000000000000001.json",
        "00000000000000000001.crc",
        "00000000000000000001.checkpoint.0000000001.0000000002.parquet",
        "00000000000000000001.checkpoint.0000000002.0000000002.parquet",
        "00000000000000000001.checkpoint.parquet",
        "00000000000000000002.00000000000000000005.compacted.json",
    ]


def test_what_is_at_or_above_the_start_and_what_is_no_file_of_a_log_stays() -> None:
    kept = set(ALL) - set(gone(ALL, 2))
    assert kept == {
        "00000000000000000002.checkpoint.6b5b1b0e-0000-4000-8000-000000000000.json",
        "00000000000000000002.checkpoint.parquet",
        "00000000000000000002.crc",
        "00000000000000000002.json",
        "00000000000000000003.00000000000000000004.compacted.json",
        "00000000000000000003.json",
        "0000000001.json",
        "00000000000000000001.json.bak",
        "00000000000000000001.txt",
    }


def test_saved_originals_go_with_their_versions() -> None:
    saved = [meta(f"_delta_log/_deltamirror/{version:020}.json.0123456789ab") for version in (1, 2, 3)]
    others = [meta("_delta_log/_deltamirror/readme.txt"), meta("_delta_log/_deltamirror/notes")]
    assert list(expired_originals([*saved, *others], log_start=2)) == saved[:1]


def test_sidecars_go_with_their_checkpoints_unless_one_that_stays_names_them() -> None:
    old, shared, kept = (
        meta(f"_delta_log/_sidecars/{sidecar_name(v, 'u', part=p, parts=2)}") for v, p in ((1, 1), (1, 2), (2, 1))
    )
    named = {shared.key.rpartition("/")[2]}
    found = expired_sidecars([old, shared, kept], log_start=2, unversioned_before=0, named=named)
    assert list(found) == [old]


def test_sidecars_of_unknown_versions_go_once_nobody_can_be_writing_their_checkpoint() -> None:
    young, old, named = (
        meta(f"_delta_log/_sidecars/{name}.parquet", modified=time) for name, time in (("a", 5), ("b", 4), ("c", 4))
    )
    found = expired_sidecars([young, old, named], log_start=2, unversioned_before=5, named={"c.parquet"})
    assert list(found) == [old]


def test_only_a_parquet_file_in_the_folder_of_sidecars_is_a_sidecar() -> None:
    keys = ["notes.txt", "deeper/a.parquet", "a.parquet.bak"]
    others = [meta(f"_delta_log/_sidecars/{key}", modified=1) for key in keys]
    sidecar = meta("_delta_log/_sidecars/a.parquet", modified=1)
    assert [*expired_sidecars([*others, sidecar], log_start=2, unversioned_before=5)] == [sidecar]
