"""Checkpoints to be written: units made of the bytes of commits, and stores that hold these commits."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deltamirror.config import StorageSettings
from deltamirror.delta import lines, names
from deltamirror.delta.actions import Action, Add, CommitInfo, DomainMetadata, Format, Metadata, Protocol, Remove, Txn
from deltamirror.delta.chunks import Chunk, commit_digest, compressed_chunk, plain_chunk
from deltamirror.publish.checkpoint.publishing import publish_checkpoint
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointBase, CheckpointOutcome, CheckpointUnit, CommitWork, Lane, Lease

COMMITTED_AT = 1_700_000_000_000
"""The time of version 0; each further version comes a second later."""

_LEASE = Lease(table_id=1, lane=Lane.CHECKPOINTS, owner="test", epoch=1, held_until=float("inf"))
_SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"day","type":"string","nullable":true,"metadata":{}}]}'
)


def first_commit(*, v2: bool = False, configuration: Mapping[str, str] | None = None) -> bytes:
    """Version 0 of a table that is partitioned by ``day``; ``v2``: its checkpoints have sidecars."""
    features = {"reader_features": ["v2Checkpoint"], "writer_features": ["v2Checkpoint", "domainMetadata"]}
    protocol = Protocol(min_reader_version=3, min_writer_version=7, **features) if v2 else _classic_protocol()
    metadata = Metadata(
        id="5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        format=Format(provider="parquet", options={}),
        schema_string=_SCHEMA,
        partition_columns=["day"],
        configuration={**({"delta.checkpointPolicy": "v2"} if v2 else {}), **(configuration or {})},
        created_time=COMMITTED_AT,
    )
    return commit(protocol, metadata)


def _classic_protocol() -> Protocol:
    return Protocol(min_reader_version=1, min_writer_version=7, writer_features=["domainMetadata"])


def commit(*actions: Action) -> bytes:
    """The bytes of a commit with these actions."""
    return lines.encode_commit([CommitInfo(timestamp=COMMITTED_AT, operation="WRITE"), *actions])


def file(name: str, *, day: str | None = "1", **fields: Any) -> Add:
    """A data file with statistics."""
    defaults: dict[str, Any] = {
        "partition_values": {"day": day},
        "size": 100,
        "modification_time": COMMITTED_AT,
        "data_change": True,
        "stats": '{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}',
    }
    return Add(path=f"day={day}/{name}.parquet", **{**defaults, **fields})


def _removed(added: Add, at: int) -> Remove:
    return Remove(
        path=added.path,
        deletion_timestamp=at,
        data_change=True,
        extended_file_metadata=True,
        partition_values=added.partition_values,
        size=added.size,
    )


STORY = (
    commit(*(file(f"first-{n}") for n in range(5))),
    commit(_removed(file("first-0"), COMMITTED_AT + 2_000), file("second", day=None), Txn(app_id="app", version=7)),
    commit(DomainMetadata(domain="our.domain", configuration='{"a":"é"}', removed=False), file("third", stats=None)),
)
"""What follows on version 0: five files, one of them removed, a null partition, a transaction, a domain."""


def unit_of(commits: Sequence[bytes], *, base: CheckpointBase | None = None, **fields: Any) -> CheckpointUnit:
    """The checkpoint of the last of all commits of a table; with a base, only those after it are carried."""
    version = len(commits) - 1
    start = 0 if base is None else base.version + 1
    return CheckpointUnit(
        table_id=1,
        table="t",
        address=StoreAddress("memory:///nowhere", StorageSettings()),
        lease=_LEASE,
        version=version,
        commits=tuple(_work(number, commits[number]) for number in range(start, version + 1)),
        base=base,
        **{"committed_at": COMMITTED_AT + version * 1_000, **fields},
    )


def _work(version: int, data: bytes) -> CommitWork:
    first, newline, rest = data.partition(b"\n")
    chunks = [plain_chunk(first + newline), *([compressed_chunk(rest)] if rest else [])]
    return CommitWork(
        version=version,
        commit_id=version + 1,
        committed_at=COMMITTED_AT + version * 1_000,
        digest=commit_digest(chunk.digest for chunk in chunks),
        num_bytes=len(data),
        num_chunks=len(chunks),
        chunks=tuple(chunks),
    )


def carried(work: CommitWork) -> Iterable[Chunk]:
    """The chunks that a commit carries."""
    assert work.chunks is not None
    return work.chunks


def no_guard() -> None:
    """Lets every put pass."""


def put_commits(store: Store, commits: Sequence[bytes]) -> None:
    """Publish the JSON of all versions."""
    for version, data in enumerate(commits):
        store.create(f"{names.LOG_DIRECTORY}/{names.commit_name(version)}", data)


def publish(unit: CheckpointUnit, store: Store) -> CheckpointOutcome:
    """Write the checkpoint of a unit, which has to succeed."""
    outcome = publish_checkpoint(unit, store, fetch=carried, guard=no_guard)
    assert outcome.failure is None, outcome.failure
    assert not outcome.base_unusable
    return outcome


def base_of(outcome: CheckpointOutcome) -> CheckpointBase:
    """A written checkpoint as the base of a later one."""
    committed_at = COMMITTED_AT + outcome.version * 1_000
    assert outcome.digest is not None
    return CheckpointBase(version=outcome.version, committed_at=committed_at, name=outcome.name, digest=outcome.digest)


def objects(store: Store) -> dict[str, bytes]:
    """Everything that lies in a store."""
    found = {meta.key: store.read(meta.key) for meta in store.list()}
    return {key: each.data for key, each in found.items() if each is not None}
