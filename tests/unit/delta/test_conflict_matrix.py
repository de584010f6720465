"""Every pair of operations, at both isolation levels, against the matrix of Delta's documentation.

The table is partitioned; p and q are two of its partitions. Operations marked p or q read and write that partition.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import pytest

from deltamirror.delta.actions import (
    Action,
    Add,
    CommitInfo,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltamirror.delta.conflicts import (
    CommitFacts,
    ConflictKind,
    IsolationLevel,
    ReadSet,
    find_conflict,
    implied_reads,
    isolation_for,
)

pytestmark = pytest.mark.requirement("R36")

PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
METADATA = Metadata(
    id="t",
    format=Format(provider="parquet", options={}),
    schema_string='{"type":"struct","fields":[]}',
    partition_columns=["part"],
    configuration={},
)
RENAMED = Metadata(
    id="t",
    name="other",
    format=METADATA.format,
    schema_string=METADATA.schema_string,
    partition_columns=["part"],
    configuration={},
)


@dataclass(frozen=True)
class Operation:
    """A command: the actions it commits, given a word that keeps its files apart from others', and its reads."""

    name: str
    actions: Callable[[str], list[Action]]
    reads: ReadSet | None = None


def add(partition: str, who: str, *, data_change: bool = True) -> Add:
    return Add(
        path=f"part={partition}/{who}",
        partition_values={"part": partition},
        size=1,
        modification_time=1,
        data_change=data_change,
    )


def remove(partition: str, number: int, *, data_change: bool = True) -> Remove:
    return Remove(
        path=f"part={partition}/{number}",
        deletion_timestamp=1,
        data_change=data_change,
        partition_values={"part": partition},
    )


def domain(name: str) -> DomainMetadata:
    return DomainMetadata(domain=name, configuration="{}", removed=False)


def partition_read(partition: str) -> ReadSet:
    return ReadSet(partitions=({"part": frozenset({partition})},))


def delete(partition: str) -> Callable[[str], list[Action]]:
    return lambda _: [CommitInfo(operation="DELETE"), remove(partition, 1)]


def update(partition: str) -> Callable[[str], list[Action]]:
    return lambda who: [CommitInfo(operation="UPDATE"), add(partition, who), remove(partition, 1)]


def merge(who: str) -> list[Action]:
    return [CommitInfo(operation="MERGE"), add("p", who), add("q", who), remove("p", 1), remove("q", 1)]


def optimize(partition: str) -> Callable[[str], list[Action]]:
    return lambda who: [
        CommitInfo(operation="OPTIMIZE"),
        add(partition, who, data_change=False),
        remove(partition, 1, data_change=False),
        remove(partition, 2, data_change=False),
    ]


WHOLE_TABLE = ReadSet(whole_table=True)
OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("insert", lambda who: [add("p", who)]),
        Operation("insertR", lambda who: [add("p", who)], WHOLE_TABLE),
        Operation("delete p", delete("p"), partition_read("p")),
        Operation("delete q", delete("q"), partition_read("q")),
        Operation("update p", update("p"), partition_read("p")),
        Operation("update q", update("q"), partition_read("q")),
        Operation("merge", merge),
        Operation("optim. p", optimize("p"), partition_read("p")),
        Operation("optim. q", optimize("q"), partition_read("q")),
        Operation("metadata", lambda _: [RENAMED]),
        Operation("protocol", lambda _: [Protocol(min_reader_version=1, min_writer_version=3)]),
        Operation("txn a", lambda who: [Txn(app_id="a", version=1), add("p", who)]),
        Operation("txn b", lambda who: [Txn(app_id="b", version=1), add("q", who)]),
        Operation("domain x", lambda _: [domain("x")]),
        Operation("domain y", lambda _: [domain("y")]),
    )
}

# Rows are the transaction that comes second, columns the winner. "A/." is a conflict at Serializable only.
EXPECTED = """
         | insert insertR delete_p delete_q update_p update_q merge optim._p optim._q metadata protocol txn_a txn_b domain_x domain_y
insert   | .      .       .        .        .        .        .     .        .        M        P        .     .     .        .
insertR  | A/.    A       R        R        A        A        A     A        A        M        P        A/.   A/.   .        .
delete p | A/.    A       R        .        A        .        A     A        .        M        P        A/.   .     .        .
delete q | .      .       .        R        .        A        A     .        A        M        P        .     A/.   .        .
update p | A/.    A       R        .        A        .        A     A        .        M        P        A/.   .     .        .
update q | .      .       .        R        .        A        A     .        A        M        P        .     A/.   .        .
merge    | A/.    A       R        R        A        A        A     A        A        M        P        A/.   A/.   .        .
optim. p | .      .       R        .        R        .        R     R        .        M        P        .     .     .        .
optim. q | .      .       .        R        .        R        R     .        R        M        P        .     .     .        .
metadata | .      .       .        .        .        .        .     .        .        M        P        .     .     .        .
protocol | .      .       .        .        .        .        .     .        .        M        P        .     .     .        .
txn a    | .      .       .        .        .        .        .     .        .        M        P        T     .     .        .
txn b    | .      .       .        .        .        .        .     .        .        M        P        .     T     .        .
domain x | .      .       .        .        .        .        .     .        .        M        P        .     .     D        .
domain y | .      .       .        .        .        .        .     .        .        M        P        .     .     .        D
"""  # noqa: E501  # a matrix reads as a matrix

