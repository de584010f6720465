"""Two checkpoints describe the same table if all but their order is equal."""

from dataclasses import replace

import msgspec
import pyarrow as pa
import pytest

from deltamirror.delta.actions import DomainMetadata, Format, Metadata, Protocol, Txn
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES
from deltamirror.deltalog.checkpoint.state import CheckpointState
from deltamirror.publish.checkpoint.equivalence import is_equivalent

pytestmark = pytest.mark.requirement("R15")


def row(path: str, vector: str | None = None, *, offset: int = 1, kind: str = "u") -> dict[str, object]:
    stored = {"storageType": kind, "pathOrInlineDv": vector, "offset": offset, "sizeInBytes": 1, "cardinality": 1}
    return {"path": path, "size": 1, "dataChange": False, "deletionVector": stored if vector else None}


def rows(schema: pa.Schema, *found: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(found), schema=schema)


STATE = CheckpointState(
    version=3,
    protocol=Protocol(min_reader_version=3, min_writer_version=7, reader_features=["a", "b"], writer_features=["a"]),
    metadata=Metadata(id="i", format=Format(provider="parquet", options={}), partition_columns=[], configuration={}),
    transactions=(Txn(app_id="s", version=1), Txn(app_id="t", version=2)),
    domains=(DomainMetadata(domain="s", configuration="", removed=False),),
    files=rows(FILES, row("a", "v"), row("a", "w"), row("b"), row("c", "v", kind="i"), row("c", "v", offset=2)),
    removes=rows(REMOVES, row("g"), row("h")),
)
PROTOCOL = STATE.protocol


def changed(**fields: object) -> Protocol:
    return msgspec.structs.replace(PROTOCOL, **fields)


@pytest.mark.parametrize(
    "other",
    [
        STATE,
        replace(STATE, files=STATE.files.take([4, 3, 2, 1, 0])),
        replace(STATE, removes=STATE.removes.take([1, 0])),
        replace(STATE, transactions=STATE.transactions[::-1]),
        replace(STATE, protocol=changed(reader_features=["b", "a"])),
        replace(STATE, files=STATE.files.append_column("stats_parsed", pa.nulls(5, pa.int64()))),
    ],
)
def test_order_is_not_part_of_a_state(other: CheckpointState) -> None:
    assert is_equivalent(STATE, other)
    assert is_equivalent(other, STATE)


def test_features_may_be_absent() -> None:
    without = replace(STATE, protocol=changed(reader_features=None, writer_features=None))
    assert is_equivalent(without, replace(STATE, protocol=changed(reader_features=[], writer_features=[])))


@pytest.mark.parametrize(
    "other",
    [
        replace(STATE, version=4),
        replace(STATE, metadata=msgspec.structs.replace(STATE.metadata, id="j")),
        replace(STATE, protocol=changed(min_reader_version=2)),
        replace(STATE, protocol=changed(min_writer_version=6)),
        replace(STATE, protocol=changed(reader_features=["a"])),
        replace(STATE, protocol=changed(writer_features=["a", "b"])),
        replace(STATE, transactions=STATE.transactions[:1]),
        replace(STATE, transactions=(Txn(app_id="s", version=2), STATE.transactions[1])),
        replace(STATE, domains=()),
        replace(STATE, domains=(msgspec.structs.replace(STATE.domains[0], configuration="x"),)),
        replace(STATE, files=STATE.files.slice(1)),
        replace(STATE, files=rows(FILES, *STATE.files.to_pylist()[:4], row("c", "v", offset=3))),
        replace(STATE, files=rows(FILES, *STATE.files.to_pylist()[:4], row("d", "v", offset=2))),
        replace(STATE, removes=STATE.removes.slice(1)),
        replace(STATE, removes=rows(REMOVES, row("g"), row("i"))),
        replace(STATE, removes=STATE.removes.append_column("x", pa.nulls(2, pa.int64()))),
    ],
)
def test_everything_else_is(other: CheckpointState) -> None:
    assert not is_equivalent(STATE, other)
    assert not is_equivalent(other, STATE)
