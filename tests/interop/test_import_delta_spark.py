"""Every reference table that is imported has in SQL the state that Delta Lake on Spark finds in its log.

Spark opens the last version and the one in the middle; in ``make soak`` every version, or of a long history the first,
the last, those with a checkpoint, and two others. What is not imported is no table to Spark either.
"""

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest

from deltamirror import Catalog
from deltamirror.delta.actions import Action, Add, DomainMetadata, Metadata, Protocol, Txn
from deltamirror.delta.lines import decode
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.deltalog.checkpoint.content import CheckpointState
from deltamirror.deltalog.checkpoint.decoded import adds_table
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES
from deltamirror.ops.diff.comparing import compare
from deltamirror.ops.diff.sides import table_state
from deltamirror.ops.imports.importing import ImportOrder, TableImporter
from deltamirror.wiring import open_importer
from tests.support.lakes.lake import opened
from tests.support.mirrors.local import local_settings
from tests.support.readers.reader import Reader, RequestFailed
from tests.support.reference_logs.golden import reference

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    *(pytest.mark.requirement(row) for row in ("R66", "R89")),
    pytest.mark.reference,
]

REFERENCE = reference()

MOST_VERSIONS = 6
NO_TABLE = (
    r"DELTA_STATE_RECOVER_ERROR|DELTA_VERSIONS_NOT_CONTIGUOUS|DELTA_INVALID_PROTOCOL_VERSION"
    r"|DELTA_UNSUPPORTED_FEATURES_FOR_READ|non-existent version 0"
)
"""What Spark says of the tables that are not imported."""

A = TypeVar("A", bound=Action)


@pytest.fixture(scope="module")
def importer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Catalog, TableImporter]]:
    with ExitStack() as stack:
        catalog = stack.enter_context(opened(f"sqlite:///{tmp_path_factory.mktemp('catalog') / 'lake.db'}"))
        catalog.init()
        yield catalog, stack.enter_context(open_importer(catalog, local_settings(), runner="local"))


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the table that a test is about."""
    table = request.getfixturevalue("table")
    return Path(shutil.copytree(REFERENCE.root / table, tmp_path / "table"))


def selected(folder: Path, last: int, how_many: str) -> list[int]:
    """All versions, or some of many."""
    if how_many == "two":
        return sorted({last // 2, last})
    if last < MOST_VERSIONS:
        return list(range(last + 1))
    checkpoints = {int(path.name[:20]) for path in (folder / LOG_DIRECTORY).glob("*.checkpoint.*")}
    return sorted({0, 1, last // 2, last, *checkpoints})


def state_of(lines: Sequence[str], version: int) -> CheckpointState:
    """A state from the actions that Spark shows."""
    actions = [decode(line.encode()) for line in lines]
    [protocol], [metadata] = of_kind(actions, Protocol), of_kind(actions, Metadata)
    return CheckpointState(
        version=version,
        protocol=protocol,
        metadata=metadata,
        transactions=tuple(of_kind(actions, Txn)),
        domains=tuple(of_kind(actions, DomainMetadata)),
        files=adds_table([(0, file) for file in of_kind(actions, Add)]).select(FILES.names),
        removes=REMOVES.empty_table(),
    )


def of_kind(actions: Sequence[Action], kind: type[A]) -> list[A]:
    return [action for action in actions if isinstance(action, kind)]


OPENED = [name for name in REFERENCE.spark_opens or REFERENCE.importable if name not in REFERENCE.by_file_system]


@pytest.mark.parametrize("how_many", ["two", pytest.param("all", marks=pytest.mark.elsewhere)])
@pytest.mark.parametrize(
    "table", [pytest.param(name, marks=[pytest.mark.elsewhere] * (n % 6 > 0)) for n, name in enumerate(OPENED)]
)
def test_the_state_in_sql_is_the_one_that_spark_reports(
    table: str, how_many: str, folder: Path, importer: tuple[Catalog, TableImporter], delta_spark: Reader
) -> None:
    catalog, imports = importer
    name = re.sub(r"\W", "_", f"{table}_{how_many}")
    done = imports.run(ImportOrder(location=str(folder), name=name))
    for version, lines in delta_spark.states(folder, selected(folder, done.last, how_many)).items():
        found = compare(table_state(catalog.database, name, version), state_of(lines, version))
        assert found.equal, (version, found.first, found.counts)


@pytest.mark.parametrize("table", sorted(REFERENCE.no_table_to_spark))
def test_what_is_not_imported_is_no_table_to_spark_either(table: str, folder: Path, delta_spark: Reader) -> None:
    with pytest.raises(RequestFailed, match=NO_TABLE):
        delta_spark.states(folder, [0])
