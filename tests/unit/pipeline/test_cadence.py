"""When a checkpoint is due, by what was published and what is still to come."""

import pytest

from deltamirror.pipeline.plan.cadence import Cadence, due_checkpoint

pytestmark = pytest.mark.requirement("R8")

TEN = Cadence(interval=10)
BYTES = Cadence(interval=1000, bytes=100)


def versions(first: int, last: int, num_bytes: int = 1) -> list[tuple[int, int]]:
    return [(version, num_bytes) for version in range(first, last + 1)]


@pytest.mark.parametrize(
    ("first", "last", "head", "expected"),
    [
        (0, 0, 0, None),  # version 0 is a multiple of everything
        (1, 9, 9, None),
        (1, 10, 10, 10),
        (10, 10, 10, 10),
        (11, 14, 14, None),
        (0, 35, 35, 30),  # the newest of several
        (0, 6, 35, None),  # 30 is still to come
        (28, 34, 39, 30),  # nothing after 30 is to come
        (28, 34, 40, None),
    ],
)
def test_the_newest_multiple_of_the_interval_is_due_once_it_is_published(
    first: int, last: int, head: int, expected: int | None
) -> None:
    due = due_checkpoint(TEN, versions(first, last), head=head, last=max(0, first - 1) // 10 * 10)
    assert (due and due.version) == expected


@pytest.mark.requirement("R16")
def test_bytes_make_a_checkpoint_due_at_the_end_of_a_backlog() -> None:
    assert due_checkpoint(BYTES, versions(1, 9, 10), head=9) is None
    due = due_checkpoint(BYTES, versions(1, 10, 10), head=10)
    assert due is not None
    assert (due.version, due.reason) == (10, "100 bytes of commits, of 100")
    assert due_checkpoint(BYTES, versions(1, 10, 10), head=11) is None
    following = due_checkpoint(BYTES, versions(11, 11, 10), head=11, bytes_before=100)
    assert following is not None
    assert following.version == 11


def test_nothing_published_makes_nothing_due() -> None:
    assert due_checkpoint(TEN, [], head=10) is None


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("batch", [1, 3, 10, 37, 100])
def test_a_mirror_that_never_catches_up_asks_for_checkpoints_all_the_same(batch: int) -> None:
    last, asked = 0, []
    for first in range(0, 5_000, batch):
        newest = first + batch - 1
        due = due_checkpoint(TEN, versions(first, newest), head=newest + 1_000, last=last)
        if due is not None:
            assert first <= due.version <= newest
            last = due.version
            asked.append(last)
        assert newest - last <= 10 * TEN.interval
    assert all(version % 10 == 0 for version in asked)


@pytest.mark.requirement("R117")
@pytest.mark.requirement("R16")
@pytest.mark.parametrize(
    ("version", "last", "expected"), [(5_003, 0, 5_003), (5_003, 4_992, 5_003), (5_003, 4_993, None)]
)
def test_a_log_without_a_checkpoint_gets_one_by_the_commits_since_the_last(
    version: int, last: int, expected: int | None
) -> None:
    due = due_checkpoint(TEN, versions(version, version), head=version, last=last)
    assert (due and due.version) == expected
