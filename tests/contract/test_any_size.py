"""A commit gets the same answer whether it is held in memory or staged: how large it is decides nothing else."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror import Add, Catalog, DeletionVector, DomainMetadata, Metadata, Protocol, Table, Txn
from deltamirror.delta.actions import Action, CommitInfo
from deltamirror.delta.features import upgrade
from deltamirror.delta.lines import encode_commit
from deltamirror.errors import InvalidAction
from deltamirror.txnlog.commit import staging
from tests.support.lakes.lake import add, adds_of, create, opened, remove_of, row_counts

pytestmark = [pytest.mark.requirement("R37"), pytest.mark.default_on("sqlite", "postgresql")]

SIZES = {"small": 1_000, "staged": 2}
"""Beyond how many lines a commit is large, by the names of two tables that have the same history."""

ROWS = '{"numRecords":10}'
VECTOR = DeletionVector(
    storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", offset=1, size_in_bytes=34, cardinality=2
)

Build = Callable[[Table], Iterable[Action]]
Send = Callable[[Catalog, Table, list[Action]], object]


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_LINES_AT_ONCE", 4)


def answers(url: str, begin: Callable[[Catalog, str], Table], build: Build, send: Send) -> list[object]:
    """What comes of these actions in a commit that is small, and in one that is large."""
    found: list[object] = []
    for name, limit in SIZES.items():
        with opened(url, stage_above=limit, chunk_lines=2) as catalog:
            table = begin(catalog, name)
            before = row_counts(catalog)
            try:
                send(catalog, table, list(build(table)))
            except InvalidAction as error:
                # A small commit counts metaData and protocol among themselves.
                index = None if error.action in ("metaData", "protocol") else error.index
                left_nothing = row_counts(catalog) == before
                found.append((error.rule, error.action, error.field, index, error.table == name, left_nothing))
            else:
                now = table.snapshot()
                found.append((adds_of(now.files()), now.protocol, now.metadata.partition_columns))
    return found


def numbered(prefix: str, count: int = 6, **fields: Any) -> list[Add]:
    return [add(f"{prefix}{number}", stats=ROWS, **fields) for number in range(count)]


def tracked(catalog: Catalog, name: str) -> Table:
    """A table in which ``first`` has the row ids from 0 on, ``second`` those from 10; ``gone`` had those from 20."""
    properties = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}
    table = create(catalog, name, properties=properties)
    table.append([add(path, stats=ROWS) for path in ("first", "second", "gone")])
    table.remove(["gone"])
    return table


def stage(catalog: Catalog, table: Table, actions: list[Action]) -> None:
    with catalog.transaction() as tx:
        tx.stage(table.name, iter(actions))


def with_ids(path: str, base: int, **fields: Any) -> Add:
    return add(path, stats=ROWS, base_row_id=base, default_row_commit_version=1, **fields)


SECOND = add("second", stats=ROWS)
ROW_IDS: dict[str, tuple[list[Action], str | None]] = {
    "own": ([with_ids("first", 0)], None),
    "own of a file that was removed": ([with_ids("gone", 20)], None),
    "own, escaped otherwise": ([with_ids("%66irst", 0, data_change=False)], None),
    "of another file": ([with_ids("new", 0)], "add.row-ids.others"),
    "within another file": ([with_ids("second", 5)], "add.row-ids.others"),
    "of nobody": ([with_ids("new", 500)], "add.row-ids.others"),
    "that only the commit itself says it had": (
        [remove_of(SECOND, base_row_id=0), *numbered("b", 9), with_ids("second", 0, deletion_vector=VECTOR)],
        "add.row-ids.others",
    ),
}


@pytest.mark.parametrize("case", ROW_IDS)
def test_a_file_states_row_ids_of_its_own_in_commits_of_any_size(lake_url: str, case: str) -> None:
    files, rule = ROW_IDS[case]
    small, staged = answers(lake_url, tracked, lambda _: [*numbered("a"), *files, *numbered("z")], stage)
    assert small == staged
    assert (small[0] if rule else None) == rule  # type: ignore[index]


def untimed(catalog: Catalog, name: str) -> Table:
    properties = {"delta.enableInCommitTimestamps": "false"}
    return create(catalog, name, schema="id long, day string", properties=properties)


def send_lines(catalog: Catalog, table: Table, actions: list[Action]) -> None:
    told = CommitInfo(timestamp=1_700_000_000_000, operation="RESTORE")
    with catalog.transaction() as tx:
        tx.stage_lines(table.name, encode_commit([told, *actions]), at_version=1)


def by_day(table: Table) -> Metadata:
    return replace(table.snapshot().metadata, partition_columns=["day"])


def with_vectors(table: Table) -> Metadata:
    now = table.snapshot().metadata
    return replace(now, configuration={**now.configuration, "delta.enableDeletionVectors": "true"})


def extended(table: Table, *features: str) -> Protocol:
    return upgrade(table.snapshot().protocol, features)


PLAIN, DAYS, MARKED = numbered("f"), numbered("f", day="1"), numbered("f", deletion_vector=VECTOR)
LOADED = Txn(app_id="loader", version=1)
MINE = DomainMetadata(domain="mine", configuration="{}", removed=False)

# What a commit has besides its files: before them, and after them.
Around = Callable[[Table], tuple[Sequence[Action], Sequence[Action]]]
LINES: dict[str, tuple[Around, Sequence[Action], str | None]] = {
    "nothing beside the files": (lambda _: ([], []), PLAIN, None),
    "files by an unknown column": (lambda _: ([], []), DAYS, "add.partition.unknown"),
    "metadata first": (lambda t: ([by_day(t)], []), DAYS, None),
    "metadata last": (lambda t: ([], [by_day(t)]), DAYS, None),
    "metadata last, which the files do not follow": (lambda t: ([], [by_day(t)]), PLAIN, "add.partition.missing"),
    "protocol last": (lambda t: ([], [extended(t, "deletionVectors")]), MARKED, None),
    "protocol last, for a domain before it": (lambda t: ([MINE], [extended(t, "domainMetadata")]), PLAIN, None),
    "protocol last, without a feature of the files": (
        lambda t: ([], [extended(t, "domainMetadata")]), MARKED, "add.deletion-vector.feature",
    ),
    "protocol last, for metadata that is first": (
        lambda t: ([with_vectors(t)], [extended(t, "deletionVectors")]), MARKED, None,
    ),
    "protocol last, without a feature of metadata that is first": (
        lambda t: ([with_vectors(t)], [extended(t, "domainMetadata")]), PLAIN, "metaData.features",
    ),
    "metadata first, without its protocol": (lambda t: ([with_vectors(t)], []), PLAIN, "metaData.features"),
    "both last": (lambda t: ([], [with_vectors(t), extended(t, "deletionVectors")]), MARKED, None),
    "both last, without a feature": (
        lambda t: ([], [with_vectors(t), extended(t, "domainMetadata")]), PLAIN, "metaData.features",
    ),
    "a protocol that contradicts itself, last": (
        lambda _: ([], [Protocol(min_reader_version=3, min_writer_version=7)]), PLAIN, "protocol.reader-list",
    ),
    "an application twice": (lambda _: ([LOADED], [LOADED]), PLAIN, "commit.app-id-twice"),
    "metadata twice": (lambda t: ([by_day(t)], [by_day(t)]), DAYS, "commit.metadata-twice"),
    "a wrong file before metadata that is last": (
        lambda t: ([add("x", day="1", size=-1)], [by_day(t)]), DAYS, "add.size.negative",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_lines_of_another_writer_are_judged_by_all_of_them_in_any_order_and_of_any_size(
    lake_url: str, case: str
) -> None:
    around, files, rule = LINES[case]

    def build(table: Table) -> list[Action]:
        before, after = around(table)
        return [*before, *files, *after]

    small, staged = answers(lake_url, untimed, build, send_lines)
    assert small == staged
    assert (small[0] if rule else None) == rule  # type: ignore[index]


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        ([CommitInfo(timestamp=5), *PLAIN], "commitInfo.in-commit-timestamp"),
        ([CommitInfo(in_commit_timestamp=2**62), *PLAIN], "commitInfo.in-commit-timestamp.range"),
        ([*PLAIN, CommitInfo(in_commit_timestamp=2**42)], "commitInfo.first"),
        (PLAIN, "commitInfo.inCommitTimestamp.first-missing"),
    ],
)
def test_lines_of_any_size_state_their_time_first(lake_url: str, lines: Sequence[Action], rule: str) -> None:
    def send(catalog: Catalog, table: Table, actions: list[Action]) -> None:
        with catalog.transaction() as tx:
            tx.stage_lines(table.name, encode_commit(actions), at_version=1)

    small, staged = answers(lake_url, create, lambda _: lines, send)
    assert small == staged
    assert small[0] == rule  # type: ignore[index]
