"""Every rule that an action can break: a stable id, what it demands, and what to do about it.

An id begins with the name of the action on the wire, or with ``commit`` where actions clash.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deltamirror.errors import InvalidAction

__all__ = ["RULES", "Rule", "violation"]

_LONGEST_FOUND = 200


@dataclass(frozen=True, slots=True)
class Rule:
    """What an action has to meet, and the remedy where it does not."""

    id: str
    text: str
    remedy: str


_PATHS = {
    "path.empty": ("a path is not empty", "name the data file, relative to the table's location"),
    "path.absolute-windows": (
        "a path is no path of Windows",
        "name the file relative to the table, or as file:///C:/…",
    ),
    "path.backslash": ("a path has no backslash", "separate folders by '/'; in a name, write %5C"),
    "path.raw-character": ("a path is percent-encoded like a URI", "encode spaces and reserved characters: 'a%20b'"),
    "path.bad-escape": ("a percent sign begins an escape of two hexadecimal digits", "write a percent sign as %25"),
    "path.parent": ("a path has no '..'", "name the file without a detour"),
}
_SIZES = {"size.negative": ("a size is a number of bytes, at least 0", "give the length of the file")}
_PARTITIONS = {
    "partition.unknown": (
        "partition values are those of the table's partition columns, by physical name",
        "leave out columns that the table is not partitioned by",
    ),
    "partition.value": (
        "a partition value is null or the text of a value of its column's type",
        "write it as the protocol does: 2024-01-31, 17, true, 1.50, 2024-01-31T00:00:00.000000Z",
    ),
}
_MISSING_PARTITION = {
    "partition.missing": (
        "every partition column has a value, or null",
        "add the missing column, with null if it has none",
    )
}
_STATS = {
    "stats.json": ("stats is the text of a JSON object", "give statistics as one JSON text, not as an object"),
    "stats.num-records": ("numRecords is an integer, at least 0", "give the number of rows in the file"),
}
_VECTORS = {
    "deletion-vector.feature": (
        "deletion vectors need the table feature deletionVectors",
        "upgrade the protocol first",
    ),
    "deletion-vector.storage-type": ("a deletion vector is stored as u, i or p", "use u for a file of the table"),
    "deletion-vector.path": (
        "a deletion vector's place fits its storage type",
        "u: prefix and 20 characters of the encoded UUID; i: the encoded bitmap; p: an absolute URI",
    ),
    "deletion-vector.offset": (
        "an inline deletion vector has no offset, any other one of at least 0",
        "give the position in the file, 1 for the first one",
    ),
    "deletion-vector.size": ("a deletion vector has a size above 0", "give the length of the bitmap in bytes"),
    "deletion-vector.cardinality": ("a deletion vector deletes 0 rows or more", "give the number of deleted rows"),
}
_ROW_IDS = {
    "row-ids.feature": ("row ids need the table feature rowTracking", "leave them out, or upgrade the protocol first"),
    "row-ids.negative": ("row ids and commit versions are at least 0", "leave them out: they are assigned at commit"),
}
_OF_FILES: Mapping[str, tuple[Mapping[str, tuple[str, str]], ...]] = {
    "add": (_PATHS, _SIZES, _PARTITIONS, _MISSING_PARTITION, _STATS, _VECTORS, _ROW_IDS),
    "remove": (_PATHS, _SIZES, _PARTITIONS, _STATS, _VECTORS, _ROW_IDS),
    "cdc": (_PATHS, _SIZES, _PARTITIONS, _MISSING_PARTITION),
}

_OTHERS = (
    Rule(
        "commit.type",
        "every field has a value of its type",
        "docs/reference/actions.md lists the fields of each action",
    ),
    Rule("commit.metadata-twice", "a commit has at most one metaData", "merge them into one"),
    Rule("commit.protocol-twice", "a commit has at most one protocol", "merge them into one"),
    Rule(
        "commit.app-id-twice", "a commit has at most one txn of an application", "keep the one with the latest version"
    ),
    Rule("commit.domain-twice", "a commit has at most one domainMetadata of a domain", "keep the last one"),
    Rule("commit.add-twice", "a commit adds a path at most once", "keep one add for each file"),
    Rule("commit.remove-twice", "a commit removes a path at most once", "keep one remove for each file"),
    Rule(
        "commit.added-and-removed",
        "a commit does not both add and remove a file with the same deletion vector",
        "leave out both, or re-add the file without removing it",
    ),
    Rule("commitInfo.authored", "we write commitInfo ourselves", "leave it out, or commit the lines verbatim"),
    Rule("commitInfo.twice", "a commit has at most one commitInfo", "keep one"),
    Rule("commitInfo.first", "commitInfo comes first where commits carry their time", "move it to the first line"),
    Rule(
        "commitInfo.in-commit-timestamp",
        "commitInfo has an inCommitTimestamp where commits carry their time",
        "commit through a writer that knows the feature inCommitTimestamp",
    ),
    Rule("checkpointMetadata.in-commit", "checkpointMetadata belongs into checkpoints only", "leave it out"),
    Rule("sidecar.in-commit", "sidecar belongs into checkpoints only", "leave it out"),
    Rule("add.modification-time.negative", "a time is in milliseconds since 1970, at least 0", "give the file's time"),
    Rule(
        "add.deletion-vector.num-records",
        "a file with a deletion vector has numRecords in its stats",
        "give the number of rows in the file, deleted ones included",
    ),
    Rule(
        "add.deletion-vector.exceeds-records",
        "a deletion vector deletes no more rows than the file has",
        "numRecords counts the rows in the file, deleted ones included",
    ),
    Rule("add.clustering.feature", "clusteringProvider needs the table feature clustering", "leave it out"),
    Rule(
        "add.iceberg.num-records", "Iceberg compatibility needs numRecords in every add", "give stats with numRecords"
    ),
    Rule(
        "add.rows-unchecked",
        "the table makes demands on rows that the log cannot show",
        "let an engine check the rows that it writes, and say so: rows_checked=True, or --rows-checked",
    ),
    Rule("remove.deletion-timestamp.missing", "a remove has the time of the deletion", "give deletionTimestamp"),
    Rule("remove.deletion-timestamp.negative", "a time is in milliseconds since 1970, at least 0", "give the time"),
    Rule(
        "remove.append-only",
        "no rows are deleted from a table with delta.appendOnly",
        "set delta.appendOnly to false first; a rewrite without change of data has dataChange false",
    ),
    Rule("cdc.feature", "change data needs delta.enableChangeDataFeed", "leave it out, or enable the feed first"),
    Rule("cdc.data-change", "the dataChange of change data is false", "set it to false"),
    Rule("txn.app-id.empty", "an application has a name", "give appId"),
    Rule("txn.version.negative", "the version of an application is at least 0", "give the progress of the application"),
    Rule(
        "txn.last-updated.negative", "a time is in milliseconds since 1970, at least 0", "leave it out: we fill it in"
    ),
    Rule("domainMetadata.feature", "domains need the table feature domainMetadata", "upgrade the protocol first"),
    Rule("domainMetadata.name.empty", "a domain has a name", "give the domain"),
    Rule("domainMetadata.system", "domains below 'delta.' belong to the writer", "choose a name outside of 'delta.'"),
    Rule("protocol.version", "reader versions are 1 to 3, writer versions 1 to 7", "use versions that exist"),
    Rule(
        "protocol.reader-list",
        "readerFeatures is there if, and only if, the reader version is 3",
        "give it at version 3 only",
    ),
    Rule(
        "protocol.writer-list",
        "writerFeatures is there if, and only if, the writer version is 7",
        "give it at version 7 only",
    ),
    Rule("protocol.writer-behind-reader", "reader version 3 needs writer version 7", "raise the writer version to 7"),
    Rule("protocol.feature-twice", "a feature is listed once", "remove the second one"),
    Rule("protocol.reader-subset", "every reader feature is a writer feature, too", "list it in writerFeatures, too"),
    Rule(
        "protocol.reader-unlisted",
        "a feature that binds readers is in both lists where the reader version is 3, and in none below",
        "list it in readerFeatures, too",
    ),
    Rule("protocol.dependency", "a feature comes with those that it depends on", "list these, too"),
    Rule("protocol.unsupported", "every feature is one that we support", "leave the table to an engine that does"),
    Rule("protocol.downgrade", "a protocol keeps all features of the table but the fence", "name these, too"),
    Rule("metaData.id.empty", "a table has an id", "give a UUID"),
    Rule("metaData.format", "data files are Parquet", "set the format's provider to parquet"),
    Rule("metaData.schema", "the schema is one that Delta can hold", "correct the column that is named"),
    Rule("metaData.created-time.negative", "a time is in milliseconds since 1970, at least 0", "give the time"),
    Rule("metaData.partition.unknown", "a partition column is a column of the schema", "use the schema's spelling"),
    Rule("metaData.partition.nested", "a partition column is not inside another column", "partition by a top column"),
    Rule("metaData.partition.twice", "a partition column is named once", "remove the second one"),
    Rule(
        "metaData.partition.type", "a partition column is no struct, array, map, variant or void", "use another column"
    ),
    Rule("metaData.partition.all", "a table has a column that it is not partitioned by", "partition by fewer columns"),
    Rule(
        "metaData.configuration.protocol",
        "the configuration has no words about the protocol",
        "name features in the protocol, not in the configuration",
    ),
    Rule("metaData.configuration.value", "a property that Delta defines has a value of its kind", "correct the value"),
    Rule("metaData.column-mapping.id", "under column mapping, columns have unique ids above 0", "number the columns"),
    Rule(
        "metaData.column-mapping.physical-name",
        "under column mapping, columns have unique physical names",
        "give each column a physical name, and keep it for ever",
    ),
    Rule(
        "metaData.column-mapping.max-id",
        "delta.columnMapping.maxColumnId is at least the largest column id",
        "raise it together with the ids",
    ),
    Rule(
        "metaData.in-commit-timestamp",
        "the version and the time of the enablement of in-commit timestamps come together",
        "set both properties or none",
    ),
    Rule("metaData.row-tracking", "row tracking is not both enabled and suspended", "unset one of the two properties"),
    Rule(
        "metaData.row-tracking.materialized",
        "row tracking has names for the two columns that keep ids and versions through rewrites",
        "set both delta.rowTracking.materialized… properties",
    ),
    Rule("metaData.features", "the protocol has the features that the metadata uses", "upgrade the protocol as well"),
)


def _file_rules() -> Iterator[Rule]:
    for action, groups in _OF_FILES.items():
        for group in groups:
            yield from (Rule(f"{action}.{name}", text, remedy) for name, (text, remedy) in group.items())


RULES: Mapping[str, Rule] = {rule.id: rule for rule in (*_file_rules(), *_OTHERS)}


def violation(rule: str, *, action: str, index: int | None, field: str, found: object) -> InvalidAction:
    """The error for an action that breaks a rule: it names action, field, rule, and what was found."""
    broken = RULES[rule]
    text = "nothing" if found is None else found if isinstance(found, str) else repr(found)
    text = text if len(text) <= _LONGEST_FOUND else text[: _LONGEST_FOUND - 1] + "…"
    place = action if index is None else f"action {index + 1} ({action})"
    where = f"{place}, {field}" if field else place
    return InvalidAction(
        f"{where}: {broken.text}; found {text!r}",
        hint=broken.remedy,
        rule=rule,
        action=action,
        index=index,
        field=field,
        found=text,
    )
