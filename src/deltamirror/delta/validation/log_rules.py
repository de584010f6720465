"""Every rule that a file of a log can break: lines, checkpoints, sidecars, the pointer, checksums, compactions.

The rules of single actions are in ``rules``; these are of what holds actions, and of how the files of a log fit
together. An id begins with the kind of file, or with ``log`` where several of them clash.
"""

from collections.abc import Mapping
from typing import Final

from deltamirror.delta.shapes import ShapeRule
from deltamirror.delta.validation.rules import RULES, Rule, RuleSeverity

_WRITE_CHECKPOINT: Final = (
    "delete it, and let a writer write a checkpoint: `deltamirror repair TABLE`, or Delta Spark with a later commit"
)
_RESTORE: Final = "bring the file back from a backup, or from an earlier version of the bucket's object"
_WRITE_CHECKSUM: Final = "delete it: readers do without; `deltamirror repair TABLE` writes those of our tables again"
_MOVE_AWAY: Final = "find out what it is, and move it out of _delta_log/"
_WARNING: Final = RuleSeverity.WARNING

# The two other shapes are of actions that we author: a file may have fields that we do not know.
_SHAPES: Final[Mapping[ShapeRule, str]] = {
    ShapeRule.BODY: "an action is a JSON object",
    ShapeRule.JSON_TEXT: "stats, schemaString and the configuration of a domain are texts that hold JSON",
    ShapeRule.MISSING_FIELD: "an action has the fields that the protocol requires",
    ShapeRule.NEGATIVE_TIME: "a time is in milliseconds since 1970, at least 0",
    ShapeRule.REPEATED_KEY: "no object has a key twice",
    ShapeRule.SNAKE_CASE: "fields are spelled in camelCase",
    ShapeRule.WRONG_TYPE: "a field has a value of its type",
}

_LINES: Final = (
    Rule("line.json", "a line is one JSON object with one action, in UTF-8", _RESTORE),
    Rule(
        "line.long", "a line has at most 16 MiB, and blank lines at most 1 MiB", "look at the file: no writer makes it"
    ),
    Rule(
        "line.action.unknown",
        "every action is one of the protocol: some readers drop others, and some fail",
        "find the writer that wrote it, and the table feature that it belongs to",
    ),
    *(Rule(str(each), text, each.remedy) for each, text in _SHAPES.items()),
)

_LOG: Final = (
    Rule(
        "log.name.misspelt",
        "versions have 20 digits and parts 10: only Delta Lake on Spark takes another name for that of a log file",
        _MOVE_AWAY,
    ),
    Rule("log.obstacle", "a log file is an object, and no link, folder or pipe", "put the file itself in its place"),
    Rule("log.empty", "a log has a commit or a complete checkpoint", _RESTORE),
    Rule(
        "log.versions.gap",
        "every version after the newest checkpoint, or from 0 on, has its commit",
        "bring the missing commits back from a backup; of a table of ours: `deltamirror repair TABLE`",
    ),
    Rule(
        "log.versions.hole",
        "cleanup deletes the oldest commits only: no commit is missing between others",
        "bring the missing commits back; without them no reader sees the versions before the next checkpoint",
        _WARNING,
    ),
    Rule("log.commit.empty", "a commit has a line", _RESTORE),
    Rule("log.protocol.missing", "a log states a protocol", "bring back the commit that states it, or a checkpoint"),
    Rule("log.metaData.missing", "a log states a metaData", "bring back the commit that states it, or a checkpoint"),
    Rule(
        "log.path.live-twice",
        "a path is in the table once, whatever its deletion vector",
        "remove the file as it is in the table, with its deletion vector",
    ),
    Rule(
        "log.path.spelled-twice",
        "a file is in the table once, however its path is spelled: readers would list its rows twice",
        "remove the file under one of its spellings",
    ),
    Rule(
        "log.in-commit-timestamp.missing",
        "every commit begins with a commitInfo where commits carry their time",
        "commit through a writer that knows the feature inCommitTimestamp",
    ),
    Rule(
        "log.in-commit-timestamp.order",
        "in-commit timestamps ascend from version to version",
        "bring the commits back in their order; time travel by timestamp goes astray",
    ),
    Rule(
        "log.in-commit-timestamp.enablement",
        "the commit that enables in-commit timestamps states its version and its time as properties, unless it is "
        "version 0",
        "set delta.inCommitTimestampEnablementVersion and …EnablementTimestamp to those of the commit",
    ),
)

