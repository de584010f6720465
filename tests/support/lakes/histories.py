"""Histories of a table, made up by Hypothesis: commits of adds, removes, vectors, transactions, domains, metadata."""

from dataclasses import dataclass

from hypothesis import strategies as st

from deltamirror.delta.actions import (
    Action,
    Add,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    FileKey,
    Format,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltamirror.delta.lines import encode_commit
from deltamirror.delta.replay import reconciliation_key

SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"p","type":"string","nullable":true,"metadata":{}}]}'
)
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
PATHS = ("a", "b", "é%20x", "c%2fd", "c%2Fd", "s3://B/x", "s3://b/x", "日/本")
LONGS = st.integers(-(2**63), 2**63 - 1)
TIMES = st.integers(0, 2**53 + 1)

odd_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""Any text that UTF-8 has a form for: quotes, controls, zero bytes and characters beyond the basic plane among it."""

_maps = st.dictionaries(odd_texts, odd_texts, max_size=3)
_values = st.dictionaries(odd_texts, st.none() | odd_texts, max_size=3)
_vectors = st.none() | st.builds(
    DeletionVector,
    storage_type=st.sampled_from("uip"),
    path_or_inline_dv=odd_texts,
    offset=st.none() | st.integers(0, 2**31 - 1),
    size_in_bytes=st.integers(0, 2**31 - 1),
    cardinality=LONGS,
)
_ids = {"base_row_id": st.none() | LONGS, "default_row_commit_version": st.none() | LONGS}

odd_adds = st.builds(
    Add,
    path=odd_texts,
    partition_values=_values,
    size=LONGS | st.just(2**53 + 1),
    modification_time=TIMES,
    data_change=st.booleans(),
    stats=st.none() | odd_texts,
    tags=st.none() | _maps,
    deletion_vector=_vectors,
    clustering_provider=st.none() | odd_texts,
    **_ids,
)
odd_removes = st.builds(
    Remove,
    path=odd_texts,
    deletion_timestamp=st.none() | TIMES,
    data_change=st.booleans(),
    extended_file_metadata=st.none() | st.booleans(),
    partition_values=st.none() | _values,
    size=st.none() | LONGS,
    tags=st.none() | _maps,
    deletion_vector=_vectors,
    stats=st.none() | odd_texts,
    **_ids,
)


@dataclass(frozen=True, slots=True)
class History:
    """The commits of a table from version 0 on, with the times at which they were made (ms)."""

    commits: tuple[tuple[Action, ...], ...]
    times: tuple[int, ...]

    def lines(self) -> list[list[bytes]]:
        """Every commit as a stream of one chunk."""
        return [[encode_commit(commit)] for commit in self.commits]


def table_metadata(**configuration: str) -> Metadata:
    """Metadata of a table of two columns; properties are given without ``delta.``."""
    return Metadata(
        id="t",
        format=Format(provider="parquet", options={}),
        schema_string=SCHEMA,
        partition_columns=["p"],
        configuration={f"delta.{key}": value for key, value in configuration.items()},
    )


_metadata = st.builds(
    table_metadata,
    deletedFileRetentionDuration=st.sampled_from(["0 seconds", "2 seconds", "interval 1 week"]),
    setTransactionRetentionDuration=st.sampled_from(["1 second", "3 seconds"]),
) | st.builds(table_metadata, deletedFileRetentionDuration=st.sampled_from(["2 seconds", "1 hour"]))


@st.composite
def _commit(draw: st.DrawFn, time: int) -> tuple[Action, ...]:
    """Actions at most one for each key, as the protocol asks."""
    files: dict[FileKey, Action] = {}
    for _ in range(draw(st.integers(0, 4))):
        action = draw(_file_action(time))
        files.setdefault(reconciliation_key(action), action)
    others: list[Action] = [CommitInfo(timestamp=time, operation="WRITE")]
    apps = draw(st.lists(st.sampled_from("xyz"), unique=True, max_size=2))
    others += [Txn(app_id=app, version=time, last_updated=draw(st.sampled_from([None, time]))) for app in apps]
    names = draw(st.lists(st.sampled_from("de"), unique=True, max_size=1))
    others += [DomainMetadata(domain=name, configuration=str(time), removed=draw(st.booleans())) for name in names]
    if draw(st.integers(0, 3)) == 0:
        others.append(draw(_metadata))
    return (*others, *files.values())


@st.composite
def _file_action(draw: st.DrawFn, time: int) -> Add | Remove:
    path, vector = draw(st.sampled_from(PATHS)), draw(st.sampled_from([None, "v", "w"]))
    descriptor = vector and DeletionVector(
        storage_type="u",
        path_or_inline_dv=vector,
        offset=draw(st.sampled_from([None, 1])),
        size_in_bytes=1,
        cardinality=1,
    )
    if draw(st.booleans()):
        values = {"p": draw(st.sampled_from([None, "1", "ü"]))}
        stats = draw(st.sampled_from([None, '{"numRecords":1}', '{"numRecords":2,"minValues":{"id":3}}']))
        return Add(
            path=path,
            partition_values=values,
            size=time,
            modification_time=time,
            data_change=True,
            stats=stats,
            deletion_vector=descriptor or None,
        )
    at = draw(st.sampled_from([None, time, max(time - 3000, 0)]))
    return Remove(path=path, deletion_timestamp=at, data_change=True, deletion_vector=descriptor or None)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A table with its protocol and metadata, and what happens to it in steps of about a second."""
    times = [1_700_000_000_000]
    for step in draw(st.lists(st.sampled_from([1, 500, 1000, 2500]), max_size=8)):
        times.append(times[-1] + step)
    first = (PROTOCOL, draw(_metadata), *draw(_commit(times[0]))[1:])
    started = tuple(each for number, each in enumerate(first) if number < 2 or not isinstance(each, Metadata))
    return History((started, *(draw(_commit(time)) for time in times[1:])), tuple(times))
