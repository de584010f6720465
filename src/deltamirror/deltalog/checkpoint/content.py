"""What a checkpoint holds, as Arrow tables: a row for every action that a full replay of the log leaves.

``replay`` makes a state from the lines of commits, ``row_batches`` and ``file_rows`` the rows of a checkpoint from a
state; ``reading`` has the way back, so that the next checkpoint continues from the last.
"""

from deltamirror.deltalog.checkpoint.replaying import Newer, continued, replay, replay_newer
from deltamirror.deltalog.checkpoint.rows import checkpoint_schema, file_rows, row_batches
from deltamirror.deltalog.checkpoint.state import CheckpointState, can_continue

__all__ = [
    "CheckpointState",
    "Newer",
    "can_continue",
    "checkpoint_schema",
    "continued",
    "file_rows",
    "replay",
    "replay_newer",
    "row_batches",
]
