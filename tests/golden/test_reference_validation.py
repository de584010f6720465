"""``validate`` over the reference logs: what their writers meant to be right breaks no rule, and Spark agrees."""

import pytest

from deltamirror.config import StorageSettings
from deltamirror.errors import InvalidInput
from deltamirror.ops.validate.validating import Validated, validate_log
from deltamirror.storage.open import store_at
from tests.support.reference_logs.golden import reference

pytestmark = [pytest.mark.requirement("R72"), pytest.mark.reference]

REFERENCE = reference()
WITHOUT_LOG = {name for name, phrase in REFERENCE.refused_logs.items() if "no Delta log" in phrase}
READ_BY_SPARK_ALONE = {
    "handmade/unknown-action": "Spark passes over actions that it does not know",
    "handmade/checkpoint-without-metadata": "Spark is not asked for it",
    "handmade/checkpoint-without-protocol": "Spark is not asked for it",
}


def validated(table: str) -> Validated:
    return validate_log(store_at(str(REFERENCE.root / table), StorageSettings()))


@pytest.mark.parametrize("table", [name for name in REFERENCE.tables if name not in WITHOUT_LOG])
def test_a_log_breaks_the_rules_that_its_maker_meant_to_break_and_no_others(table: str) -> None:
    found = validated(table)
    assert set(found.counts) == REFERENCE.findings.get(table, frozenset()), found.findings
    is_unread = table in REFERENCE.no_table_to_spark or table in READ_BY_SPARK_ALONE
    assert found.readable == (not is_unread)


@pytest.mark.parametrize("table", sorted(WITHOUT_LOG))
def test_a_folder_without_a_log_is_told_so(table: str) -> None:
    with pytest.raises(InvalidInput, match="no Delta log"):
        validated(table)