_CHECKPOINTS: Final = (
    Rule("checkpoint.empty", "a checkpoint has content: readers pass over an empty one", _WRITE_CHECKPOINT, _WARNING),
    Rule(
        "checkpoint.parts.missing",
        "a checkpoint has all of its parts: readers pass over an incomplete one",
        _WRITE_CHECKPOINT,
        _WARNING,
    ),
    Rule(
        "checkpoint.version.ahead",
        "a checkpoint belongs to a version that has its commit, unless cleanup deleted all of them",
        _WRITE_CHECKPOINT,
        _WARNING,
    ),
    Rule("checkpoint.parquet", "a checkpoint is a Parquet file that can be read", _WRITE_CHECKPOINT),
    Rule("checkpoint.schema", "the columns of a checkpoint are actions, with fields of their types", _WRITE_CHECKPOINT),
    Rule("checkpoint.field.missing", "an action in a checkpoint has the fields that it has to have", _WRITE_CHECKPOINT),
    Rule("checkpoint.action.unknown", "a checkpoint has no actions but those of the protocol", _WRITE_CHECKPOINT),
    Rule(
        "checkpoint.action.of-commit",
        "a checkpoint has neither commitInfo nor cdc, which belong to commits",
        _WRITE_CHECKPOINT,
        _WARNING,
    ),
    Rule("checkpoint.row.empty", "every row of a checkpoint has an action", _WRITE_CHECKPOINT, _WARNING),
    Rule("checkpoint.row.several", "a row of a checkpoint has one action", _WRITE_CHECKPOINT),
    Rule("checkpoint.protocol.once", "a checkpoint has one protocol", _WRITE_CHECKPOINT),
    Rule("checkpoint.metaData.once", "a checkpoint has one metaData", _WRITE_CHECKPOINT),
    Rule("checkpoint.txn.twice", "a checkpoint has one txn of an application", _WRITE_CHECKPOINT),
    Rule("checkpoint.domain.twice", "a checkpoint has one domainMetadata of a domain", _WRITE_CHECKPOINT),
    Rule("checkpoint.path.twice", "a checkpoint has a live path once", _WRITE_CHECKPOINT),
    Rule("checkpoint.path.removed", "a checkpoint has no tombstone of a live file", _WRITE_CHECKPOINT),
    Rule("checkpoint.files.missing", "a checkpoint has every file that its commits leave", _WRITE_CHECKPOINT),
    Rule("checkpoint.files.extra", "a checkpoint has no file but those that its commits leave", _WRITE_CHECKPOINT),
    Rule("checkpoint.files.differing", "the files of a checkpoint have the fields of their commits", _WRITE_CHECKPOINT),
    Rule(
        "checkpoint.stats-parsed.differing",
        "stats_parsed in a checkpoint includes what stats include: readers that go by it would lose rows otherwise",
        _WRITE_CHECKPOINT,
    ),
    Rule(
        "checkpoint.stats-parsed.missing",
        "stats_parsed in a checkpoint has the statistics that stats have: readers that go by it read more otherwise",
        _WRITE_CHECKPOINT,
        _WARNING,
    ),
    Rule(
        "checkpoint.partition-values-parsed.differing",
        "partitionValues_parsed in a checkpoint are the partitionValues",
        _WRITE_CHECKPOINT,
    ),
    Rule(
        "checkpoint.tombstones.lost",
        "a checkpoint has the removes that had not expired when it was written",
        _WRITE_CHECKPOINT,
    ),
    Rule(
        "checkpoint.tombstones.differing",
        "the removes of a checkpoint say what those of their commits say: by their time, vacuum deletes the files",
        _WRITE_CHECKPOINT,
    ),
    Rule("checkpoint.protocol.differing", "the protocol of a checkpoint is that of its commits", _WRITE_CHECKPOINT),
    Rule("checkpoint.metaData.differing", "the metaData of a checkpoint is that of its commits", _WRITE_CHECKPOINT),
    Rule("checkpoint.txn.differing", "the transactions of a checkpoint are those of its commits", _WRITE_CHECKPOINT),
    Rule("checkpoint.domain.differing", "the domains of a checkpoint are those of its commits", _WRITE_CHECKPOINT),
    Rule("checkpoint.v2.feature", "a checkpoint with sidecars needs the feature v2Checkpoint", _WRITE_CHECKPOINT),
    Rule("checkpoint.v2.head", "a V2 checkpoint has one checkpointMetadata, with its version", _WRITE_CHECKPOINT),
    Rule("sidecar.missing", "the sidecars that a checkpoint names are in _delta_log/_sidecars/", _WRITE_CHECKPOINT),
    Rule("sidecar.size", "a sidecar has the size that its checkpoint states", _WRITE_CHECKPOINT),
    Rule("sidecar.parquet", "a sidecar is a Parquet file that can be read", _WRITE_CHECKPOINT),
    Rule("sidecar.actions", "a sidecar has add and remove, and nothing else", _WRITE_CHECKPOINT),
)

