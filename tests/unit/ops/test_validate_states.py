"""What says in short what commits say: tombstones, compactions, histograms of checksums, changed in turn."""

import json
from pathlib import Path
from typing import Any

import pytest

from deltamirror.config import StorageSettings
from deltamirror.ops.validate.validating import Validated, validate_log
from deltamirror.storage.open import store_at
from tests.support.logs.broken import CHECKPOINT, NEWEST, Log, made_log

pytestmark = pytest.mark.requirement("R68")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return made_log(tmp_path_factory.mktemp("made"), "classic")


@pytest.fixture
def log(made: Log, tmp_path: Path) -> Log:
    """A log that may be broken."""
    return made.copied(tmp_path)


def validated(log: Log) -> Validated:
    return validate_log(store_at(str(log.table), StorageSettings()))


def removed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = next(row["remove"] for row in rows if row["remove"])
    return found


def changed(value: Any) -> object:
    return not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else [("day", "1")]


@pytest.mark.parametrize("name", ["deletionTimestamp", "extendedFileMetadata", "partitionValues", "size"])
def test_a_tombstone_that_says_otherwise_than_its_commit_is_found(log: Log, name: str) -> None:
    log.change_rows(lambda rows: removed(rows).update({name: changed(removed(rows)[name])}))
    found = validated(log)
    assert found.counts == {"checkpoint.tombstones.differing": 1}
    assert found.findings[0].field == f"remove.{name}"


@pytest.mark.parametrize("time", [1, None, +1, -1])
def test_a_tombstone_has_the_time_of_its_commit(log: Log, time: int | None) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        own = removed(rows)
        own["deletionTimestamp"] = time if time in (1, None) else own["deletionTimestamp"] + time

    log.change_rows(change)
    assert validated(log).counts == {"checkpoint.tombstones.differing": 1}


@pytest.mark.parametrize("name", ["extendedFileMetadata", "partitionValues", "size", "baseRowId"])
def test_a_tombstone_may_leave_fields_out(log: Log, name: str) -> None:
    log.change_rows(lambda rows: removed(rows).update({name: None}))
    assert validated(log).is_valid


@pytest.mark.parametrize("action", ["protocol", "metaData"])
def test_a_compaction_from_version_0_has_what_a_table_begins_with(log: Log, action: str) -> None:
    path = log.compact(0, 3)
    assert validated(log).is_valid
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f'{{"{action}"')]
    path.write_text("".join(f"{line}\n" for line in lines))
    found = validated(log)
    assert (found.counts, found.findings[0].field) == ({"compaction.state": 1}, action)


def test_a_compaction_may_lack_removes_that_had_expired(log: Log) -> None:
    old = 1_500_000_000_000
    log.change_line("remove", lambda body: body.update(deletionTimestamp=old), version=3)
    log.keep_commits_alone()
    path = log.compact(1, 3)
    lines = [line for line in path.read_text().splitlines() if '"a.parquet"' not in line]
    path.write_text("".join(f"{line}\n" for line in lines))
    assert validated(log).is_valid


def test_in_commit_timestamps_ascend_across_missing_versions(log: Log) -> None:
    for version in range(CHECKPOINT):
        log.checksum(version).unlink()
    log.commit(2).unlink()
    assert validated(log).counts == {"log.versions.hole": 1}
    log.change_line("commitInfo", lambda body: body.update(inCommitTimestamp=5), version=3)
    assert validated(log).counts == {"log.versions.hole": 1, "log.in-commit-timestamp.order": 1}


def test_paths_that_name_other_files_are_no_spellings_of_each_other(log: Log) -> None:
    for path in ("day=a%2520b/x.parquet", "day=a%20b/x.parquet"):
        size = {"size": 1, "modificationTime": 1_700_000_000_000, "dataChange": True}
        log.add_line(json.dumps({"add": {"path": path, "partitionValues": {}, **size}}))
    assert validated(log).is_valid


def each_number(value: Any) -> list[tuple[str | int, ...]]:
    """The paths to the numbers of a document."""
    if isinstance(value, int):
        return [()]
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [(name, *rest) for name, each in inner for rest in each_number(each)]


def raised(document: Any, path: tuple[str | int, ...]) -> None:
    *parents, last = path
    for name in parents:
        document = document[name]
    document[last] += 1


@pytest.mark.parametrize(
    ("field", "rule"),
    [("fileSizeHistogram", "checksum.sizes"), ("deletedRecordCountsHistogramOpt", "checksum.deletions")],
)
@pytest.mark.parametrize("is_first_known", [True, False])
def test_every_count_of_a_histogram_is_that_of_the_state(log: Log, field: str, rule: str, is_first_known: bool) -> None:
    for version in range(NEWEST if not is_first_known else 0):
        log.checksum(version).unlink()
    content = json.loads(log.checksum(NEWEST).read_text())
    counts = [path for path in each_number(content[field]) if path[0] != "sortedBinBoundaries"]
    for path in [*counts[:3], *counts[-3:]]:
        document = json.loads(json.dumps(content))
        raised(document[field], path)
        log.checksum(NEWEST).write_text(json.dumps(document))
        assert validated(log).counts == {rule: 1}, path


def in_bins(bounds: list[int], counts: list[int], sizes: list[int]) -> dict[str, list[int]]:
    return {"sortedBinBoundaries": bounds, "fileCounts": counts, "totalBytes": sizes}


@pytest.mark.parametrize("is_first_known", [True, False])
def test_a_histogram_may_have_bins_of_its_own(log: Log, is_first_known: bool) -> None:
    for version in range(NEWEST if not is_first_known else 0):
        log.checksum(version).unlink()
    content = json.loads(log.checksum(NEWEST).read_text())
    files, size = content["numFiles"], content["tableSizeBytes"]
    log.change_checksum(fileSizeHistogram=in_bins([0, 1_000_000], [files, 0], [size, 0]))
    assert validated(log).is_valid
    log.change_checksum(fileSizeHistogram=in_bins([0, 1_000_000], [files - 1, 0], [size, 0]))
    assert validated(log).counts == {"checksum.sizes": 1}


@pytest.mark.parametrize("name", ["fileSizeHistogram", "deletedRecordCountsHistogramOpt", "txnId"])
def test_a_checksum_may_leave_fields_out(log: Log, name: str) -> None:
    absent: dict[str, Any] = {name: None}
    log.change_checksum(NEWEST, **absent)
    assert validated(log).is_valid


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.appendOnly", "yes"),
        ("delta.deletedFileRetentionDuration", "garbage"),
        ("delta.columnMapping.mode", "garbage"),
    ],
)
def test_a_property_that_keeps_delta_spark_out_makes_a_table_unreadable(log: Log, key: str, value: str) -> None:
    log.keep_commits_alone()
    log.change_line("metaData", lambda body: body["configuration"].update({key: value}), version=0)
    found = validated(log)
    assert found.counts == {"metaData.configuration.value": 1}
    assert (found.findings[0].field, found.readable) == (f"metaData.configuration.{key}", False)
