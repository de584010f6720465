"""Every line that Delta Lake on Spark wrote, parsed and encoded again, gives the same bytes (G4)."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from deltamirror.delta import names
from deltamirror.delta.lines import decode, encode
from deltamirror.delta.order import champ_order
from deltamirror.errors import InvalidAction
from tests.support.reference import SHARED

pytestmark = pytest.mark.requirement("R5")

COLLECTIONS = ["fixtures", "golden"]

NO_SCHEMA = "metaData.schemaString is missing: a test of Delta Lake committed an empty Metadata()"
EXCEPTIONS = {
    "fixtures": {},
    "golden": {
        ("canonicalized-paths-normal-a", NO_SCHEMA): 1,
        ("canonicalized-paths-normal-b", NO_SCHEMA): 1,
        ("canonicalized-paths-special-a", NO_SCHEMA): 1,
        ("canonicalized-paths-special-b", NO_SCHEMA): 1,
        ("corrupted-last-checkpoint", NO_SCHEMA): 1,
        ("deltalog-commit-info", NO_SCHEMA): 1,
        ("deltalog-state-reconstruction-from-checkpoint-missing-metadata", NO_SCHEMA): 1,
        ("deltalog-state-reconstruction-from-checkpoint-missing-protocol", NO_SCHEMA): 1,
        ("update-deleted-directory", NO_SCHEMA): 1,
        ("versions-not-contiguous", NO_SCHEMA): 1,
    },
}
"""Lines that do not come back byte for byte: table, reason, and how many."""

LINES = {"fixtures": 410, "golden": 1052}
HASHED_COLLECTIONS = 55
"""Maps and sets of more than four entries in the fixtures. Golden tables are of Scala 2.12, which has another order."""


def log_files(collection: str) -> list[Path]:
    """The commits and the V2 checkpoints in JSON."""
    found = sorted((SHARED / collection).glob("**/_delta_log/*.json"))
    if not found:
        pytest.skip(f"no reference logs under {SHARED / collection}; set DELTAMIRROR_SHARED")
    return found


def log_lines(collection: str) -> Iterator[tuple[str, bytes]]:
    for path in log_files(collection):
        table = path.relative_to(SHARED / collection).parent.parent.as_posix()
        for line in path.read_bytes().splitlines():
            yield table, line


def exception_of(line: bytes) -> str | None:
    """Why the line does not come back byte for byte; ``None`` where it does."""
    try:
        action = decode(line)
    except InvalidAction as error:
        return NO_SCHEMA if (error.action, error.field) == ("metaData", "schemaString") else str(error)
    return None if encode(action) == line else f"encoded differently: {encode(action)!r}"


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("collection", COLLECTIONS)
def test_every_reference_line_comes_back_byte_for_byte(collection: str) -> None:
    found = Counter((table, reason) for table, line in log_lines(collection) if (reason := exception_of(line)))
    assert found == EXCEPTIONS[collection]


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_no_reference_line_is_left_out(collection: str) -> None:
    assert sum(1 for _ in log_lines(collection)) == LINES[collection]


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_reference_files_have_names_that_we_understand_and_write_alike(collection: str) -> None:
    parsed = [(path.name, names.parse(path.name)) for path in log_files(collection)]
    assert [name for name, file in parsed if file is None or file.name != name] == []


@pytest.mark.requirement("R3")
def test_top_level_files_of_v2_checkpoints_are_among_the_reference_lines() -> None:
    kinds = Counter(
        next(iter(msgspec.json.decode(line)))
        for path in log_files("fixtures")
        if isinstance(names.parse(path.name), names.UuidCheckpoint)
        for line in path.read_bytes().splitlines()
    )
    assert {"checkpointMetadata", "sidecar", "metaData", "protocol"} <= set(kinds)


def hashed_collections(line: bytes) -> Iterator[list[str]]:
    (body,) = msgspec.json.decode(line, type=dict[str, dict[str, object]]).values()
    for field, value in body.items():
        ordered_by_us = field not in {"partitionColumns", "deletionVector"}
        if isinstance(value, dict | list) and ordered_by_us and len(value) > 4:
            yield list(value)


def test_maps_and_sets_are_in_the_order_that_we_compute() -> None:
    found = [keys for _, line in log_lines("fixtures") for keys in hashed_collections(line)]
    assert [keys for keys in found if champ_order(sorted(keys)) != keys] == []
    assert len(found) == HASHED_COLLECTIONS
