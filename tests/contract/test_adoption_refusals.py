"""Commits that cannot follow those of another writer are named, or dropped if asked for; wrong logs are refused."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.errors import Diverged, InvalidAction, Refused
from deltamirror.ops.reconcile.repair import repair
from deltamirror.txnlog.content.superseded import superseded_of
from tests.support.imports.adoptions import (
    PLAIN,
    add_line,
    adopted,
    assert_same,
    dump,
    logs_of,
    mirror,
    mirroring,
    their_commit,
)
from tests.support.lakes.lake import add, execute, paths
from tests.support.mirrors.local import append, committed_files, log_of, make_table, published_files
from tests.support.readers.reader import Reader

pytestmark = [pytest.mark.requirement("R39"), pytest.mark.default_on("sqlite")]


@pytest.fixture
def catalog(accepting: Catalog) -> Catalog:
    return accepting


@pytest.fixture
def engine(catalog: Catalog) -> Iterator[MirrorEngine]:
    with mirroring(catalog) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog, tmp_path: Path, engine: MirrorEngine) -> Table:
    """A table at version 2, published."""
    made = make_table(catalog, tmp_path, properties=PLAIN)
    append(made, 2)
    mirror(engine)
    return made


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_commit_that_cannot_follow_is_named_and_nothing_is_changed(
    catalog: Catalog, engine: MirrorEngine, table: Table, dry_run: bool
) -> None:
    append(table)
    table.remove([paths(table)[0]])
    append(table)
    their_commit(table, 3, add_line("theirs"))
    before = dump(catalog)
    if dry_run:
        found = adopted(engine, dry_run=True)
        assert (found.adopted, found.rebased, [each.version for each in found.dropped]) == ((3,), {3: 4, 5: 5}, [4])
        assert "version 4" in found.refused
    else:
        with pytest.raises(Refused, match=r"version 4 \(version 3 \(WRITE\) came first: theirs was added") as caught:
            adopted(engine)
        assert "--drop-conflicting" in caught.value.hint
    assert dump(catalog) == before
    assert published_files(table).keys() - committed_files(table).keys() == set()


def test_a_dry_run_says_what_the_adoption_then_does(catalog: Catalog, engine: MirrorEngine, table: Table) -> None:
    append(table, 3)
    their_commit(table, 3, add_line("theirs"))
    before = dump(catalog)
    foreseen = adopted(engine, dry_run=True)
    assert dump(catalog) == before
    assert adopted(engine) == foreseen


@pytest.mark.default_on("sqlite", "postgresql")
def test_commits_that_cannot_follow_are_dropped_when_asked_for_and_their_tokens_forgotten(
    catalog: Catalog, engine: MirrorEngine, table: Table, delta_rs: Reader
) -> None:
    first = paths(table)[0]
    table.remove([first], token="remove")
    append(table)
    their_commit(table, 3, add_line("theirs"))
    found = adopted(engine, drop_conflicting=True)
    assert (found.rebased, [each.version for each in found.dropped]) == ({4: 4}, [3])
    assert first in paths(table)
    with catalog.database.read() as connection:
        kept = superseded_of(connection, 1, 3)
    assert [(each.new_version, each.reason) for each in kept] == [(None, found.dropped[0].reason)]
    again = table.remove([first], token="remove")
    assert (again.versions, again.already_applied) == ({"t": 5}, False)
    mirror(engine)
    assert_same(table, delta_rs)


@pytest.mark.parametrize(
    "depends", ["a file of it", "the whole table", "an application", "a domain", "the metadata"], ids=str
)
def test_what_builds_on_a_dropped_commit_is_dropped_with_it(
    catalog: Catalog, engine: MirrorEngine, tmp_path: Path, depends: str
) -> None:
    domains = {"delta.feature.domainMetadata": "supported"}
    table = make_table(catalog, tmp_path, properties={**PLAIN, **domains})
    append(table, 1)
    mirror(engine)
    first = paths(table)[0]
    with catalog.transaction() as tx:
        tx.read("t")
        tx.append("t", [add("lost")])
        tx.set_transaction("t", "app", 1)
        if depends == "the metadata":
            tx.set_metadata("t", properties={"a": "b"})
        if depends == "a domain":
            tx.set_domain("t", "mine", "1")
    with catalog.transaction() as tx:
        match depends:
            case "a file of it":
                tx.read("t", files=["lost"])
                tx.remove("t", ["lost"])
            case "the whole table":
                tx.remove("t", [first])
            case "an application":
                tx.append("t", [add("x")])
                tx.set_transaction("t", "app", 2)
            case "a domain":
                tx.set_domain("t", "mine", "2")
            case "the metadata":
                tx.append("t", [add("x")])
    append(table)
    their_commit(table, 2, {"txn": {"appId": "app", "version": 1}})
    last = () if depends == "the metadata" else (4,)
    found = adopted(engine, drop_conflicting=True)
    assert [each.version for each in found.dropped] == [each for each in (2, 3, 4) if each not in last]
    assert "builds on version 2" in found.dropped[1].reason or "app" in found.dropped[1].reason


def test_a_transaction_over_several_tables_is_not_split_unless_asked_for(
    catalog: Catalog, engine: MirrorEngine, table: Table, tmp_path: Path
) -> None:
    other = make_table(catalog, tmp_path, "other")
    with catalog.transaction(token="both") as tx:
        tx.remove("t", [paths(table)[0]])
        tx.append("other", [add("x")])
    their_commit(table, 3, add_line("theirs"))
    before = dump(catalog)
    with pytest.raises(Refused, match="keep it: other") as caught:
        adopted(engine, drop_conflicting=True)
    assert "--split-transactions" in caught.value.hint
    assert dump(catalog) == before
    found = adopted(engine, drop_conflicting=True, split_transactions=True)
    assert [(each.version, each.tables) for each in found.dropped] == [(3, ("other",))]
    assert (other.info().head, "x" in paths(other)) == (1, True)
    [row] = execute(catalog, "SELECT versions FROM dl_commit_tokens WHERE token = 'both'")
    assert msgspec.json.decode(row.versions) == {"other": 1}


def test_a_gap_is_refused(catalog: Catalog, engine: MirrorEngine, table: Table) -> None:
    their_commit(table, 3, add_line("theirs"))
    their_commit(table, 5, add_line("theirs-2"))
    with pytest.raises(Refused, match="holds version 5, but not version 4"):
        adopted(engine)
    append(table)
    (log_of(table) / f"{3:020}.json").unlink()
    with pytest.raises(Refused, match="holds version 5, but not version 3"):
        adopted(engine)


def test_what_was_published_never_gives_way(catalog: Catalog, engine: MirrorEngine, table: Table) -> None:
    append(table)
    mirror(engine)
    path = log_of(table) / f"{3:020}.json"
    path.write_bytes(path.read_bytes() + b"\n")
    their_commit(table, 4, add_line("theirs"))
    execute(catalog, "UPDATE dl_mirror_status SET state = 'FAILED' WHERE version = 3")
    execute(catalog, "UPDATE dl_tables SET published_version = 2")
    with pytest.raises(Diverged, match="changed after it was published") as caught:
        adopted(engine)
    assert "repair t --replace-altered" in caught.value.hint
    with logs_of(engine) as logs, pytest.raises(Diverged, match="put there by another writer"):
        repair(logs, "t", replace_altered=True)
    assert path.read_bytes() == table.commit_file(3)
    assert adopted(engine).adopted == (4,)


def test_another_table_in_the_place_of_ours_is_not_adopted(
    catalog: Catalog, engine: MirrorEngine, tmp_path: Path
) -> None:
    table = make_table(catalog, tmp_path, properties=PLAIN)
    log_of(table).mkdir(parents=True)
    their_commit(table, 0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
    with pytest.raises(Refused, match="it is another table") as caught:
        adopted(engine)
    assert "deltamirror import" in caught.value.hint


def test_a_commit_that_breaks_a_rule_is_refused_with_its_version(
    catalog: Catalog, engine: MirrorEngine, table: Table
) -> None:
    their_commit(table, 3, add_line("theirs"))
    unknown = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": ["x"]}
    their_commit(table, 4, {"protocol": unknown})
    before = dump(catalog)
    with pytest.raises(InvalidAction, match="version 4 in the log of table 't'"):
        adopted(engine)
    assert dump(catalog) == before


def test_metadata_of_somebody_else_is_in_force_and_what_does_not_fit_it_cannot_follow(
    catalog: Catalog, engine: MirrorEngine, table: Table, delta_rs: Reader
) -> None:
    append(table)
    line = next(each for each in table.commit_file(0).splitlines() if each.startswith(b'{"metaData"'))
    metadata = msgspec.json.decode(line)
    metadata["metaData"]["configuration"]["theirs"] = "yes"
    their_commit(table, 3, metadata)
    their_commit(table, 4, add_line("theirs"))
    with pytest.raises(Refused, match=r"version 3 .*came first"):
        adopted(engine)
    adopted(engine, drop_conflicting=True)
    assert table.snapshot().metadata.configuration["theirs"] == "yes"
    append(table)
    mirror(engine)
    assert_same(table, delta_rs)
