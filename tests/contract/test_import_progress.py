"""An import stores every part once and in order, for one owner at a time, and goes on where it was."""

from collections.abc import Callable
from typing import Any

import pytest

from deltamirror import Catalog
from deltamirror.errors import (
    Internal,
    InvalidInput,
    LeaseLost,
    Refused,
    Transient,
)
from deltamirror.txnlog.imports.importing import Import
from tests.support.imports.parts import abandon, begun, file_parts
from tests.support.imports.small_history import HISTORY, METADATA, commit, file, info, state_after
from tests.support.lakes.histories import PROTOCOL
from tests.support.lakes.lake import adds_of, execute, row_counts

pytestmark = pytest.mark.default_on("sqlite", "postgresql")


def test_an_abandoned_import_goes_on_where_it_was_with_another_owner(catalog: Catalog) -> None:
    importing = begun(catalog, owner="one")
    table_id = importing.table_id
    importing.store([*file_parts(table_id, 0, HISTORY[0]), *file_parts(table_id, 1, HISTORY[1], lines=1)[:2]])
    del importing
    with pytest.raises(Refused, match="imported by one"):
        begun(catalog, owner="two")
    abandon(catalog)
    resumed = begun(catalog, owner="two")
    assert (resumed.table_id, resumed.next_version, resumed.next_part) == (table_id, 1, 2)
    resumed.store(file_parts(table_id, 1, HISTORY[1], lines=1))
    for version in (2, 3):
        resumed.store(file_parts(table_id, version, HISTORY[version]))
    resumed.complete()
    table = catalog.table("t")
    assert {version: table.commit_file(version) for version in HISTORY} == HISTORY
    assert [entry.num_lines for entry in table.history()] == [3, 2, 4, 3]
    assert [entry.num_added for entry in table.history()] == [2, 0, 2, 0]
    assert adds_of(table.snapshot().files()) == state_after(3).files


def test_the_same_owner_resumes_at_once(catalog: Catalog) -> None:
    first = begun(catalog)
    first.store(file_parts(first.table_id, 0, HISTORY[0]))
    assert (begun(catalog).table_id, begun(catalog).next_version) == (first.table_id, 1)


def test_who_was_taken_over_stores_nothing_more(catalog: Catalog) -> None:
    one = begun(catalog, owner="one")
    one.store(file_parts(one.table_id, 0, HISTORY[0]))
    abandon(catalog)
    two = begun(catalog, owner="two")
    before = row_counts(catalog)
    parts = file_parts(one.table_id, 1, HISTORY[1])
    for act in (lambda: one.store(parts), one.touch, one.complete):
        with pytest.raises(LeaseLost, match="took over"):
            act()
    one.discard()
    assert row_counts(catalog) == before
    two.store(parts)
    two.touch()
    assert two.complete().head == 1


def test_an_owner_who_is_heard_of_is_not_taken_over(catalog: Catalog) -> None:
    keeps: list[Callable[[Import], object]] = [
        lambda each: each.touch(),
        lambda each: each.store(file_parts(each.table_id, 0, HISTORY[0])),
    ]
    for keep in keeps:
        importing = begun(catalog, owner="one")
        abandon(catalog)
        keep(importing)
        with pytest.raises(Refused):
            begun(catalog, owner="two")
        importing.discard()


@pytest.mark.parametrize("other", [{"name": "u"}, {"first": 3}, {"base": "c"}], ids=str)
def test_what_was_left_of_another_import_of_the_location_is_discarded(catalog: Catalog, other: dict[str, Any]) -> None:
    before = row_counts(catalog)
    one = begun(catalog, owner="one")
    one.store(file_parts(one.table_id, 0, HISTORY[0]))
    wanted = {"location": "/nowhere/lake/t", **other}
    with pytest.raises(Refused):
        begun(catalog, **wanted, owner="two")
    abandon(catalog)
    two = begun(catalog, **wanted, owner="two")
    assert two.next_part == 0
    two.discard()
    assert row_counts(catalog) == before


def test_a_part_is_stored_once_and_in_order(catalog: Catalog) -> None:
    importing = begun(catalog)
    first, second, third = file_parts(importing.table_id, 0, HISTORY[0], lines=1)
    following = file_parts(importing.table_id, 1, HISTORY[1])
    for wrong in ([second], [first, third], following, [first, *following]):
        with pytest.raises(Internal, match="came to an import that is at part"):
            importing.store(wrong)
        assert (importing.next_version, importing.next_part) == (0, 0)
    importing.store([first, second])
    importing.store([first, second])
    assert (importing.next_version, importing.next_part) == (0, 2)
    with pytest.raises(Internal, match="version 0 is missing"):
        importing.complete()
    importing.store([first, second, third])
    with pytest.raises(Internal):
        importing.store([third])
    assert importing.complete().head == 0
    assert catalog.table("t").commit_file(0) == HISTORY[0]


def test_a_file_that_changed_while_it_was_imported_is_noticed(catalog: Catalog) -> None:
    importing = begun(catalog)
    importing.store(file_parts(importing.table_id, 0, HISTORY[0], lines=1)[:1])
    with pytest.raises(Transient, match="version 0"):
        importing.store(file_parts(importing.table_id, 0, HISTORY[0].replace(b"WRITE", b"MERGE"), lines=1))


def test_a_failure_in_the_middle_stores_nothing_of_the_transaction(catalog: Catalog) -> None:
    importing = begun(catalog)
    table_id = importing.table_id
    importing.store(file_parts(table_id, 0, HISTORY[0]))
    execute(catalog, "INSERT INTO dl_protocols VALUES (:table, 1, 'in the way')", table=table_id)
    before = row_counts(catalog)
    changing = file_parts(table_id, 1, commit(info(), PROTOCOL, file("a")))
    with pytest.raises(Transient):
        importing.store(changing)
    assert row_counts(catalog) == before
    execute(catalog, "DELETE FROM dl_protocols WHERE version = 1")
    importing.store(changing)
    assert importing.complete().head == 1


def test_a_log_without_protocol_is_refused(catalog: Catalog) -> None:
    importing = begun(catalog)
    importing.store(file_parts(importing.table_id, 0, commit(METADATA, file("a"))))
    with pytest.raises(InvalidInput, match="states no protocol"):
        importing.complete()
    assert catalog.tables() == []
