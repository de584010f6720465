"""The SQL rows of a version as a state, to be held against the lines that they were made from."""

import pyarrow as pa

from deltamirror.batches import batched
from deltamirror.deltalog.checkpoint.decoded import adds_table
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES
from deltamirror.deltalog.checkpoint.state import CheckpointState
from deltamirror.txnlog.content.rows import add_of
from deltamirror.txnlog.tables.reading import Snapshot

__all__ = ["projected_state"]

_ROWS = 50_000
"""So many files are Python objects at a time."""


def projected_state(taken: Snapshot) -> CheckpointState:
    """What the rows say of files, protocol, metadata, transactions and domains; tombstones have none."""
    return CheckpointState(
        version=taken.version,
        protocol=taken.protocol,
        metadata=taken.metadata,
        transactions=tuple(sorted(taken.transactions().values(), key=lambda each: each.app_id)),
        domains=tuple(sorted(taken.domain_metadata().values(), key=lambda each: each.domain)),
        files=_files(taken),
        removes=REMOVES.empty_table(),
    )


def _files(taken: Snapshot) -> pa.Table:
    with taken.database.read() as connection:
        rows = connection.execution_options(yield_per=_ROWS).execute(taken.files_query())
        parts = [adds_table([(0, add_of(row)) for row in some]).select(FILES.names) for some in batched(rows, _ROWS)]
    return pa.concat_tables([FILES.empty_table(), *parts])
