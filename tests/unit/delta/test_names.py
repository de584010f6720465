"""Names of log files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta import names
from deltamirror.delta.actions import Version
from deltamirror.delta.names import (
    Checkpoint,
    CheckpointPart,
    ChecksumFile,
    Commit,
    Compaction,
    LogFile,
    Misspelt,
    UuidCheckpoint,
    parse,
)

pytestmark = pytest.mark.requirement("R5")

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
SEVEN = "00000000000000000007"
V7 = Version(7)

VERSIONS = st.integers(0, 2**63 - 1).map(Version)
LOG_FILES: st.SearchStrategy[LogFile] = st.one_of(
    st.builds(Commit, VERSIONS),
    st.builds(ChecksumFile, VERSIONS),
    st.builds(Checkpoint, VERSIONS),
    st.builds(
        lambda v, a, b: CheckpointPart(v, min(a, b), max(a, b)), VERSIONS, st.integers(1, 99), st.integers(1, 99)
    ),
    st.builds(UuidCheckpoint, VERSIONS, st.uuids().map(str), st.sampled_from(["json", "parquet"])),
    st.builds(lambda v, n: Compaction(v, Version(v + n)), st.integers(0, 10**9).map(Version), st.integers(1, 9)),
)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        (f"{SEVEN}.json", Commit(V7)),
        (f"{SEVEN}.crc", ChecksumFile(V7)),
        (f"{SEVEN}.checkpoint.parquet", Checkpoint(V7)),
        (f"{SEVEN}.checkpoint.0000000001.0000000003.parquet", CheckpointPart(V7, 1, 3)),
        (f"{SEVEN}.checkpoint.{UUID}.json", UuidCheckpoint(V7, UUID, "json")),
        (f"{SEVEN}.checkpoint.{UUID}.parquet", UuidCheckpoint(V7, UUID, "parquet")),
        (f"{SEVEN}.00000000000000000009.compacted.json", Compaction(V7, Version(9))),
    ],
)
def test_every_kind_of_log_file_is_recognised_and_written(name: str, file: LogFile) -> None:
    assert parse(name) == file
    assert file.name == name


def test_the_places_of_a_log_have_the_names_of_the_protocol() -> None:
    assert names.LOG_DIRECTORY == "_delta_log"
    assert names.SIDECARS == "_delta_log/_sidecars"
    assert names.LAST_CHECKPOINT == "_last_checkpoint"
    assert names.commit_key(7) == f"_delta_log/{SEVEN}.json"
    assert names.commit_name(7) == f"{SEVEN}.json"
    assert names.checksum_name(7) == f"{SEVEN}.crc"
    assert names.checkpoint_name(7) == f"{SEVEN}.checkpoint.parquet"
    assert (Checkpoint, CheckpointPart, UuidCheckpoint) == names.CHECKPOINTS


@pytest.mark.parametrize(
    "file",
    [
        Commit(Version(2**63 - 1)),
        Compaction(V7, Version(8)),
        Compaction(V7, Version(2**63 - 1)),
        CheckpointPart(V7, 1, 1),
        CheckpointPart(V7, 2**31 - 1, 2**31 - 1),
    ],
)
def test_numbers_go_as_far_as_readers_hold_them(file: LogFile) -> None:
    assert parse(file.name) == file


@pytest.mark.parametrize("name", ["_last_checkpoint", f"{SEVEN}.json", "7.json"])
def test_readers_go_by_log_files_misspelt_ones_and_the_pointer(name: str) -> None:
    assert names.is_log_name(name)
    assert not names.is_log_name(f"{name}.tmp")


def test_a_log_file_is_ordered_among_log_files_only() -> None:
    assert not Commit(V7) < Commit(V7)
    with pytest.raises(TypeError):
        assert Commit(V7) < "8"


@given(LOG_FILES)
def test_parsing_undoes_naming(file: LogFile) -> None:
    assert parse(file.name) == file


@pytest.mark.parametrize(
    "name",
    [
        f"{SEVEN}.JSON",
        f"{SEVEN}.json ",
        f"{SEVEN}.json\n",
        f"{SEVEN}",
        f"{SEVEN}.parquet",
        f"x{SEVEN}.json",
        f"_delta_log/{SEVEN}.json",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٧.json",
        f".{SEVEN}.json.{UUID}.tmp",
        f".{SEVEN}.json.crc",
        f".{SEVEN}.crc.crc",
        f"{SEVEN}.json.tmp",
        f"{SEVEN}.{UUID}.json",
        f"{SEVEN}.checkpoint.0000000001.0000000002.{UUID}.parquet",
        f"{SEVEN}.checkpoint.json",
        f"{SEVEN}.checkpoint.a/b.json",
        "_last_checkpoint",
        "_last_vacuum_info",
        "_sidecars",
        "",
    ],
)
def test_other_names_are_not_log_files(name: str) -> None:
    assert parse(name) is None


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("7.json", 7),
        ("0000000007.json", 7),
        (f"0{SEVEN}.json", 7),
        (f"{2**63}.json".zfill(25), 2**63),
        ("99999999999999999999.json", 99999999999999999999),
        ("7.crc", 7),
        (f"0{SEVEN}.checkpoint.parquet", 7),
        (f"7.checkpoint.{UUID}.json", 7),
        ("7.9.compacted.json", 7),
        (f"{SEVEN}.9.compacted.json", 7),
        (f"{SEVEN}-{SEVEN}_compacted_json", 7),
        (f"{SEVEN}.{SEVEN}.compacted.json", 7),
        (f"{SEVEN}.00000000000000000006.compacted.json", 7),
        (f"{SEVEN}.{2**63:020d}.compacted.json", 7),
        (f"{SEVEN}.checkpoint.1.2.parquet", 7),
        (f"{SEVEN}.checkpoint.0000000003.0000000002.parquet", 7),
        (f"{SEVEN}.checkpoint.0000000000.0000000002.parquet", 7),
        (f"{SEVEN}.checkpoint.0000000001.{2**31:010d}.parquet", 7),
        (f"{SEVEN}.checkpoint.0000000001.9999999999.parquet", 7),
    ],
)
def test_a_name_that_spark_takes_for_a_log_file_and_no_writer_gives_to_one_is_misspelt(name: str, number: int) -> None:
    assert parse(name) == Misspelt(number)


@given(st.lists(LOG_FILES, max_size=8))
def test_files_sort_by_version_and_then_as_a_listing_has_them(files: list[LogFile]) -> None:
    assert [file.name for file in sorted(files)] == sorted(file.name for file in files)


def test_within_a_version_the_commit_comes_last() -> None:
    kinds: list[LogFile] = [
        Compaction(V7, Version(9)),
        CheckpointPart(V7, 1, 2),
        CheckpointPart(V7, 2, 2),
        UuidCheckpoint(V7, UUID, "json"),
        Checkpoint(V7),
        ChecksumFile(V7),
        Commit(V7),
        Compaction(Version(8), Version(9)),
    ]
    shuffled = kinds[::-1]
    assert sorted(shuffled) == kinds
    assert Commit(V7) >= ChecksumFile(V7)


def test_a_listing_from_a_version_skips_all_earlier_names() -> None:
    assert names.commit_name(6) < names.listing_prefix(7) < Compaction(V7, Version(9)).name


def test_a_sidecar_is_named_as_the_reference_writer_does() -> None:
    assert names.sidecar_name(7, UUID, part=1, parts=2) == f"{SEVEN}.checkpoint.0000000001.0000000002.{UUID}.parquet"


@pytest.mark.parametrize(
    ("name", "version"),
    [
        (names.sidecar_name(7, UUID, part=1, parts=2), 7),
        (f"{SEVEN}.checkpoint.{UUID}.parquet", 7),
        (f"{UUID}.parquet", None),
        (f"{SEVEN}.json", None),
        (f"7.checkpoint.{UUID}.parquet", None),
        (f"{10**20}.checkpoint.{UUID}.parquet", 10**20),
    ],
)
def test_the_name_of_a_sidecar_may_tell_the_version_of_its_checkpoint(name: str, version: int | None) -> None:
    assert names.sidecar_version(name) == version


def test_misspelt_names_are_values() -> None:
    assert {parse("7.json"), parse("07.json")} == {Misspelt(7)}
