"""Whether two checkpoints describe the same table, though different writers ordered them in their own ways."""

from collections.abc import Mapping

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.actions import Protocol
from deltamirror.deltalog.checkpoint.content import CheckpointState
from deltamirror.deltalog.checkpoint.layout import FILES
from deltamirror.publish.checkpoint.readback import is_same

_VECTOR_ID = ("storageType", "pathOrInlineDv", "offset")


def is_equivalent(one: CheckpointState, other: CheckpointState) -> bool:
    """Whether files, tombstones, protocol, metadata, transactions and domains are equal, in whatever order."""
    return (
        one.version == other.version
        and one.metadata == other.metadata
        and _features(one.protocol) == _features(other.protocol)
        and _by_name(one) == _by_name(other)
        and _are_same_rows(one.files.select(FILES.names), other.files.select(FILES.names))
        and _are_same_rows(one.removes, other.removes)
    )


def _features(protocol: Protocol) -> tuple[int, int, list[str], list[str]]:
    reader, writer = sorted(protocol.reader_features or ()), sorted(protocol.writer_features or ())
    return protocol.min_reader_version, protocol.min_writer_version, reader, writer


def _by_name(state: CheckpointState) -> Mapping[tuple[str, str], msgspec.Struct]:
    transactions = {("txn", each.app_id): each for each in state.transactions}
    return {**transactions, **{("domain", each.domain): each for each in state.domains}}


def _are_same_rows(one: pa.Table, other: pa.Table) -> bool:
    if one.num_rows != other.num_rows or not one.schema.equals(other.schema):
        return False
    mine, theirs = _sorted(one), _sorted(other)
    return all(is_same(mine.column(name), theirs.column(name)) for name in mine.column_names)


def _sorted(rows: pa.Table) -> pa.Table:
    """In the order of their keys: path and deletion vector."""
    vector = {name: pc.struct_field(rows.column("deletionVector"), name) for name in _VECTOR_ID}
    keys = pa.table({"path": rows.column("path"), **vector})
    return rows.take(pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names]))
