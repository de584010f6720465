"""Checkpoints of a table that follow on one another, in row groups so small that a few dozen files have many."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from msgspec.structs import replace as replaced

from deltamirror.config import StorageSettings
from deltamirror.delta.actions import Add, DeletionVector, DomainMetadata, Format, Metadata, Protocol, Remove, Txn
from deltamirror.delta.schema import from_ddl, schema_string
from deltamirror.deltalog.checkpoint import parquet
from deltamirror.publish.checkpoint import encoding, grouping, stitching, unchanged
from deltamirror.publish.checkpoint.stitching import UnchangedGroups, span
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointBase
from tests.support.logs.checkpoint_attempts import attempt
from tests.support.logs.checkpoint_tables import table_of
from tests.support.logs.checkpoints import COMMITTED_AT, base_of, commit, publish, put_commits, unit_of

MOST_COVERING = 3
FEWEST_ROWS = 6
SCHEMAS = (
    "id long, at timestamp, day string",
    "id long, at timestamp, day string, price decimal(9,2)",
    "id long, at timestamp_ntz, day string",
)
RETENTIONS = ("interval 3 seconds", "interval 1 week", "interval 6 seconds")


@contextmanager
def _many_row_groups() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "FEWEST_ROWS", FEWEST_ROWS)
        patch.setattr(unchanged, "_MOST_COVERING", MOST_COVERING)
        yield


@dataclass
class Life:
    """The commits of a table, one operation each, and the files that these leave."""

    commits: list[bytes] = field(default_factory=list)
    live: list[Add] = field(default_factory=list)
    dead: list[Add] = field(default_factory=list)
    made: int = 0
    v2: bool = False
    """Whether checkpoints have sidecars."""
    metadata: Metadata = field(
        default_factory=lambda: Metadata(
            id="t",
            format=Format(provider="parquet", options={}),
            schema_string=schema_string(from_ddl(SCHEMAS[0])),
            partition_columns=["day"],
            configuration={"delta.deletedFileRetentionDuration": RETENTIONS[0]},
        )
    )

    def __post_init__(self) -> None:
        reading = ["deletionVectors", *(["v2Checkpoint"] if self.v2 else [])]
        features = {"reader_features": reading, "writer_features": [*reading, "domainMetadata"]}
        protocol = Protocol(min_reader_version=3, min_writer_version=7, **features)
        if self.v2:
            policy = {**self.metadata.configuration, "delta.checkpointPolicy": "v2"}
            self.metadata = replaced(self.metadata, configuration=policy)
        self.commits.append(commit(protocol, self.metadata))

    @property
    def now(self) -> int:
        return COMMITTED_AT + len(self.commits) * 1_000

    def append(self, count: int) -> None:
        files = [self._file() for _ in range(count)]
        self.live += files
        self.commits.append(commit(*files))

    def remove(self, place: int) -> None:
        if self.live:
            gone = self.live.pop(place % len(self.live))
            self.dead.append(gone)
            self.commits.append(commit(self._removed(gone)))

    def add_again(self, place: int) -> None:
        """A file that is there: with another size, and in another of the spellings that are equal."""
        if self.live:
            number = place % len(self.live)
            old = self.live[number]
            path = old.path.replace("%2f", "%2F") if "%2f" in old.path else old.path.replace("%2F", "%2f")
            self.live[number] = replaced(old, path=path, size=old.size + 1)
            self.commits.append(commit(self.live[number]))

    def restore(self, place: int) -> None:
        if self.dead:
            self.live.append(self.dead.pop(place % len(self.dead)))
            self.commits.append(commit(self.live[-1]))

    def delete_rows(self, place: int) -> None:
        if self.live:
            number = place % len(self.live)
            old = self.live[number]
            vector = DeletionVector(
                storage_type="u",
                path_or_inline_dv=f":%{len(self.commits)}",
                offset=1,
                size_in_bytes=1,
                cardinality=1,
            )
            self.live[number] = replaced(old, deletion_vector=vector)
            self.commits.append(commit(self._removed(old), self.live[number]))

    def change_retention(self, number: int) -> None:
        self._configure("delta.deletedFileRetentionDuration", RETENTIONS[number % len(RETENTIONS)])

    def change_statistics(self, number: int) -> None:
        self._configure("delta.checkpoint.writeStatsAsStruct", str(number % 2 == 0).lower())

    def change_schema(self, number: int) -> None:
        self._describe(schema_string=schema_string(from_ddl(SCHEMAS[number % len(SCHEMAS)])))

    def change_columns(self, more: list[str]) -> None:
        self._describe(schema_string=schema_string(from_ddl(", ".join([SCHEMAS[0], *more]))))

    def note(self, number: int) -> None:
        domain = DomainMetadata(domain="d", configuration=str(number), removed=number % 3 == 0)
        self.commits.append(commit(Txn(app_id=f"app-{number % 3}", version=len(self.commits)), domain))

    def _configure(self, key: str, value: str) -> None:
        self._describe(configuration={**self.metadata.configuration, key: value})

    def _describe(self, **fields: object) -> None:
        self.metadata = replaced(self.metadata, **fields)
        self.commits.append(commit(self.metadata))

    def _file(self) -> Add:
        self.made += 1
        name = md5(str(self.made).encode(), usedforsecurity=False).hexdigest()[:8]
        day = str(self.made % 3)
        folder = f"day={day}" if self.made % 7 else "s3://Bucket/x" if self.made % 2 else "a%2fb"
        number = self.made
        bounds = f'{{"id":{number},"at":"2024-02-29T01:02:03.{number % 1000:03}Z"}}'
        return Add(
            path=f"{folder}/{name}.parquet",
            partition_values={"day": day},
            size=number,
            modification_time=self.now,
            data_change=True,
            stats=f'{{"numRecords":{number},"minValues":{bounds},"maxValues":{bounds},"nullCount":{{"id":0}}}}',
        )

    def _removed(self, file: Add) -> Remove:
        return Remove(
            path=file.path,
            deletion_timestamp=self.now if file.size % 5 else None,
            data_change=True,
            deletion_vector=file.deletion_vector,
        )


class Chain:
    """The checkpoints of a table in one store, each from the one before; beside it those from all lines."""

    def __init__(self) -> None:
        self.store, self.beside = (store_at(f"memory://{uuid4()}/t", StorageSettings()) for _ in range(2))
        self.base: CheckpointBase | None = None
        self.taken: list[int] = []
        """The numbers of the row groups that the last checkpoint took over from the one before."""

    def next(self, life: Life, **options: Any) -> tuple[bytes, bytes]:
        """The checkpoint of the last commit in both ways."""
        options = {"num_files": len(life.live), "row_group_bytes": 1, **options}
        for store in (self.store, self.beside):
            put_commits(store, life.commits)
        with self._watched(), _many_row_groups():
            outcome = attempt(unit_of(life.commits, base=self.base, **options), self.store)
            if outcome.base_unusable:
                outcome = publish(unit_of(life.commits, **options), self.store)
        assert outcome.failure is None, outcome.failure
        self.base = None if outcome.digest is None else base_of(outcome)
        whole = publish(unit_of(life.commits, num_files=len(life.live)), self.beside)
        assert (outcome.num_rows, outcome.num_files) == (whole.num_rows, whole.num_files)
        return data_of(self.store, outcome.name), data_of(self.beside, outcome.name)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        self.taken = []

        def stitched(files: Iterable[pa.Buffer], unchanged: UnchangedGroups | None = None) -> pa.Buffer:
            self.taken += [] if unchanged is None else unchanged.numbers
            return stitching.stitched(files, unchanged)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(encoding, "stitched", stitched)
            yield


def data_of(store: Store, name: str) -> bytes:
    found = store.read(f"_delta_log/{name}")
    assert found is not None
    return found.data


def rows_of(data: bytes) -> list[str]:
    return sorted(map(repr, table_of(data).to_pylist()))


def assert_same(found: bytes, expected: bytes) -> None:
    """Rows, schema, and what the footer says beside the row groups."""
    assert rows_of(found) == rows_of(expected)
    ours, theirs = parquet.opened(found), parquet.opened(expected)
    assert ours.schema.equals(theirs.schema)
    assert ours.metadata.metadata == theirs.metadata.metadata
    assert ours.metadata.created_by == theirs.metadata.created_by


def row_groups_of(data: bytes) -> list[bytes]:
    """The bytes of each row group."""
    metadata = parquet.opened(data).metadata
    spans = [span(metadata.row_group(number)) for number in range(metadata.num_row_groups)]
    return [data[start : start + length] for start, length in spans]