KINDS = {
    ".": None,
    "A": ConflictKind.CONCURRENT_APPEND,
    "D": ConflictKind.CONCURRENT_DOMAIN,
    "M": ConflictKind.METADATA_CHANGED,
    "P": ConflictKind.PROTOCOL_CHANGED,
    "R": ConflictKind.CONCURRENT_DELETE_READ,
    "T": ConflictKind.CONCURRENT_TRANSACTION,
}
LEVELS = (IsolationLevel.SERIALIZABLE, IsolationLevel.WRITE_SERIALIZABLE)


def expected_cells() -> dict[tuple[str, str], str]:
    header, *rows = [line.split("|") for line in EXPECTED.strip("\n").splitlines()]
    winners = [name.replace("_", " ") for name in header[1].split()]
    return {
        (current.strip(), winner): cell
        for current, cells in rows
        for winner, cell in zip(winners, cells.split(), strict=True)
    }


CELLS = expected_cells()


def stored(operation: Operation) -> CommitFacts:
    """The facts of the operation once it is in the log, where only its commitInfo says that it was blind."""
    actions = operation.actions("winner")
    own = CommitFacts.of(actions, reads=implied_reads(actions, operation.reads))
    rest = [action for action in actions if not isinstance(action, CommitInfo)]
    return CommitFacts.of([CommitInfo(operation=own.operation, is_blind_append=own.is_blind_append), *rest])


def outcome(current: str, winner: str, default: IsolationLevel) -> ConflictKind | None:
    operation = OPERATIONS[current]
    actions = operation.actions("current")
    reads = implied_reads(actions, operation.reads)
    facts = CommitFacts.of(actions, reads=reads)
    reason = find_conflict(
        facts,
        reads,
        stored(OPERATIONS[winner]),
        isolation=isolation_for(facts, default),
        protocol_before=PROTOCOL,
        metadata_before=METADATA,
    )
    return None if reason is None else reason.kind


def test_the_matrix_is_complete() -> None:
    assert CELLS.keys() == set(product(OPERATIONS, OPERATIONS))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("current", "winner"), CELLS)
def test_every_pair_of_operations_has_the_documented_outcome(current: str, winner: str, level: IsolationLevel) -> None:
    outcomes = CELLS[current, winner].split("/")
    assert outcome(current, winner, level) == KINDS[outcomes[LEVELS.index(level)] if len(outcomes) > 1 else outcomes[0]]


INSERTS = ("insert", "txn a", "txn b")
CHANGES = ("delete p", "delete q", "update p", "update q", "merge")
COMPACTIONS = ("optim. p", "optim. q")
DOCUMENTED_AS_IMPOSSIBLE = (
    (INSERTS, INSERTS, LEVELS),
    (INSERTS, CHANGES, (IsolationLevel.WRITE_SERIALIZABLE,)),
    (INSERTS, COMPACTIONS, LEVELS),
)
DOCUMENTED_AS_POSSIBLE = (
    (INSERTS, CHANGES, (IsolationLevel.SERIALIZABLE,)),
    (CHANGES, CHANGES, LEVELS),
    (CHANGES, COMPACTIONS, LEVELS),
    (COMPACTIONS, COMPACTIONS, LEVELS),
)


def conflicts_of(some: tuple[str, ...], others: tuple[str, ...], level: IsolationLevel) -> list[ConflictKind]:
    pairs = [*product(some, others), *product(others, some)]
    kinds = [outcome(current, winner, level) for current, winner in pairs]
    # Two runs of one application exclude each other whatever they write; the page does not speak of that.
    return [kind for kind in kinds if kind not in (None, ConflictKind.CONCURRENT_TRANSACTION)]


@pytest.mark.parametrize(("some", "others", "levels"), DOCUMENTED_AS_IMPOSSIBLE)
def test_what_is_documented_not_to_conflict_never_does(
    some: tuple[str, ...], others: tuple[str, ...], levels: tuple[IsolationLevel, ...]
) -> None:
    assert [conflicts_of(some, others, level) for level in levels] == [[] for _ in levels]


@pytest.mark.parametrize(("some", "others", "levels"), DOCUMENTED_AS_POSSIBLE)
def test_what_is_documented_to_conflict_does_so_on_common_files(
    some: tuple[str, ...], others: tuple[str, ...], levels: tuple[IsolationLevel, ...]
) -> None:
    assert all(conflicts_of(some, others, level) for level in levels)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("operations", [("delete", "update", "optim.")])
def test_writers_of_different_partitions_never_collide(operations: tuple[str, ...], level: IsolationLevel) -> None:
    in_p, in_q = ([f"{name} {partition}" for name in operations] for partition in "pq")
    assert conflicts_of(tuple(in_p), tuple(in_q), level) == []
