"""The version checksums computed from the commits are those that Delta Lake on Spark wrote beside them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from deltamirror.delta.actions import Action, Add, CommitInfo
from deltamirror.delta.checksum import Checksum, checksum_of, decode, encode, first_checksum, next_checksum
from deltamirror.delta.lines import decode_commit
from deltamirror.delta.replay import State
from tests.support.reference_logs.files import without_empty_tags
from tests.support.reference_logs.golden import reference

pytestmark = [pytest.mark.requirement("R66"), pytest.mark.requirement("R15"), pytest.mark.reference]

REFERENCE = reference()
CURRENT = REFERENCE.current
BYTE_FOR_BYTE = [name for name, each in REFERENCE.collections.items() if not each.differing]
DIFFERING = {table for each in REFERENCE.collections.values() for table in each.differing}

every_collection = pytest.mark.parametrize("collection", REFERENCE.collections)


class Version(NamedTuple):
    table: str
    number: int
    actions: list[Action]
    files: list[Add]
    """The live files before the commit."""
    computed: Checksum | None
    """The checksum that follows from that of the version before."""
    whole: Checksum
    """The checksum of the state after the commit."""
    written: bytes | None


def logs(collection: str) -> list[Path]:
    return [log for log in REFERENCE.logs_in(collection) if any(log.glob("[0-9]*.crc"))]


def versions(log: Path) -> Iterator[Version]:
    """Every version from 0 on, with checksums that follow from our own checksum of the version before."""
    table, number, state = REFERENCE.name_of(log), 0, State()
    previous: Checksum | None = None
    while (path := log / f"{number:020}.json").exists():
        actions, files = decode_commit(path.read_bytes(), source=str(path)), list(state.files.values())
        computed = continued(previous, actions, files)
        state.apply(actions)
        whole = checksum_of(state, info=next((each for each in actions if isinstance(each, CommitInfo)), None))
        crc = path.with_suffix(".crc")
        yield Version(
            table,
            number,
            actions,
            files,
            computed,
            whole,
            without_empty_tags(crc.read_bytes()) if crc.exists() else None,
        )
        previous = computed or whole
        number += 1


def continued(previous: Checksum | None, actions: list[Action], files: list[Add]) -> Checksum | None:
    return first_checksum(actions) if previous is None else next_checksum(previous, actions, files=lambda: files)


def all_versions(*collections: str) -> Iterator[Version]:
    for collection in collections:
        for log in logs(collection):
            yield from versions(log)


def as_written(checksum: Checksum, written: bytes) -> bytes:
    """Ours as the writer of theirs would have it: up to 4.1 there is no histogram of sizes."""
    return encode(checksum if b'"fileSizeHistogram"' in written else replace(checksum, file_size_histogram=None))


@every_collection
def test_every_reference_checksum_comes_out_byte_for_byte(collection: str) -> None:
    found = [version for version in all_versions(collection) if version.written is not None]
    expected = REFERENCE.collections[collection]
    assert len(found) == expected.checksums == sum(len([*log.glob("[0-9]*.crc")]) for log in logs(collection))
    differing = Counter(
        version.table
        for version in found
        if version.computed is None or as_written(version.computed, version.written or b"") != version.written
    )
    assert differing == expected.differing


def test_checksums_of_the_reference_version_need_nothing_taken_away() -> None:
    found = [version for version in all_versions(CURRENT) if version.written is not None]
    assert [v.table for v in found if v.computed is None or encode(v.computed) != v.written] == []


@every_collection
def test_checksums_that_differ_have_the_same_content(collection: str) -> None:
    for version in all_versions(collection):
        if version.table in DIFFERING and version.written and version.computed:
            theirs, ours = decode(version.written), version.computed
            assert theirs is not None
            if theirs.file_size_histogram is None:
                ours = replace(ours, file_size_histogram=None)
            assert sorted_files(theirs) == sorted_files(ours)


def sorted_files(checksum: Checksum) -> Checksum:
    return replace(checksum, all_files=tuple(sorted(checksum.all_files or (), key=lambda add: add.path)))


def test_a_checksum_that_spark_wrote_is_continued_as_spark_continues_it() -> None:
    previous, checked = None, 0
    for version in all_versions(CURRENT):
        if version.number > 0 and previous is not None and version.written is not None:
            found = continued(previous, version.actions, version.files)
            assert found is not None
            assert encode(found) == version.written
            checked += 1
        previous = decode(version.written) if version.written is not None else None
    # All but those of version 0, and the one after a RESTORE.
    assert checked == REFERENCE.continued


def test_commits_that_rewrite_history_have_no_checksum() -> None:
    unchecked = Counter(v.table for v in all_versions(*BYTE_FOR_BYTE) if v.computed is None)
    assert unchecked == {t: n for name in BYTE_FOR_BYTE for t, n in REFERENCE.collections[name].unchecked.items()}


def test_the_whole_state_has_the_totals_that_its_commits_add_up_to() -> None:
    for version in all_versions(*BYTE_FOR_BYTE):
        if version.computed is not None:
            assert summary(version.whole) == summary(version.computed)


def summary(checksum: Checksum) -> Checksum:
    """Without what depends on the way to a state: when vectors were switched on, when the schema changed."""
    return replace(
        checksum, all_files=None, num_deleted_records=None, num_deletion_vectors=None, deleted_record_counts=None
    )


def test_every_reference_checksum_that_is_decoded_and_encoded_stays_as_it_is() -> None:
    for version in all_versions(*BYTE_FOR_BYTE):
        if version.written is not None:
            decoded = decode(version.written)
            assert decoded is not None
            assert encode(decoded) == version.written
