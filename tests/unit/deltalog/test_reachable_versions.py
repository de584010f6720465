"""Which versions a log can give: all from version 0, or from a checkpoint; a gap is an error that names it."""

from collections.abc import Collection

import pytest

from deltamirror.deltalog.gaps import missing_versions, spelled
from deltamirror.deltalog.listing import CheckpointFiles, CheckpointKind, CompactionFile, LogListing
from deltamirror.deltalog.reachable_versions import reach
from deltamirror.errors import DeltaMirrorError, InvalidInput, NotFound
from deltamirror.storage.store import ETag, Meta


def meta(name: str, *, size: int = 10) -> Meta:
    return Meta(f"_delta_log/{name}", size=size, modified=0, etag=ETag(""))


def listing(commits: Collection[int], checkpoints: Collection[int] = (), *, empty: Collection[int] = ()) -> LogListing:
    return LogListing(
        location="s3://lake/t",
        commits={each: meta(f"{each:020d}.json", size=0 if each in empty else 10) for each in commits},
        checkpoints=tuple(
            CheckpointFiles(version=each, kind=CheckpointKind.CLASSIC, metas=(meta(f"{each:020d}.checkpoint.parquet"),))
            for each in checkpoints
        ),
        compactions=(CompactionFile(first=0, last=9, meta=meta("x")),),
        checksums={},
    )


@pytest.mark.parametrize(
    ("commits", "checkpoints", "from_version", "expected"),
    [
        (range(4), (), None, (0, 3, None)),
        (range(12), (10,), None, (0, 11, None)),
        (range(12), (5, 10), 0, (0, 11, None)),
        (range(12), (5, 10), 5, (5, 11, 5)),
        (range(12), (5, 10), 6, (10, 11, 10)),
        (range(5, 12), (5, 10), None, (5, 11, 5)),
        (range(6, 12), (5, 10), None, (5, 11, 5)),
        ([*range(4), *range(7, 12)], (5, 6, 10), None, (6, 11, 6)),
        ([*range(4), *range(7, 12)], (2, 5, 10), None, (10, 11, 10)),
        ((), (7,), None, (7, 7, 7)),
        (range(3), (7,), None, (7, 7, 7)),
        (range(1, 3), (0,), 0, (0, 2, 0)),
    ],
)
def test_as_much_as_can_be_had_with_its_commits(
    commits: Collection[int],
    checkpoints: Collection[int],
    from_version: int | None,
    expected: tuple[int, int, int | None],
) -> None:
    found = reach(listing(commits, checkpoints), from_version=from_version)
    assert (found.first, found.last, found.base and found.base.version) == expected


@pytest.mark.parametrize(
    ("commits", "checkpoints", "message"),
    [
        (range(5, 9), (), "lacks the commits of versions 0 to 4, and there is no checkpoint"),
        ([0, 2], (), "lacks the commits of version 1, and there is no checkpoint"),
        ([0, 1, 3, 6], (), "lacks the commits of versions 2, 4 to 5, and there is no checkpoint"),
        ([*range(12), 13], (5, 10), "lacks the commits of version 12, and the newest checkpoint is that of version 10"),
    ],
)
def test_a_gap_above_every_start_is_an_error_that_names_it(
    commits: Collection[int], checkpoints: Collection[int], message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        reach(listing(commits, checkpoints))
    assert caught.value.message == f"the log at s3://lake/t {message}"
    assert "bring the missing files back" in caught.value.hint
    compacted = "versions 0 to 9 are there in a .compacted.json only"
    assert (compacted in caught.value.hint) == (min(set(range(99)) - {*commits}) <= 9)


@pytest.mark.parametrize(
    ("commits", "from_version", "kind", "message"),
    [
        (range(6, 12), 0, InvalidInput, "lacks the commits of versions 0 to 5"),
        (range(12), 11, InvalidInput, "has no checkpoint at or above version 11"),
        (range(12), 12, NotFound, "ends at version 11: there is no version 12"),
    ],
)
def test_a_start_that_cannot_be_had_is_an_error(
    commits: Collection[int], from_version: int, kind: type[DeltaMirrorError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        reach(listing(commits, (5, 10)), from_version=from_version)


def test_an_empty_commit_is_refused_unless_nobody_needs_it() -> None:
    with pytest.raises(InvalidInput, match=f"_delta_log/{1:020d}.json in s3://lake/t is empty"):
        reach(listing(range(4), (2,), empty=[1]))
    assert reach(listing(range(4), (2,), empty=[1]), from_version=2).first == 2


def test_many_gaps_are_counted_instead_of_named() -> None:
    gaps = missing_versions(range(0, 40, 2), first=0, last=38)
    assert spelled(gaps) == "versions 1, 3, 5, 7, 9 and 14 further gaps"
