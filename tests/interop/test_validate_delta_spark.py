"""``validate`` and Delta Lake on Spark agree on which reference tables can be opened at their newest version.

The default suite asks Spark for the logs that we refuse, other tests there for those that both read; ``make golden``
asks it for every table beside the repository.
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from deltamirror.config import StorageSettings
from deltamirror.errors import InvalidInput
from deltamirror.ops.validate.validating import validate_log
from deltamirror.storage.open import store_at
from tests.support.readers.reader import Reader, RequestFailed
from tests.support.reference_logs.golden import reference

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.reference,
    pytest.mark.requirement("R72"),
]

REFERENCE = reference()
NO_TABLE: Final = (
    r"DELTA_STATE_RECOVER_ERROR|DELTA_VERSIONS_NOT_CONTIGUOUS|DELTA_INVALID_PROTOCOL_VERSION"
    r"|DELTA_UNSUPPORTED_FEATURES_FOR_READ|DELTA_LOG_FILE_NOT_FOUND|non-existent version 0|no Delta table"
)
"""How Spark refuses a table; any other failure is one of the test."""
OPENED_BY_SPARK_ALONE: Final[Mapping[str, str]] = {
    "handmade/unknown-action": "Spark passes over what it does not know; we refuse what we cannot carry",
}
"""Tables that ``validate`` calls unreadable and Spark opens, and why."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What ``validate`` says of a folder: its newest version, 0 where there is no log, and whether it can be opened."""

    version: int
    is_readable: bool


def opinion_on(folder: Path) -> Opinion:
    try:
        found = validate_log(store_at(str(folder), StorageSettings()))
    except InvalidInput:
        return Opinion(0, is_readable=False)
    return Opinion(found.version or 0, is_readable=bool(found.readable))


def is_opened_by_spark(delta_spark: Reader, folder: Path, version: int) -> bool:
    try:
        return bool(delta_spark.states(folder, [version]))
    except RequestFailed as failure:
        if re.search(NO_TABLE, str(failure)) is None:
            raise
        return False


@pytest.mark.default_when(parameters=lambda those: those["table"] in REFERENCE.refused_logs)
@pytest.mark.parametrize("table", REFERENCE.tables)
def test_a_table_is_readable_to_validate_exactly_if_spark_opens_it(
    table: str, tmp_path: Path, delta_spark: Reader
) -> None:
    folder = Path(shutil.copytree(REFERENCE.root / table, tmp_path / "table"))
    ours = opinion_on(folder)
    is_opened = is_opened_by_spark(delta_spark, folder, ours.version)
    assert (ours.is_readable, is_opened) == (
        (False, True) if table in OPENED_BY_SPARK_ALONE else (is_opened, is_opened)
    )
