"""Every line that Delta Lake on Spark wrote, parsed and encoded again, gives the same bytes (G4)."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from deltamirror.delta import names
from deltamirror.delta.lines import decode, encode
from deltamirror.delta.order import champ_order
from tests.support.reference_logs.golden import reference

pytestmark = [pytest.mark.requirement("R5"), pytest.mark.reference]

REFERENCE = reference()
OF_SCALA_2_13 = [name for name, each in REFERENCE.collections.items() if each.hashed is not None]

every_collection = pytest.mark.parametrize("collection", REFERENCE.collections)


def log_files(collection: str) -> list[Path]:
    """The commits and the V2 checkpoints in JSON."""
    return [path for log in REFERENCE.logs_in(collection) for path in sorted(log.glob("*.json"))]


def log_lines(collection: str) -> Iterator[tuple[str, bytes]]:
    for path in log_files(collection):
        for line in path.read_bytes().splitlines():
            yield REFERENCE.name_of(path.parent), line


@pytest.mark.requirement("R3")
@every_collection
def test_every_reference_line_comes_back_byte_for_byte(collection: str) -> None:
    assert [(table, line) for table, line in log_lines(collection) if encode(decode(line)) != line] == []


@every_collection
def test_no_reference_line_is_left_out(collection: str) -> None:
    assert sum(1 for _ in log_lines(collection)) == REFERENCE.collections[collection].lines


@every_collection
def test_reference_files_have_names_that_we_understand_and_write_alike(collection: str) -> None:
    parsed = [(path.name, names.parse(path.name)) for path in log_files(collection)]
    assert [
        name for name, file in parsed if file is None or isinstance(file, names.Misspelt) or file.name != name
    ] == []


@pytest.mark.requirement("R3")
def test_top_level_files_of_v2_checkpoints_are_among_the_reference_lines() -> None:
    kinds = Counter(
        next(iter(msgspec.json.decode(line)))
        for path in log_files(REFERENCE.current)
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


@pytest.mark.parametrize("collection", OF_SCALA_2_13)
def test_maps_and_sets_are_in_the_order_that_we_compute(collection: str) -> None:
    found = [keys for _, line in log_lines(collection) for keys in hashed_collections(line)]
    assert [keys for keys in found if champ_order(sorted(keys)) != keys] == []
    assert len(found) == REFERENCE.collections[collection].hashed
