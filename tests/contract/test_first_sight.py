"""A transaction is held against everything since it first saw its tables, on every road into the log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from deltamirror import Catalog, DomainMetadata, Table, Transaction, Txn
from deltamirror.errors import Conflict
from tests.support.lakes.lake import add, create, info_of, opened, paths

pytestmark = [pytest.mark.requirement("R36"), pytest.mark.default_on("sqlite", "postgresql")]

STAGE_ABOVE = 4


@pytest.fixture
def catalog(lake_url: str) -> Iterator[Catalog]:
    with opened(lake_url, stage_above=STAGE_ABOVE) as found:
        yield found


@contextmanager
def elsewhere(catalog: Catalog) -> Iterator[None]:
    """What is done inside is done by another process: this one does not get to know it."""
    remembered = dict(catalog.writer._tables._states)
    yield
    catalog.writer._tables._states.clear()
    catalog.writer._tables._states.update(remembered)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = create(catalog)
    table.append([add("before")])
    return table


def reason_of(act: Callable[[], object]) -> str:
    with pytest.raises(Conflict) as caught:
        act()
    return caught.value.reason


def few(name: str) -> list[object]:
    return [add(name)]


def many(name: str) -> list[object]:
    return [add(f"{name}{number}") for number in range(3 * STAGE_ABOVE)]


@pytest.mark.parametrize("files", [few, many])
@pytest.mark.parametrize("rows_checked", [False, True])
def test_an_append_that_was_begun_before_a_metadata_change_is_refused(
    catalog: Catalog, table: Table, files: Callable[[str], list[object]], rows_checked: bool
) -> None:
    tx = catalog.transaction(rows_checked=rows_checked)
    tx.append("t", files("stale"))
    with elsewhere(catalog):
        table.alter(constraints={"positive": "id > 0"}, rows_checked=True)
    assert reason_of(tx.commit) in ("metadata-changed", "protocol-changed")
    with catalog.transaction(rows_checked=True) as tx:
        tx.append("t", files("fresh"))
    assert "before" in paths(table)
    assert not any("stale" in path for path in paths(table))


@pytest.mark.parametrize("files", [few, many])
def test_an_append_for_a_table_that_is_remembered_otherwise_is_refused_once(
    catalog: Catalog, table: Table, files: Callable[[str], list[object]]
) -> None:
    with elsewhere(catalog):
        table.alter(columns=["more string"])
    assert reason_of(lambda: table.append(files("stale"))) == "metadata-changed"
    table.append(files("fresh"))
    with elsewhere(catalog):
        table.alter(columns=["even_more string"])
    table.snapshot()
    table.append(files("seen"))
    assert not any("stale" in path for path in paths(table))


def test_an_append_adopts_what_asks_nothing_of_its_files(catalog: Catalog, table: Table) -> None:
    table.alter(properties={"delta.enableInCommitTimestamps": "false"})
    tx = catalog.transaction()
    tx.append("t", [add("a")])
    with elsewhere(catalog):
        table.alter(properties={"delta.enableInCommitTimestamps": "true"})
    version = tx.commit().versions["t"]
    assert "inCommitTimestamp" in info_of(table, version)


def test_a_table_that_was_made_again_is_not_the_one_that_an_append_was_for(catalog: Catalog, table: Table) -> None:
    with elsewhere(catalog):
        catalog.drop_table("t", unpublished=True)
        create(catalog)
    assert reason_of(lambda: table.append([add("stale")])) == "table-replaced"
    assert table.append([add("fresh")]).versions == {"t": 1}


def test_one_of_many_tables_is_enough(catalog: Catalog, table: Table) -> None:
    create(catalog, "u")
    tx = catalog.transaction()
    tx.append("u", [add("a")])
    tx.append("t", [add("a")])
    with elsewhere(catalog):
        table.alter(columns=["more string"])
    assert reason_of(tx.commit) == "metadata-changed"
    assert paths(catalog.table("u")) == []


def test_an_application_has_read_its_progress_when_it_sets_it(lake: Catalog) -> None:
    create(lake)
    for number, act in enumerate((_append_and_progress, _stage_progress)):
        tx = lake.transaction()
        act(tx, 10 * number + 5)
        with lake.transaction() as between:
            between.set_transaction("t", "app", 10 * number + 3)
        assert reason_of(tx.commit) == "concurrent-transaction"


def test_progress_that_others_recorded_before_is_no_conflict(catalog: Catalog, table: Table) -> None:
    """Another process did the last step, of which this one remembers nothing."""
    with elsewhere(catalog), catalog.transaction() as tx:
        tx.set_transaction("t", "app", 1)
    with catalog.transaction() as tx:
        _append_and_progress(tx, 2)
    assert tx.result.versions == {"t": 3}


def _append_and_progress(tx: Transaction, version: int) -> None:
    tx.append("t", [add("x")])
    tx.set_transaction("t", "app", version)


def _stage_progress(tx: Transaction, version: int) -> None:
    tx.stage("t", [Txn(app_id="app", version=version)])


def test_a_domain_is_set_by_one_of_two_that_saw_it(lake: Catalog) -> None:
    create(lake, features=["domainMetadata"])
    twins = [lake.transaction(), lake.transaction()]
    for tx in twins:
        tx.stage("t", [DomainMetadata(domain="d", configuration="{}", removed=False)])
    twins[0].commit()
    assert reason_of(twins[1].commit) == "concurrent-domain"


@pytest.mark.parametrize("versions", [{"at_version": 3}, {"read_version": 2}])
def test_the_oldest_read_counts(lake: Catalog, versions: dict[str, int]) -> None:
    """Whatever versions are named later: what was read before has to hold."""
    table = create(lake, partition_by=["day"])
    table.append([add("a", day="mon")])
    tx = lake.transaction()
    tx.read("t", partitions={"day": "mon"})
    table.append([add("b", day="mon")])
    tx.stage("t", [add("sum", day="sum")], **versions)  # type: ignore[arg-type]
    assert reason_of(tx.commit) == "concurrent-append"


def test_an_exact_version_that_read_earlier_follows_what_it_did_not_read(lake: Catalog) -> None:
    table = create(lake, partition_by=["day"])
    tx = lake.transaction()
    tx.read("t", partitions={"day": "mon"})
    table.append([add("b", day="tue")])
    tx.stage("t", [add("sum", day="sum")], at_version=2)
    assert tx.commit().versions == {"t": 2}
    assert info_of(table, 2)["readVersion"] == 0


def test_the_oldest_of_several_stages_counts(lake: Catalog) -> None:
    table = create(lake)
    table.append([add("a")])
    tx = lake.transaction()
    tx.read("t", files=["a"])
    tx.stage("t", [add("x")], read_version=1)
    table.remove(["a"])
    tx.stage("t", [add("y")], read_version=2)
    assert reason_of(tx.commit) == "concurrent-delete-read"