_POINTER_REMEDY: Final = "delete _last_checkpoint: readers list the log then; the next checkpoint writes it again"
_POINTER: Final = (
    Rule("pointer.json", "_last_checkpoint is a JSON object with a version", _POINTER_REMEDY, _WARNING),
    Rule("pointer.checksum", "the checksum in _last_checkpoint is that of its content", _POINTER_REMEDY, _WARNING),
    Rule(
        "pointer.target",
        "_last_checkpoint names a checkpoint that is there: its version, its parts, its name",
        _POINTER_REMEDY,
    ),
    Rule("pointer.size", "size is the number of actions in the checkpoint", _POINTER_REMEDY, _WARNING),
    Rule("pointer.size-in-bytes", "sizeInBytes is the size of the checkpoint's files", _POINTER_REMEDY, _WARNING),
    Rule("pointer.num-of-add-files", "numOfAddFiles is the number of its adds", _POINTER_REMEDY, _WARNING),
    Rule(
        "pointer.content",
        "_last_checkpoint repeats schema, sidecars and other actions of the checkpoint as its file has them",
        _POINTER_REMEDY,
    ),
)

_CHECKSUMS: Final = (
    Rule("checksum.json", "a .crc is a JSON object with the fields of a version checksum", _WRITE_CHECKSUM, _WARNING),
    Rule("checksum.counts", "numMetadata and numProtocol are 1", _WRITE_CHECKSUM, _WARNING),
    Rule("checksum.version.ahead", "a .crc belongs to a version of the log", _WRITE_CHECKSUM, _WARNING),
    Rule("checksum.size", "tableSizeBytes is the size of all live files", _WRITE_CHECKSUM),
    Rule("checksum.files", "numFiles is the number of live files", _WRITE_CHECKSUM),
    Rule("checksum.deleted", "numDeletedRecordsOpt is the number of rows that vectors delete", _WRITE_CHECKSUM),
    Rule("checksum.vectors", "numDeletionVectorsOpt is the number of live files with a vector", _WRITE_CHECKSUM),
    Rule("checksum.transactions", "setTransactions are those in force", _WRITE_CHECKSUM),
    Rule("checksum.domains", "domainMetadata are those in force", _WRITE_CHECKSUM),
    Rule("checksum.listed", "allFiles are the live files", _WRITE_CHECKSUM),
    Rule("checksum.sizes", "fileSizeHistogram counts the live files by their sizes", _WRITE_CHECKSUM),
    Rule(
        "checksum.deletions",
        "deletedRecordCountsHistogramOpt counts the live files by the rows that vectors delete",
        _WRITE_CHECKSUM,
    ),
    Rule("checksum.txn-id", "txnId is that of the commit", _WRITE_CHECKSUM),
    Rule("checksum.timestamp", "inCommitTimestampOpt is that of the commit", _WRITE_CHECKSUM),
    Rule("checksum.protocol", "protocol is the one in force", _WRITE_CHECKSUM),
    Rule("checksum.metadata", "metadata is the one in force", _WRITE_CHECKSUM),
)

_COMPACTION_REMEDY: Final = "delete it: readers take the commits instead"
_COMPACTIONS: Final = (
    Rule("compaction.version.ahead", "a compaction ends with a version of the log", _COMPACTION_REMEDY),
    Rule(
        "compaction.action.of-commit",
        "a compaction has neither commitInfo nor cdc, which belong to commits",
        _COMPACTION_REMEDY,
        _WARNING,
    ),
    Rule("compaction.state", "a compaction comes to what the commits in its place come to", _COMPACTION_REMEDY),
    Rule(
        "compaction.tombstones.lost",
        "a compaction has the removes of its commits that had not expired when it was written",
        _COMPACTION_REMEDY,
    ),
)

LOG_RULES: Final[Mapping[str, Rule]] = {
    rule.id: rule for rule in (*_LINES, *_LOG, *_CHECKPOINTS, *_POINTER, *_CHECKSUMS, *_COMPACTIONS)
}
"""By id."""


def rule_of(rule_id: str) -> Rule:
    """The rule of an id, of actions or of log files."""
    return LOG_RULES[rule_id] if rule_id in LOG_RULES else RULES[rule_id]
