"""The pointer ``_last_checkpoint``: whether it can be believed, leads to a checkpoint, and repeats it rightly."""

from collections.abc import Iterator, Sequence

from deltamirror.delta.lastcheckpoint import LastCheckpoint, Trust, decode
from deltamirror.deltalog.listing import CheckpointFiles
from deltamirror.deltalog.rules.findings import Finding, LogObject
from deltamirror.ops.validate.checkpoints import CheckpointCounts
from deltamirror.publish.checkpoint.companions import leads_to, repeats
from deltamirror.storage.store import Store


def read_pointer(subject: LogObject, data: bytes) -> LastCheckpoint | Finding:
    """The pointer of a file, or why readers do not go by it."""
    reading = decode(data)
    if reading.pointer is None:
        return subject.finding("pointer.json", found=data[:80].decode(errors="replace") or "nothing")
    if reading.trust is Trust.DAMAGED:
        return subject.finding("pointer.checksum", field="checksum", found="another checksum")
    return reading.pointer


def pointer_target(pointer: LastCheckpoint, checkpoints: Sequence[CheckpointFiles]) -> CheckpointFiles | None:
    """The checkpoint that readers come to."""
    return next((files for files in checkpoints if leads_to(pointer, files)), None)


def pointer_findings(
    store: Store, subject: LogObject, pointer: LastCheckpoint, files: CheckpointFiles | None, facts: CheckpointCounts
) -> Iterator[Finding]:
    """The rules that a pointer breaks, by the checkpoint that it leads to; ``facts`` are those of the checkpoint."""
    if files is None:
        name = "" if pointer.v2_checkpoint is None else f", {pointer.v2_checkpoint.path}"
        found = f"version {pointer.version} in {pointer.parts or 1} parts{name}"
        yield subject.finding("pointer.target", field="version", found=found)
        return
    if facts.is_whole:
        yield from _of_counts(subject, pointer, facts)
        if not repeats(store, pointer, files):
            yield subject.finding("pointer.content", found=f"something else than {files.name}")


def _of_counts(subject: LogObject, pointer: LastCheckpoint, facts: CheckpointCounts) -> Iterator[Finding]:
    counted = (
        ("size", pointer.size, facts.num_actions),
        ("size-in-bytes", pointer.size_in_bytes, facts.num_bytes),
        ("num-of-add-files", pointer.num_of_add_files, facts.counts["add"]),
    )
    for name, stated, actual in counted:
        if stated is not None and stated != actual:
            field = {"size": "size", "size-in-bytes": "sizeInBytes", "num-of-add-files": "numOfAddFiles"}[name]
            yield subject.finding(f"pointer.{name}", field=field, expected=actual, found=stated)
