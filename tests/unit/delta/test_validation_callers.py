"""The word of a caller counts: rows that were checked, domains of the system, lines of other writers."""

import msgspec
import pytest

from deltamirror.delta.actions import (
    Action,
    Metadata,
)
from deltamirror.delta.schema import from_ddl, schema_string
from deltamirror.delta.validation import TableRules, check_actions
from deltamirror.errors import InvalidAction
from tests.support.lakes.validation import (
    ADD,
    COLUMNS,
    DOMAIN,
    EXTENDED,
    INFO,
    PLAIN,
    REMOVE,
    TABLE,
    changed,
    metadata_of,
    protocol,
    with_properties,
)

pytestmark = pytest.mark.requirement("R5")


@pytest.mark.requirement("R74")
@pytest.mark.parametrize(
    "metadata",
    [
        with_properties(**{"constraints.c": "id > 0"}),
        metadata_of(
            schema_string(from_ddl(COLUMNS)).replace('"metadata":{}', '"metadata":{"delta.invariants":"{}"}', 1)
        ),
        metadata_of(
            schema_string(from_ddl(COLUMNS)).replace(
                '"metadata":{}', '"metadata":{"delta.generationExpression":"1"}', 1
            )
        ),
    ],
)
def test_rows_that_the_log_cannot_show_need_the_callers_word(metadata: Metadata) -> None:
    with pytest.raises(InvalidAction) as caught:
        TableRules.of(PLAIN, metadata).check(ADD)
    assert caught.value.rule == "add.rows-unchecked"
    TableRules.of(PLAIN, metadata, rows_checked=True).check(ADD)
    TableRules.of(PLAIN, metadata, verbatim=True).check(ADD)


@pytest.mark.requirement("R74")
def test_a_legacy_protocol_without_constraints_makes_no_demands_on_rows() -> None:
    TableRules.of(protocol(2, 6), metadata_of("id long not null, day date")).check(ADD)


def test_system_domains_are_set_by_those_who_may() -> None:
    domain = msgspec.structs.replace(DOMAIN, domain="delta.rowTracking", configuration='{"rowIdHighWaterMark":7}')
    TableRules.of(EXTENDED, TABLE, system_domains=["delta.rowTracking"]).check(domain)
    TableRules.of(EXTENDED, TABLE, verbatim=True).check(domain)


@pytest.mark.parametrize(
    "actions",
    [
        [INFO, ADD],
        [ADD, INFO],
        [changed(REMOVE, deletion_timestamp=None)],
        [changed(REMOVE, partition_values={"the column that it had": "1"})],
        [changed(ADD, path="%61.parquet")],
        [changed(ADD, path="s3://bucket/a.parquet")],
        [changed(ADD, default_row_commit_version=2)],
        [with_properties(checkpointInterval="every ten")],
        [metadata_of(COLUMNS, configuration={"delta.appendOnly": "true"})],
        [metadata_of('{"type":"struct","fields":[]}', partition_by=())],
    ],
)
def test_a_verbatim_commit_may_do_what_other_writers_lawfully_do(actions: list[Action]) -> None:
    under = protocol(3, 7, ["variantType", "timestampNtz"], ["variantType", "timestampNtz"])
    check_actions(actions, protocol=under, metadata=TABLE, verbatim=True)
    with pytest.raises(InvalidAction):
        check_actions(actions, protocol=under, metadata=TABLE)


@pytest.mark.requirement("R74")
def test_a_verbatim_commit_may_drop_a_feature() -> None:
    narrow, wide = protocol(1, 7, None, ["appendOnly"]), protocol(1, 7, None, ["appendOnly", "invariants"])
    table = metadata_of("id long", partition_by=())
    check_actions([narrow], protocol=narrow, metadata=table, previous_protocol=wide, verbatim=True)
