"""What a checkpoint in the log is, for the outcome and for the pointer."""

from dataclasses import dataclass

import msgspec

from deltamirror.delta.lastcheckpoint import LastCheckpoint, V2Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A checkpoint that is in the log and verified."""

    version: int
    name: str
    digest: bytes | None
    """Of the file of this name; the content of the sidecars follows from their names. None: nothing builds on it."""
    num_rows: int
    num_files: int
    num_bytes: int
    schema: str | None = None
    """Spark's text; None where the file states another, or none."""
    v2: V2Checkpoint | None = None

    @property
    def pointer(self) -> LastCheckpoint:
        """What ``_last_checkpoint`` says of it."""
        return LastCheckpoint(
            version=self.version,
            size=self.num_rows,
            size_in_bytes=self.num_bytes,
            num_of_add_files=self.num_files,
            checkpoint_schema=None if self.schema is None else msgspec.Raw(self.schema.encode()),
            v2_checkpoint=self.v2,
        )
