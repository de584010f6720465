"""Access tokens: known by their digest, for as long and for as much as they were issued."""

import pytest

from deltamirror import Catalog
from deltamirror.errors import AlreadyExists, InvalidInput, NotFound
from deltamirror.txnlog.access.patterns import ALL_TABLES, TablePattern
from deltamirror.txnlog.access.tokens import (
    AccessToken,
    Issued,
    Right,
    all_tokens,
    has_tokens,
    issue_token,
    revoke_token,
    token_by_id,
    touch_token,
    verified_token,
)
from deltamirror.txnlog.queue.overview import Sort, Wanted, tables_page
from tests.support.lakes.lake import execute


def issued(
    catalog: Catalog, name: str = "ada", *, seconds: float | None = None, tables: TablePattern = ALL_TABLES
) -> Issued:
    return issue_token(catalog.database, name, rights=[Right.OPERATE], tables=tables, seconds=seconds)


def verified(catalog: Catalog, text: str) -> AccessToken | None:
    return verified_token(catalog.database, text)


def test_a_token_is_what_it_was_issued_as_until_it_is_revoked(catalog: Catalog) -> None:
    made = issued(catalog, tables=TablePattern("sales.*"))
    found = verified(catalog, made.text)
    assert found == made.token
    assert (found.name, found.rights, found.tables.text, found.expires_at) == ("ada", (Right.OPERATE,), "sales.*", None)
    assert (found.allows(Right.READ), found.allows(Right.OPERATE), found.allows(Right.WRITE)) == (True, True, False)
    touch_token(catalog.database, found.id)
    used = verified(catalog, made.text)
    assert used is not None
    assert used.last_used_at is not None
    assert used.last_used_at >= found.created_at
    with pytest.raises(AlreadyExists, match="'ada'"):
        issued(catalog)
    revoke_token(catalog.database, "ada")
    assert verified(catalog, made.text) is None
    with catalog.database.read() as connection:
        assert token_by_id(connection, found.id) is None
        assert not has_tokens(connection, Right.READ)
        assert [each.is_live for each in all_tokens(connection)] == [False]
    with pytest.raises(NotFound):
        revoke_token(catalog.database, "ada")
    assert issued(catalog).token.id != found.id


def test_a_token_ends_with_its_time(lake: Catalog) -> None:
    made = issued(lake, seconds=60)
    assert verified(lake, made.text) is not None
    execute(lake, "UPDATE dl_access_tokens SET expires_at = created_at")
    assert verified(lake, made.text) is None


def test_the_catalog_does_not_hold_the_token(lake: Catalog) -> None:
    made = issued(lake)
    secret = made.text.split("_", 2)[2]
    [row] = execute(lake, "SELECT * FROM dl_access_tokens")
    assert secret not in repr(tuple(row))
    assert secret.encode() not in bytes(row.digest)


@pytest.mark.parametrize("change", ["", "dm_", "x", "é", "\x00"])
def test_a_wrong_token_is_none(lake: Catalog, change: str) -> None:
    made = issued(lake).text
    assert verified(lake, made) is not None
    for wrong in (change, made + change + "x", change + made[:-1], made[:-1] + ("A" if made[-1] != "A" else "B")):
        assert verified(lake, wrong) is None


def test_a_pattern_means_the_same_in_sql_and_in_python(catalog: Catalog) -> None:
    names = ["sales.orders", "Sales.orders", "sales_orders", "salesXorders", "sales.eu.orders", "kpi"]
    for name in names:
        catalog.create_table(name, location=f"memory://lake/{name}", schema="id long")
    for text in ("sales.*", "*.orders", "sales_orders", "*", "s*.*", "none", "*E*", "sales*orders"):
        pattern = TablePattern(text)
        with catalog.database.read() as connection:
            page = tables_page(connection, Wanted(visible=pattern, sort=Sort.NAME))
        assert {table.name for table in page.tables} == {name for name in names if pattern.covers(name)}, text


@pytest.mark.parametrize("text", ["", "a b", "sales?", "[a]", "%", "é", "x" * 256])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="pattern"):
        TablePattern(text)


@pytest.mark.parametrize("name", ["", "a b", "-x", "<script>", "x" * 101])
def test_what_is_no_name_of_a_token_is_refused(lake: Catalog, name: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        issued(lake, name)
